#include "main/batch_run.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "kernels/error.h"
#include "kernels/log.h"

namespace loci::cli {
namespace {

// The window: far more than runs at once, so that prompts with a common beginning find each other.
constexpr size_t kWindowLines = 4096;
constexpr int64_t kWindowBytes = int64_t{64} << 20;
// Lines read between two steps of the engine, so that reading never holds it up for long.
constexpr int kLinesPerStep = 64;
constexpr int kWaitMs = 200;  // for a pipe, between looks at the interrupt

}  // namespace

BatchRunner::BatchRunner(Engine& engine, LineReader& reader, BatchLedger& ledger, BatchOutput& output,
                         const BatchSettings& settings)
    : engine_(engine),
      reader_(reader),
      ledger_(ledger),
      output_(output),
      settings_(settings),
      format_(settings.format) {}

void BatchRunner::run(const interrupt::Answering& answering) {
  const auto most_open = 2 * static_cast<size_t>(settings_.n_parallel);  // the next ones wait in the engine
  while (!answering.interrupted()) {
    refill(answering);
    while (!queue_.empty() && n_open_choices_ < most_open) start(queue_.take());
    if (active_.empty() && queue_.empty() && at_end_) break;
    if (!active_.empty()) {
      engine_.step();
      collect();
    }
    show_progress();
  }
  while (!active_.empty()) {
    engine_.cancel_all();
    engine_.step();
    collect();
  }
  progress_.clear();
  output_.sync();
}

void BatchRunner::refill(const interrupt::Answering& answering) {
  const bool idle = active_.empty();
  const int most = idle ? static_cast<int>(kWindowLines) : kLinesPerStep;
  for (int n = 0; n < most && !at_end_ && !answering.interrupted(); ++n) {
    if (queue_.size() >= kWindowLines || queue_.n_bytes() >= kWindowBytes) return;
    InputLine line;
    switch (reader_.next(line, idle && queue_.empty() ? kWaitMs : 0)) {
      case LineReader::Status::kLine:
        take_line(line);
        break;
      case LineReader::Status::kEnd:
        at_end_ = true;
        break;
      case LineReader::Status::kNothingYet:
        return;
    }
  }
}

void BatchRunner::take_line(const InputLine& input) {
  ++counts_.n_lines;
  if (format_ == BatchFormat::kAuto) {
    const size_t first = input.text.find_first_not_of(" \t");
    const bool is_json = first != std::string::npos && input.text[first] == '{';
    format_ = is_json ? BatchFormat::kJsonl : BatchFormat::kText;
  }
  BatchLine line = format_ == BatchFormat::kJsonl ? read_json_line(input)
                                                  : read_text_line(input, settings_.text_is_chat, settings_.system);
  const BatchLedger::Answer known = ledger_.look_up(line.custom_id, input.text);
  counts_.n_changed += known.changed ? 1 : 0;
  switch (known.verdict) {
    case BatchLedger::Verdict::kNew:
      break;
    case BatchLedger::Verdict::kDone:
      ++counts_.n_skipped;
      return;
    case BatchLedger::Verdict::kFailed:
    case BatchLedger::Verdict::kDuplicateTold:
      ++counts_.n_skipped_failed;
      return;
    case BatchLedger::Verdict::kDuplicate:
      return write_failure(
          line.custom_id, known.request_id,
          server::to_api_error(Error(ErrorKind::kInvalidInput, str("custom_id: an earlier line has it too (line ",
                                                                   input.number, " is not run)"))),
          "duplicate_custom_id");
  }
  if (line.error) return write_failure(line.custom_id, known.request_id, *line.error, line.error_code);
  BatchJob job{line.custom_id, known.request_id, {}};
  try {
    job.request = server::parse_completion(line.endpoint, line.body, settings_.defaults);
    if (job.request.stream) server::reject_field("stream", "a batch writes whole answers, expected false");
  } catch (const Error& error) {
    return write_failure(job.custom_id, job.request_id, server::to_api_error(error), "");
  }
  if (const auto error = check_context(job.request, settings_.defaults.n_ctx)) {
    return write_failure(job.custom_id, job.request_id, *error, "");
  }
  // Without a seed of its own a line has one that depends on its id: the same file gives the same answers again.
  if (job.request.sampling.seed < 0) {
    job.request.sampling.seed = static_cast<int64_t>(stable_number(job.custom_id) & 0xffffffff);
  }
  queue_.add(std::move(job));
}

void BatchRunner::start(BatchJob job) {
  Active active;
  active.job = std::move(job);
  const server::CompletionRequest& request = active.job.request;
  for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
    std::vector<std::unique_ptr<server::ChoiceRecorder>> choices;
    std::vector<TokenSink*> sinks;
    for (int i = 0; i < request.n; ++i) {
      choices.push_back(std::make_unique<server::ChoiceRecorder>(request, engine_.tokenizer()));
      sinks.push_back(choices.back().get());
    }
    try {
      active.ids.push_back(engine_.submit(engine_request(request, prompt, std::move(sinks))));
    } catch (const Error& error) {
      active.error = server::to_api_error(error);
      for (const RequestId id : active.ids) engine_.cancel(id);
      break;
    }
    std::move(choices.begin(), choices.end(), std::back_inserter(active.choices));
  }
  n_open_choices_ += active.choices.size();
  active_.push_back(std::move(active));
}

void BatchRunner::collect() {
  for (size_t i = 0; i < active_.size();) {
    const Active& active = active_[i];
    if (!std::all_of(active.choices.begin(), active.choices.end(), [](const auto& c) { return c->finished(); })) {
      ++i;
      continue;
    }
    finish(active);
    n_open_choices_ -= active.choices.size();
    active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void BatchRunner::finish(const Active& active) {
  const BatchJob& job = active.job;
  if (active.error) return write_failure(job.custom_id, job.request_id, *active.error, "");
  std::vector<const server::ChoiceRecorder*> choices;
  bool cancelled = false, late = false;
  for (const auto& choice : active.choices) {
    choices.push_back(choice.get());
    const RequestStats& stats = choice->stats();
    if (stats.reason == FinishReason::kError) {
      return write_failure(job.custom_id, job.request_id,
                           server::to_api_error(Error(ErrorKind::kInternal, stats.error)), "");
    }
    cancelled = cancelled || stats.reason == FinishReason::kCancelled;
    late = late || stats.reason == FinishReason::kDeadline;
  }
  if (cancelled) {
    ++counts_.n_dropped;
    return;
  }
  // How far an answer came by then depends on the clock: it is no result.
  if (late) {
    return write_failure(job.custom_id, job.request_id, server::timed_out(job.request.timeout_ms), "request_timeout");
  }
  const server::ResponseStamp stamp{"chatcmpl-" + stable_id({job.request_id, "answer"}), std::time(nullptr),
                                    settings_.model_name, settings_.fingerprint};
  output_.write(
      success_line(job.custom_id, job.request_id, completion_json(job.request, choices, engine_.tokenizer(), stamp)));
  ++counts_.n_answered;
  for (size_t i = 0; i < choices.size(); ++i) {
    const RequestStats& stats = choices[i]->stats();
    counts_.n_predicted_tokens += stats.n_predicted;
    if (i % static_cast<size_t>(job.request.n) != 0) continue;
    counts_.n_prompt_tokens += stats.n_prompt;
    counts_.n_cached_tokens += stats.n_cached;
  }
}

void BatchRunner::write_failure(const std::string& custom_id, const std::string& request_id,
                                const server::ApiError& error, const std::string& code) {
  output_.write(failure_line(custom_id, request_id, error, code));
  ++counts_.n_failed;
}

void BatchRunner::show_progress() {
  if (!progress_.due()) return;
  int64_t n_running_tokens = 0;
  for (const Active& active : active_) {
    for (const auto& choice : active.choices) n_running_tokens += choice->n_tokens();
  }
  int64_t n_total = settings_.n_total_lines;
  const bool is_estimate = n_total < 0;
  if (is_estimate && reader_.is_file() && reader_.n_read_bytes() > 0) {
    n_total = at_end_ ? counts_.n_lines
                      : static_cast<int64_t>(static_cast<double>(counts_.n_lines) *
                                             static_cast<double>(reader_.n_total_bytes()) /
                                             static_cast<double>(reader_.n_read_bytes()));
  }
  progress_.update(counts_, n_total, is_estimate && !at_end_, n_running_tokens);
}

}  // namespace loci::cli
