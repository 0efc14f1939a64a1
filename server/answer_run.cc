#include "server/answer_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace loci::server {
namespace {

constexpr int kLookMs = 50;  // between two looks at whether the client is still there

class AnswerRun {
 public:
  AnswerRun(Service& service, CompletionRequest request, const std::string& id_prefix,
            std::unique_ptr<AnswerFormat> format)
      : service_(service),
        request_(std::move(request)),
        stamp_(service.stamp(id_prefix)),
        format_(std::move(format)),
        choices_(request_.n_choices()) {
    recorders_.reserve(choices_.size());
    for (Choice& choice : choices_) {
      recorders_.emplace_back(request_, service.tokenizer());
      recorder_pointers_.push_back(&recorders_.back());
      choice.parser.emplace(output_parser(request_, id_seed_of(stamp_.id, recorders_.size() - 1), true));
    }
    generation_.emplace(service.thread(), request_);
    LiveRequest live;
    for (const PromptTokens& prompt : request_.prompts) live.n_prompt += static_cast<int64_t>(prompt.tokens.size());
    live.n_remain = request_.max_tokens;
    live.speculative = request_.speculation.mode != SpeculationMode::kNone;
    live_number_ = service.live().add(live);
  }
  ~AnswerRun() { service_.live().remove(live_number_); }
  AnswerRun(const AnswerRun&) = delete;
  AnswerRun& operator=(const AnswerRun&) = delete;

  AnswerFormat& format() { return *format_; }

  void send_whole(Exchange& exchange) {
    while (n_open() > 0) {
      if (const std::optional<GenerationEvent> event = generation_->next(kLookMs)) record(*event);
      if (left(exchange.watch())) {
        generation_->cancel();
        return exchange.send_error(gone());
      }
    }
    if (const std::optional<ApiError> error = failure(true)) return exchange.send_error(*error);
    exchange.send_json(format_->whole(view()));
  }

  void stream(const ClientWatch& client, EventStream& out) {
    format_->begin(out, view());
    while (n_open() > 0 && out.alive()) {
      if (left(client)) return generation_->cancel();
      const std::optional<GenerationEvent> event = generation_->next(kLookMs);
      if (!event) {
        out.ping_if_silent();
        continue;
      }
      record(*event);
      if (const std::optional<ApiError> error = failure(false)) {
        generation_->cancel();
        return format_->error(out, *error);
      }
      show(*event, out);
    }
    if (out.alive()) format_->end(out, view());
  }

 private:
  struct Choice {
    std::optional<OutputParser> parser;
    std::vector<int32_t> tokens;  // not shown yet
    size_t n_shown_records = 0, n_shown_record_bytes = 0;
  };

  AnswerView view() const { return {request_, stamp_, service_.tokenizer(), recorder_pointers_}; }
  size_t n_open() const { return choices_.size() - n_finished_; }

  // Asks the system now and then only.
  bool left(const ClientWatch& client) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return false;
    next_look_ = now + std::chrono::milliseconds(kLookMs);
    return client.gone();
  }

  static ApiError gone() { return api_error(499, "invalid_request_error", "the client has closed the connection"); }

  void record(const GenerationEvent& event) {
    ChoiceRecorder& recorder = recorders_[event.choice];
    recorder.note_time(event.ms);
    service_.live().update(live_number_, [&](LiveRequest& live) {
      if (event.kind == GenerationEvent::Kind::kPrompt) {
        live.n_prompt_done = event.n_done;
        live.n_prompt_cached = event.n_cached;
      } else if (event.kind == GenerationEvent::Kind::kToken) {
        ++live.n_decoded;
        if (live.n_remain > 0) --live.n_remain;
      }
    });
    if (event.kind == GenerationEvent::Kind::kPrompt) recorder.on_prompt(event.n_done, event.n_total, event.n_cached);
    if (event.kind == GenerationEvent::Kind::kPromptToken) recorder.on_prompt_token(event.position, event.top);
    if (event.kind == GenerationEvent::Kind::kToken) recorder.on_token(event.token, event.text, event.top);
    if (event.kind != GenerationEvent::Kind::kFinish) return;
    recorder.on_finish(event.text, event.stats);
    recorder.set_pooled(event.pooled);
    ++n_finished_;
    service_.note_finished(event.stats, event.ms);
  }

  // What makes the answer an error. A stream that is late has at least a beginning.
  std::optional<ApiError> failure(bool whole) const {
    for (const ChoiceRecorder& recorder : recorders_) {
      if (!recorder.finished()) continue;
      const RequestStats& stats = recorder.stats();
      if (stats.reason == FinishReason::kError) return to_api_error(Error(ErrorKind::kInternal, stats.error));
      if (stats.reason == FinishReason::kDeadline && whole) return timed_out(request_.timeout_ms);
      if (stats.reason == FinishReason::kCancelled) {
        return api_error(503, "unavailable_error", "the server is shutting down");
      }
    }
    return std::nullopt;
  }

  void show(const GenerationEvent& event, EventStream& out) {
    Choice& choice = choices_[event.choice];
    const ChoiceRecorder& recorder = recorders_[event.choice];
    if (event.kind == GenerationEvent::Kind::kPrompt) {
      if (!request_.return_progress) return;
      Json progress;
      progress["total"] = event.n_total;
      progress["cache"] = event.n_cached;
      progress["processed"] = event.n_done;
      progress["time_ms"] = event.ms;
      return format_->progress(out, view(), event.choice, progress);
    }
    if (event.kind == GenerationEvent::Kind::kPromptToken) return;  // whole answers alone have those
    const bool at_end = event.kind == GenerationEvent::Kind::kFinish;
    ChoiceDelta delta;
    delta.choice = event.choice;
    delta.text = event.text;
    delta.parts = choice.parser->feed(event.text);
    if (!at_end) choice.tokens.push_back(event.token);
    if (at_end) {
      const std::vector<OutputDelta> rest = choice.parser->finish();
      delta.parts.insert(delta.parts.end(), rest.begin(), rest.end());
    }
    if (!delta.text.empty() || !delta.parts.empty()) {
      delta.tokens = std::exchange(choice.tokens, {});
      delta.records = new_records(choice, recorder, at_end);
      format_->delta(out, view(), delta);
    }
    if (at_end) format_->finish(out, view(), event.choice);
  }

  // Those whose text has been shown. The rest may turn out to belong to a stop text, which is no part of the answer.
  static std::span<const TokenRecord> new_records(Choice& choice, const ChoiceRecorder& recorder, bool at_end) {
    const std::vector<TokenRecord>& records = recorder.records();
    const size_t first = std::min(choice.n_shown_records, records.size());
    size_t end = first;
    while (end < records.size() && (at_end || choice.n_shown_record_bytes < recorder.text().size())) {
      choice.n_shown_record_bytes += records[end++].bytes.size();
    }
    choice.n_shown_records = end;
    return std::span(records).subspan(first, end - first);
  }

  Service& service_;
  const CompletionRequest request_;
  const ResponseStamp stamp_;
  std::unique_ptr<AnswerFormat> format_;
  std::vector<Choice> choices_;
  std::vector<ChoiceRecorder> recorders_;
  std::vector<const ChoiceRecorder*> recorder_pointers_;
  size_t n_finished_ = 0;
  int live_number_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  std::optional<Generation> generation_;
};

}  // namespace

void run_answer(Service& service, Exchange& exchange, CompletionRequest request, const std::string& id_prefix,
                std::unique_ptr<AnswerFormat> format) {
  if (const auto error = check_context(request, service.defaults().n_ctx)) return exchange.send_error(*error);
  const bool streams = request.stream;
  const auto run = std::make_shared<AnswerRun>(service, std::move(request), id_prefix, std::move(format));
  if (!streams) return run->send_whole(exchange);
  const int ping_s = service.settings().sse_ping_s;
  exchange.send_stream(run->format().stream_type(), [run, ping_s, client = exchange.watch()](StreamWriter& writer) {
    EventStream out(writer, ping_s);
    run->stream(client, out);
  });
}

}  // namespace loci::server
