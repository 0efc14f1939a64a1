#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "engine/cache_text.h"
#include "engine/constraint/mask_worker.h"
#include "engine/kv/cache_file.h"
#include "engine/kv/kv_formats.h"
#include "engine/kv/kv_manager.h"
#include "engine/kv/pool_size.h"
#include "engine/memory.h"
#include "engine/model/arch.h"
#include "engine/model/decoder.h"
#include "engine/model/weights.h"
#include "engine/model_info.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler.h"
#include "engine/spec/drafter_list.h"
#include "engine/spec/speculator.h"
#include "engine/text/detokenizer.h"
#include "kernels/backend.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/log.h"

namespace loci {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxContext = int64_t{1} << 24;
constexpr int kMaxUbatch = 1 << 16;
constexpr int kMaxSequences = 1 << 12;
constexpr int kMaxSamples = 1 << 10;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

struct LiveRequest : Sequence {
  LiveRequest(Request r, const Tokenizer& tokenizer)
      : request(std::move(r)),
        sampler(request.sampling, tokenizer, request.constraint),
        detokenizer(tokenizer, request.stops, request.show_special) {
    tokens = std::move(request.prompt);
    n_prompt = static_cast<int64_t>(tokens.size());
    priority = request.priority;
    wants_prompt_rows = request.n_prompt_logprobs >= 0 || request.wants_hidden;
    cache_prompt = request.cache_prompt && !wants_prompt_rows;
    wants_logits = request.max_tokens != 0;
    for (const int32_t token : tokens) sampler.accept(token, true);
    if (request.timeout_ms >= 0) deadline = submitted + std::chrono::milliseconds(request.timeout_ms);
  }

  Request request;  // its prompt has moved into `tokens`
  Sampler sampler;
  Detokenizer detokenizer;
  RequestStats stats;
  Clock::time_point submitted = Clock::now(), deadline = Clock::time_point::max();
  Clock::time_point started, first_token, last_token;
  bool has_started = false, has_token = false;
  int64_t n_prompt_rows_told = 0;  // to on_prompt_token() or on_hidden()
  int64_t draft_key = 0;           // names the sample to the drafters
  // Further samples, until the prompt is computed: then they are forked off.
  std::vector<std::unique_ptr<LiveRequest>> samples;
};

LiveRequest& live(Sequence* sequence) { return static_cast<LiveRequest&>(*sequence); }

// Pages of a sequence outside the scheduler, freed whatever happens.
struct HeldPages {
  explicit HeldPages(KvManager& manager) : kv(manager) {}
  ~HeldPages() { kv.release(std::move(sequence)); }
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;

  KvManager& kv;
  KvSequence sequence;
};

void require_range(const char* what, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    fail(ErrorKind::kInvalidInput, what, ": expected a whole number from ", low, " to ", high, ", found ", value);
  }
}

// Fills every "auto" and checks the rest, once.
EngineConfig complete(EngineConfig config, const ArchSpec& arch) {
  require_range("context size", config.n_ctx, 0, kMaxContext);
  require_range("sequences", config.max_sequences, 1, kMaxSequences);
  require_range("threads", config.n_threads, 0, 4096);
  require_range("batch threads", config.n_threads_batch, 0, 4096);
  require_range("page size", config.kv.page_size, 16, 4096);
  if (config.kv.page_size % 16 != 0) {
    fail(ErrorKind::kInvalidInput, "page size: expected a multiple of 16, found ", config.kv.page_size);
  }
  check_kv_formats(arch, config.kv);
  if (config.n_ctx == 0) config.n_ctx = std::min(arch.n_ctx_train, kMaxContext);
  if (config.n_ctx > arch.n_ctx_train) {
    log_warn("context of ", config.n_ctx, " tokens is longer than the ", arch.n_ctx_train,
             " the model was trained with; answers may degrade");
  }
  require_range("batch size", config.n_batch, 1, INT32_MAX);
  require_range("micro-batch size", config.n_ubatch, 1, INT32_MAX);
  config.n_batch = static_cast<int>(std::min<int64_t>(config.n_batch, config.n_ctx));
  config.n_ubatch = std::min(config.n_ubatch, config.n_batch);
  require_range("queue limit", config.max_queue, 0, INT32_MAX);
  if (!(config.max_stall_ms >= 0)) {
    fail(ErrorKind::kInvalidInput, "longest stall: expected milliseconds >= 0, found ", config.max_stall_ms);
  }
  if (!(config.ageing_ms > 0)) {
    fail(ErrorKind::kInvalidInput, "ageing time: expected milliseconds > 0, found ", config.ageing_ms);
  }
  require_range("micro-batch size", config.n_ubatch, 1, kMaxUbatch);
  return config;
}

PoolNeeds pool_needs(std::span<const KvLayerShape> layers, const EngineConfig& config) {
  PoolNeeds needs = kv_pool_needs(layers, config);
  needs.available_bytes = available_memory_bytes();
  return needs;
}

void check_weight_memory(const gguf::File& file) {
  const int64_t available = available_memory_bytes();
  int64_t wanted = 0;
  for (const TensorView& tensor : file.tensors()) wanted += tensor.n_bytes();
  if (available >= 0 && wanted > available) {
    fail(ErrorKind::kOutOfMemory, file.path(), ": the weights need ", bytes_text(wanted), ", ", bytes_text(available),
         " are available; a smaller quantization would fit");
  }
}

}  // namespace

struct Engine::Impl {
  EngineConfig config;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<gguf::File> file;
  gguf::Metadata metadata;
  std::unique_ptr<Tokenizer> tokenizer;
  ArchSpec arch;
  Weights weights;
  std::unique_ptr<KvManager> kv;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Speculator> speculator;
  std::unique_ptr<ConstraintCompiler> constraints;
  MaskWorker masks;
  uint64_t draft_fingerprint = 0;  // 0: no draft model
  int64_t next_draft_key = 1;
  ModelInfo info;
  CacheNamespace ns;
  std::vector<int32_t> last_kept;  // tokens of the sequence kept last
  SavedCache saved;                // the cache file written or read last
  RequestId next_id = 1;

  std::mutex cancel_mutex;
  std::vector<RequestId> cancel_ids;     // guarded by cancel_mutex
  std::atomic<bool> cancel_some{false};  // cancel_ids is not empty
  std::atomic<bool> cancel_everything{false};

  Metrics metrics;
  mutable std::mutex metrics_mutex;
  Metrics published_metrics;  // guarded by metrics_mutex: `metrics` as of the last step

  CacheIdentity cache_identity() const {
    const std::string device = info.backend.substr(0, info.backend.find(','));  // without the number of threads
    // Pages hold the draft model's K/V too.
    return {ns.model ^ draft_fingerprint, device + (config.precise ? " precise" : "")};
  }

  // Ends what was cancelled and what is late.
  void process_cancellations() {
    const bool everything = cancel_everything.exchange(false);
    std::vector<RequestId> ids;
    if (cancel_some.exchange(false)) {
      const std::lock_guard lock(cancel_mutex);
      ids.swap(cancel_ids);
    }
    const Clock::time_point now = Clock::now();
    for (Sequence* sequence : scheduler->sequences()) {
      if (everything || std::find(ids.begin(), ids.end(), sequence->id) != ids.end()) {
        finish(sequence, FinishReason::kCancelled);
      } else if (live(sequence).deadline <= now) {
        finish(sequence, FinishReason::kDeadline);
      }
    }
  }

  // Asked at layer borders: has the step lost its point? It has when at least half of its rows belong to requests that
  // were cancelled or are late. For fewer the others would lose more than is won.
  bool abandons(const Step& step) {
    if (cancel_everything) return true;
    std::vector<RequestId> ids;
    if (cancel_some) {
      const std::lock_guard lock(cancel_mutex);
      ids = cancel_ids;
    }
    const Clock::time_point now = Clock::now();
    int64_t n_lost = 0;
    for (size_t i = 0; i < step.entries.size(); ++i) {
      const bool cancelled = std::find(ids.begin(), ids.end(), step.entries[i]->id) != ids.end();
      if (cancelled || live(step.entries[i]).deadline <= now) {
        n_lost += step.row_indptr[i + 1] - step.row_indptr[i];
      }
    }
    return n_lost > 0 && 2 * n_lost >= step.batch.n_rows();
  }

  void finish(Sequence* sequence, FinishReason reason, const std::string& error = "") {
    if (!sequence->drafts.empty()) settle(live(sequence));
    const bool keep = sequence->cache_prompt && reason != FinishReason::kError;
    if (keep) last_kept = sequence->kv.tokens;
    const std::unique_ptr<Sequence> taken = scheduler->remove(sequence, keep);
    LiveRequest& request = live(taken.get());
    for (const auto& sample : request.samples) sample->cache = request.cache;
    report(request, reason, error);
    for (const auto& sample : request.samples) report(*sample, reason, error);
  }

  void report(LiveRequest& request, FinishReason reason, const std::string& error) {
    const Clock::time_point now = Clock::now();
    RequestStats& stats = request.stats;
    stats.reason = reason;
    stats.error = error;
    stats.stop_string = reason == FinishReason::kStopString ? request.detokenizer.stop_found() : "";
    stats.n_prompt = request.n_prompt;
    stats.n_cached = request.cache.n_cached;
    stats.cache_miss = cache_miss_text(
        request.cache, std::span(request.tokens).first(static_cast<size_t>(request.n_prompt)), *tokenizer);
    stats.cache = std::move(request.cache);
    stats.seed = request.sampler.seed();
    stats.queue_ms = ms_between(request.submitted, request.has_started ? request.started : now);
    if (request.has_started)
      stats.prompt_ms = ms_between(request.started, request.has_token ? request.first_token : now);
    if (request.has_token) stats.predicted_ms = ms_between(request.first_token, now);
    if (const ConstraintState* constraint = request.sampler.constraint()) stats.constraint = constraint->costs();
    if (request.draft_key > 0) {
      stats.speculation = speculator->stats(request.draft_key);
      speculator->forget(request.draft_key, request.tokens);
    }
    ++metrics.n_finished[static_cast<size_t>(reason)];
    if (request.request.sink != nullptr) request.request.sink->on_finish(request.detokenizer.finish(), stats);
  }

  // One row of logits has come for a request: choose, show, go on or end. False when it has ended.
  bool take_logits(LiveRequest& request, std::span<const float> logits) {
    const Clock::time_point now = Clock::now();
    if (!request.has_token) {
      request.has_token = true;
      request.first_token = now;
      metrics.first_token_ms.add(ms_between(request.submitted, now));
    } else {
      metrics.between_tokens_ms.add(ms_between(request.last_token, now));
    }
    request.last_token = now;
    const auto n_nan = std::count_if(logits.begin(), logits.end(), [](float v) { return std::isnan(v); });
    if (n_nan > 0) {
      finish(&request, FinishReason::kError,
             str("the model computed ", n_nan, " NaN of ", logits.size(), " logits at position ",
                 request.n_computed() - 1));
      return false;
    }
    const std::optional<int32_t> token = request.sampler.sample(logits);
    if (!token && request.sampler.constraint() != nullptr) {
      // A grammar that is complete, and no end token allowed by the vocabulary or --ignore-eos.
      const bool complete = request.sampler.constraint()->is_complete();
      finish(&request, complete ? FinishReason::kEndToken : FinishReason::kError,
             complete ? "" : "the grammar leaves no token that the other settings allow");
      return false;
    }
    if (!token) {
      finish(&request, FinishReason::kError, str("no token has a finite logit at position ", request.n_computed() - 1));
      return false;
    }
    if (request.draft_key != 0 && speculator->wants_certainty(request.draft_key, request.request.speculation)) {
      speculator->note_certainty(request.draft_key, top_probability(logits));
    }
    if (!request.sampler.accept(*token, false)) {
      finish(&request, FinishReason::kError, str("the grammar lost its way at position ", request.n_computed() - 1));
      return false;
    }
    request.tokens.push_back(*token);
    request.drafts.follow(*token);
    ++request.stats.n_predicted;
    ++metrics.n_generated_tokens;
    const bool ends = request.request.stop_at_end && tokenizer->is_end_of_generation(*token);
    const std::string text = ends && !request.request.show_special ? "" : request.detokenizer.add(*token);
    if (request.request.sink != nullptr) {
      const int n_top = request.request.n_top_logprobs;
      const std::vector<TokenProb> top = n_top > 0 ? top_logprobs(logits, n_top, *token) : std::vector<TokenProb>();
      request.request.sink->on_token(*token, text, top);
    }
    const int64_t max_tokens = request.request.max_tokens;
    std::optional<FinishReason> end;
    if (!request.detokenizer.stop_found().empty()) {
      end = FinishReason::kStopString;
    } else if (ends) {
      end = FinishReason::kEndToken;
    } else if (max_tokens >= 0 && request.stats.n_predicted >= max_tokens) {
      end = FinishReason::kLimit;
    } else if (static_cast<int64_t>(request.tokens.size()) > config.n_ctx) {
      end = FinishReason::kContextFull;
    }
    if (end) finish(&request, *end);
    return !end;
  }

  bool step() {
    process_cancellations();
    draft();
    const Clock::time_point start = Clock::now();
    Step next = scheduler->next_step(ms_between({}, start));
    for (Sequence* sequence : next.stuck) finish(sequence, FinishReason::kContextFull);
    if (!next.batch.empty()) compute(next, start);
    // Of those that the step had no rows for, or that was abandoned.
    for (Sequence* sequence : scheduler->decoding()) drop_drafts(sequence->drafts, *kv);
    publish_metrics();
    return !scheduler->idle();
  }

  // Tokens that a request could still be given in one step, were all drafts right.
  int64_t tokens_left(const LiveRequest& request) const {
    const int64_t in_context = config.n_ctx - static_cast<int64_t>(request.tokens.size()) + 1;
    const int64_t max_tokens = request.request.max_tokens;
    return max_tokens < 0 ? in_context : std::min(in_context, max_tokens - request.stats.n_predicted);
  }

  // Drafts for the next step. Pages are reserved for them if there are any to spare, and rows kept for prompts.
  void draft() {
    const std::vector<Sequence*> decoding = scheduler->decoding();
    std::vector<Speculator::Candidate> candidates;
    std::vector<LiveRequest*> owners;
    for (Sequence* sequence : decoding) {
      LiveRequest& request = live(sequence);
      const Speculation& params = request.request.speculation;
      if (params.mode == SpeculationMode::kNone || !request.samples.empty()) continue;
      const auto n_tokens = static_cast<int64_t>(request.tokens.size());
      const int64_t left = tokens_left(request);
      const int64_t depth = std::min({int64_t{params.max_tokens}, left - 1, int64_t{config.n_ubatch} - 1});
      if (depth < 1 || kv->n_available_pages() < kv->n_pages_for(depth) + scheduler->n_running()) continue;
      if (!kv->reserve(request.kv, n_tokens + depth)) continue;
      if (request.draft_key == 0) request.draft_key = next_draft_key++;
      candidates.push_back({.job = {.key = request.draft_key,
                                    .tokens = request.tokens,
                                    .kv = &request.kv,
                                    .sampler = &request.sampler,
                                    .params = &params,
                                    .max_depth = static_cast<int>(depth),
                                    .go_on = {},
                                    .tree = {}},
                            .tokens_left = left,
                            .n_predicted = request.stats.n_predicted});
      owners.push_back(&request);
    }
    if (candidates.empty()) return;
    speculator->plan(candidates, static_cast<int64_t>(decoding.size()));
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].job.tree.empty()) continue;
      if (ConstraintState* constraint = owners[i]->sampler.constraint()) {
        candidates[i].job.tree.keep(constraint->allowed_nodes(candidates[i].job.tree));
        if (candidates[i].job.tree.empty()) continue;
      }
      attach_drafts(owners[i]->drafts, std::move(candidates[i].job.tree), owners[i]->kv, *kv,
                    [&](int32_t src, int32_t dst) { speculator->page_copied(src, dst); });
    }
  }

  // The drafts of a request were judged, as far as it goes on.
  void settle(LiveRequest& request) {
    const Drafts& drafts = request.drafts;
    speculator->note_outcome(request.draft_key, drafts.tree, drafts.accepted, drafts.next);
    const auto count = [&](std::array<int64_t, Metrics::kDraftPositions>& counts, int32_t depth) {
      for (int32_t d = 0; d < depth; ++d) ++counts[static_cast<size_t>(std::min(d, Metrics::kDraftPositions - 1))];
    };
    count(metrics.n_drafted, drafts.tree.max_depth());
    count(metrics.n_accepted, drafts.tree.depth(drafts.accepted));
    settle_drafts(request.drafts, request.kv, *kv);
  }

  // The forward pass, and beside it the masks of the requests under a grammar whose logits it brings.
  bool forward_with_masks(const Step& next) {
    std::vector<MaskWorker::Job> jobs;
    for (size_t i = 0; i < next.entries.size(); ++i) {
      LiveRequest& request = live(next.entries[i]);
      if (request.sampler.constraint() == nullptr || !request.wants_logits) continue;
      if (next.n_token_rows[i] != request.n_pending()) continue;  // not yet its last row
      jobs.push_back({request.sampler.constraint(), &request.drafts.tree});
      for (const auto& sample : request.samples) jobs.push_back({sample->sampler.constraint(), nullptr});
    }
    const std::vector<MaskWorker::Job> begun = jobs;
    masks.start(std::move(jobs));
    bool done = false;
    try {
      done = decoder->forward(next.batch, [&] { return abandons(next); });
    } catch (...) {
      masks.finish();  // what it works on must not go away under it
      throw;
    }
    if (begun.empty()) return done;
    const double wait_ms = masks.finish();
    for (const MaskWorker::Job& job : begun) job.state->add_wait_ms(wait_ms);
    return done;
  }

  void compute(const Step& next, Clock::time_point start) {
    for (Sequence* sequence : next.entries) {
      LiveRequest& request = live(sequence);
      if (request.has_started) continue;
      request.has_started = true;
      request.started = start;
      metrics.queue_ms.add(ms_between(request.submitted, start));
    }
    ++metrics.n_steps;
    const int64_t kv_bytes_before = backend->kv_bytes_read();
    const bool done = forward_with_masks(next);
    const int64_t kv_bytes = backend->kv_bytes_read() - kv_bytes_before;
    metrics.kv_bytes_read += kv_bytes;
    if (!done) {
      ++metrics.n_abandoned_steps;  // the next step ends what was cancelled and computes the rest again
      return;
    }
    const double step_ms = ms_between(start, Clock::now());
    metrics.step_ms.add(step_ms);
    metrics.n_prefill_rows += next.n_prefill_rows;
    metrics.n_decode_rows += next.n_decode_rows;
    scheduler->commit(next, step_ms);
    const int64_t n_generated_before = metrics.n_generated_tokens;
    deliver(next);
    if (next.n_prefill_rows > 0) return;
    metrics.decode_kv_bytes_read += kv_bytes;
    metrics.n_decode_step_tokens += metrics.n_generated_tokens - n_generated_before;
    speculator->note_step(next.n_decode_rows, ms_between(start, Clock::now()));
  }

  void publish_metrics() {
    metrics.n_waiting = scheduler->n_waiting();
    metrics.n_running = scheduler->n_running();
    metrics.pages_total = kv->n_pages();
    const KvStats stats = kv->stats();
    metrics.pages_free = stats.n_free;
    metrics.pages_used = stats.n_private + stats.n_locked;
    metrics.pages_cached = stats.n_cached - stats.n_locked;
    metrics.n_evicted_pages = stats.n_evicted_pages;
    metrics.window_pages_total = stats.n_window_pages;
    metrics.window_pages_free = stats.n_free_window;
    metrics.window_pages_used = stats.n_pinned_window;
    metrics.window_pages_cached = stats.n_idle_window;
    metrics.n_evicted_window_pages = stats.n_evicted_window_pages;
    metrics.swapped_bytes = stats.swapped_bytes;
    const std::lock_guard lock(metrics_mutex);
    published_metrics = metrics;
  }

  // The prompt of a request with n > 1 is computed: each further sample goes on from a fork, with its own draw.
  void fork_samples(LiveRequest& request, std::span<const float> logits) {
    for (std::unique_ptr<LiveRequest>& sample : std::exchange(request.samples, {})) {
      LiveRequest& forked = *sample;
      forked.has_started = true;
      forked.started = request.started;
      scheduler->fork(request, std::move(sample));
      take_logits(forked, logits);
    }
  }

  void deliver(const Step& done) {
    for (Sequence* sequence : done.entries) {
      LiveRequest& request = live(sequence);
      if (static_cast<int64_t>(request.tokens.size()) != request.n_prompt) continue;
      const auto tell = [&](TokenSink* sink) {
        if (sink != nullptr) sink->on_prompt(request.n_computed(), request.n_prompt, request.cache.n_cached);
      };
      tell(request.request.sink);
      for (const auto& sample : request.samples) tell(sample->request.sink);
    }
    std::vector<WantedRow> wanted;
    std::vector<Sequence*> evaluated;  // without a draw: over when their last rows were delivered
    list_wanted(done, wanted, evaluated);
    bool goes_on = true;  // the sequence whose rows are being read
    const auto n_vocab = static_cast<size_t>(arch.vocab_size);
    for (size_t first = 0; first < wanted.size();) {
      deliver_hidden(wanted[first], static_cast<int64_t>(first));
      if (!wanted[first].logits) {
        ++first;
        continue;
      }
      size_t end = first + 1;
      while (end < wanted.size() && wanted[end].logits && !wanted[end].hidden &&
             static_cast<int64_t>(end - first) < decoder->max_logit_rows()) {
        ++end;
      }
      const auto count = static_cast<int64_t>(end - first);
      const std::span<const float> logits = decoder->logits(static_cast<int64_t>(first), count);
      for (size_t i = first; i < end; ++i) {
        deliver_logits(wanted[i], logits.subspan((i - first) * n_vocab, n_vocab), goes_on);
      }
      first = end;
    }
    for (Sequence* sequence : evaluated) finish(sequence, FinishReason::kLimit);
  }

  // A row of the step whose result somebody wants.
  struct WantedRow {
    Sequence* sequence = nullptr;
    int64_t prompt_position = -1;  // >= 0: of the prompt
    bool draws = false;            // the next token comes from it
    int32_t node = -1;             // of the draft that it is, -1: a token
    bool is_last = false;          // of its sequence
    bool hidden = false, logits = false;
  };

  // In the order of batch.logit_rows: that of the entries, for each its tokens, then its drafts.
  void list_wanted(const Step& done, std::vector<WantedRow>& wanted, std::vector<Sequence*>& evaluated) {
    for (size_t i = 0; i < done.entries.size(); ++i) {
      Sequence* sequence = done.entries[i];
      const bool at_end = sequence->n_pending() == 0;
      const bool draws = at_end && sequence->wants_logits;
      if (at_end && !sequence->wants_logits) evaluated.push_back(sequence);
      const Request& request = live(sequence).request;
      const int64_t end = sequence->n_computed(), first = end - done.n_token_rows[i];
      for (int64_t position = first; position < end; ++position) {
        const bool of_prompt = sequence->wants_prompt_rows && position < sequence->n_prompt;
        const bool is_drawn_from = draws && position == end - 1;
        if (!of_prompt && !is_drawn_from) continue;
        wanted.push_back({.sequence = sequence,
                          .prompt_position = of_prompt ? position : -1,
                          .draws = is_drawn_from,
                          .hidden = of_prompt && request.wants_hidden,
                          .logits = is_drawn_from || request.n_prompt_logprobs >= 0});
      }
      if (!draws) continue;
      const int32_t n_drafts = sequence->drafts.tree.size();
      for (int32_t node = 0; node < n_drafts; ++node) {
        wanted.push_back({.sequence = sequence, .draws = true, .node = node, .logits = true});
      }
      wanted.back().is_last = true;
    }
    LOCI_CHECK(static_cast<int64_t>(wanted.size()) == decoder->n_logit_rows(), "expected ", wanted.size(),
               " wanted rows, found ", decoder->n_logit_rows());
  }

  // Rows that were computed again after a preemption have been told already.
  static bool is_news(const LiveRequest& request, int64_t position) { return position >= request.n_prompt_rows_told; }

  void deliver_hidden(const WantedRow& row, int64_t i) {
    if (!row.hidden || !is_news(live(row.sequence), row.prompt_position)) return;
    LiveRequest& request = live(row.sequence);
    if (request.request.n_prompt_logprobs < 0) request.n_prompt_rows_told = row.prompt_position + 1;
    if (request.request.sink != nullptr) request.request.sink->on_hidden(row.prompt_position, decoder->hidden(i));
  }

  void deliver_logits(const WantedRow& row, std::span<const float> logits, bool& goes_on) {
    if (row.prompt_position >= 0) tell_prompt_token(live(row.sequence), row.prompt_position, logits);
    if (!row.draws) return;
    if (row.node < 0) {
      goes_on = true;
      fork_samples(live(row.sequence), logits);
    }
    if (!goes_on) return;
    LiveRequest& request = live(row.sequence);
    const bool was_reached = row.node < 0 || (request.drafts.accepted == row.node && request.drafts.next < 0);
    if (was_reached) goes_on = take_logits(request, logits);
    if (goes_on && row.is_last && request.draft_key > 0) settle(request);
  }

  // The logits of a prompt's row tell of the token after it.
  void tell_prompt_token(LiveRequest& request, int64_t position, std::span<const float> logits) {
    if (request.request.n_prompt_logprobs < 0 || !is_news(request, position)) return;
    request.n_prompt_rows_told = position + 1;
    if (position + 1 >= request.n_prompt) return;
    const int32_t token = request.tokens[static_cast<size_t>(position + 1)];
    const std::vector<TokenProb> top = top_logprobs(logits, request.request.n_prompt_logprobs, token);
    const auto tell = [&](TokenSink* sink) {
      if (sink != nullptr) sink->on_prompt_token(position + 1, top);
    };
    tell(request.request.sink);
    for (const auto& sample : request.samples) tell(sample->request.sink);
  }

  // Rows [first, first + n) of a plain sequence, appended to a batch.
  void append_rows(Batch& batch, const KvSequence& sequence, std::span<const int32_t> tokens, int64_t first,
                   int64_t n) const {
    const int64_t page_size = kv->page_size();
    for (int64_t position = first; position < first + n; ++position) {
      batch.tokens.push_back(tokens[static_cast<size_t>(position)]);
      batch.positions.push_back(static_cast<int32_t>(position));
      batch.slots.push_back(sequence.pages[static_cast<size_t>(position / page_size)] * page_size +
                            position % page_size);
    }
    const int64_t n_pages = (first + n + page_size - 1) / page_size;
    batch.page_indices.insert(batch.page_indices.end(), sequence.pages.begin(), sequence.pages.begin() + n_pages);
    batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
    batch.q_indptr.push_back(static_cast<int32_t>(batch.tokens.size()));
  }

  void check_tokens(std::span<const int32_t> tokens) const {
    if (tokens.empty()) fail(ErrorKind::kInvalidInput, "prompt: expected at least one token, found none");
    if (static_cast<int64_t>(tokens.size()) > config.n_ctx) {
      fail(ErrorKind::kInvalidInput, "prompt of ", tokens.size(), " tokens does not fit the context of ", config.n_ctx,
           " tokens");
    }
    if (static_cast<int64_t>(tokens.size()) > info.n_kv_tokens) {
      fail(ErrorKind::kInvalidInput, "prompt of ", tokens.size(), " tokens does not fit the ", info.n_kv_tokens,
           " tokens of --kv-budget");
    }
    for (const int32_t token : tokens) {
      if (token < 0 || token >= arch.vocab_size) {
        fail(ErrorKind::kInvalidInput, "prompt: expected token ids from 0 to ", arch.vocab_size - 1, ", found ", token);
      }
    }
  }
};

Engine::Engine() : impl_(std::make_unique<Impl>()) {}
Engine::~Engine() = default;

std::vector<std::string> check_loadable(const gguf::File& file) {
  const ArchSpec arch = read_arch(file.metadata());
  std::vector<std::string> unused = check_weights(file, arch);
  Tokenizer::from_metadata(file.metadata());
  return unused;
}

std::unique_ptr<Engine> Engine::load(const EngineConfig& config, const LoadProgress& progress) {
  return load(config, progress, nullptr);
}

std::unique_ptr<Engine> Engine::load(const EngineConfig& config, const LoadProgress& progress,
                                     std::unique_ptr<Backend> backend) try {
  std::unique_ptr<Engine> engine(new Engine());
  Impl& impl = *engine->impl_;
  impl.file = std::make_unique<gguf::File>(gguf::File::open(config.model_path));
  impl.metadata = with_overrides(*impl.file, config);
  impl.arch = read_arch(impl.metadata);
  apply_rope_overrides(config.rope, impl.arch);
  check_weights(*impl.file, impl.arch);
  impl.tokenizer = Tokenizer::from_metadata(impl.metadata);
  impl.config = complete(config, impl.arch);
  std::vector<KvLayerShape> kv_layers = kv_layer_shapes(impl.arch, impl.config.kv);
  std::unique_ptr<DraftModel> draft_model;
  if (!impl.config.draft_model_path.empty()) {
    draft_model = open_draft_model(impl.config.draft_model_path, *impl.tokenizer);
    check_kv_formats(draft_model->arch, impl.config.kv);
    const std::vector<KvLayerShape> behind = draft_kv_layer_shapes(draft_model->arch, impl.config.kv);
    kv_layers.insert(kv_layers.end(), behind.begin(), behind.end());
    impl.draft_fingerprint = fingerprint(*draft_model->file, draft_model->file->metadata(), draft_model->arch);
    draft_model->file->release_metadata();
  }
  impl.ns = {.model = fingerprint(*impl.file, impl.metadata, impl.arch),
             .k_format = impl.config.kv.k_format,
             .v_format = impl.config.kv.v_format,
             .variant = ""};
  // Before the weights come: the most memory is taken while they are converted.
  impl.file->release_metadata();
  give_back_freed_memory();
  pool_pages(pool_needs(kv_layers, impl.config));  // refused before minutes are spent on the weights
  check_weight_memory(*impl.file);
  impl.backend = backend != nullptr
                     ? std::move(backend)
                     : make_cpu_backend({.n_threads = impl.config.n_threads,
                                         .n_threads_batch = impl.config.n_threads_batch,
                                         .precise = impl.config.precise,
                                         .share_prefixes = impl.config.share_prefixes,
                                         .placement = impl.config.placement,
                                         .placement_batch = impl.config.placement_batch.over(impl.config.placement)});
  impl.weights = load_weights(*impl.file, impl.arch, *impl.backend, {.keep_mapped = impl.config.use_mmap}, progress);
  if (draft_model != nullptr) {
    check_weight_memory(*draft_model->file);
    load_draft_weights(*draft_model, impl.config, *impl.backend, progress);
  }
  if (impl.config.use_mlock) {
    std::string reason = lock_weights(impl.weights, impl.file->path(), *impl.backend);
    if (reason.empty() && draft_model != nullptr) {
      reason = lock_weights(draft_model->weights, draft_model->file->path(), *impl.backend);
    }
    if (!reason.empty()) log_warn(reason);
  }
  const PoolNeeds needs = pool_needs(kv_layers, impl.config);
  const PoolPages n_pages = pool_pages(needs);
  if (impl.config.kv.swap_bytes < 0) {
    const int64_t kv_bytes = pool_bytes(needs, n_pages.n_pages);
    const int64_t available = needs.available_bytes;
    impl.config.kv.swap_bytes = available < 0 ? kv_bytes : std::min(kv_bytes, available / 4);
  }
  impl.kv = std::make_unique<KvManager>(kv_layers, impl.config.kv, n_pages, *impl.backend);
  impl.decoder = std::make_unique<Decoder>(impl.arch, impl.weights, *impl.kv, *impl.backend, impl.config.n_ubatch);
  impl.scheduler = std::make_unique<Scheduler>(SchedulerLimits{.n_ubatch = impl.config.n_ubatch,
                                                               .n_batch = impl.config.n_batch,
                                                               .max_sequences = impl.config.max_sequences,
                                                               .max_stall_ms = impl.config.max_stall_ms,
                                                               .ageing_ms = impl.config.ageing_ms,
                                                               .preemption = impl.config.preemption},
                                               *impl.kv, impl.metrics);
  impl.speculator = std::make_unique<Speculator>(make_drafters({.kv = *impl.kv,
                                                                .backend = *impl.backend,
                                                                .target = impl.weights,
                                                                .target_vocab_size = impl.arch.vocab_size,
                                                                .draft_vocab = impl.config.draft_vocab,
                                                                .max_rows = impl.config.n_ubatch,
                                                                .draft_model = std::move(draft_model),
                                                                .draft_layer = impl.arch.layers.size()}));
  impl.constraints = std::make_unique<ConstraintCompiler>(*impl.tokenizer);
  ModelInfo& info = impl.info;
  info.path = config.model_path;
  info.name = impl.metadata.find_string("general.name").value_or("");
  info.architecture = impl.arch.name;
  info.quantization = quantization_text(*impl.file);
  info.n_params = impl.weights.n_params;
  info.file_bytes = impl.file->total_bytes();
  info.n_ctx_train = impl.arch.n_ctx_train;
  info.n_ctx = impl.config.n_ctx;
  info.weight_bytes = impl.weights.bytes;
  info.kv_bytes = impl.kv->bytes();
  info.n_kv_tokens = n_pages.n_pages * impl.config.kv.page_size;
  info.n_kv_window_tokens = n_pages.n_window_pages * impl.config.kv.page_size;
  if (info.n_kv_tokens < info.n_ctx) {
    log_warn("--kv-budget holds ", info.n_kv_tokens, " tokens, the context has ", info.n_ctx,
             ": a request ends when the budget is used up");
  }
  info.backend = impl.backend->describe();
  info.chat_template = impl.metadata.find_string("tokenizer.chat_template").value_or("");
  info.fingerprint = impl.ns.model;
  return engine;
} catch (const std::bad_alloc&) {
  fail(ErrorKind::kOutOfMemory, config.model_path, ": out of memory while loading; ",
       bytes_text(std::max<int64_t>(0, available_memory_bytes())), " are available");
}

ConstraintCompiler& Engine::constraints() { return *impl_->constraints; }
const EngineConfig& Engine::config() const { return impl_->config; }
const ModelInfo& Engine::info() const { return impl_->info; }
const gguf::Metadata& Engine::metadata() const { return impl_->metadata; }
const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }
const ArchSpec& Engine::arch() const { return impl_->arch; }

RequestId Engine::submit(Request request) {
  Impl& impl = *impl_;
  impl.check_tokens(request.prompt);
  if (const std::string wrong = check(request.sampling, impl.tokenizer->vocab_size()); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  if (request.speculation.mode != SpeculationMode::kNone && !impl.speculator->serves(request.speculation.mode)) {
    fail(ErrorKind::kInvalidInput, "speculation: expected a draft model to be loaded, found none");
  }
  require_range("drafts of one step", request.speculation.max_tokens, 0, kMaxDrafts);
  require_range("alternatives of a draft", request.speculation.width, 1, kMaxDraftWidth);
  require_range("n", request.n, 1, kMaxSamples);
  if (request.n > 1 && request.sinks.size() != static_cast<size_t>(request.n)) {
    fail(ErrorKind::kInvalidInput, "n: expected ", request.n, " sinks, found ", request.sinks.size());
  }
  if (impl.config.max_queue > 0 && impl.scheduler->n_queued() >= impl.config.max_queue) {
    ++impl.metrics.n_refused;
    impl.publish_metrics();
    throw QueueFull(str(impl.scheduler->n_queued(), " requests wait already, which is the limit"));
  }
  if (impl.scheduler->idle()) impl.cancel_everything = false;  // meant for requests that have ended since
  if (request.n > 1) request.sink = request.sinks.front();
  auto first = std::make_unique<LiveRequest>(request, *impl.tokenizer);
  const RequestId id = first->id = impl.next_id++;
  first->ns = impl.ns;
  for (int i = 1; i < request.n; ++i) {
    request.sink = request.sinks[static_cast<size_t>(i)];
    request.sampling.seed = static_cast<int64_t>(first->sampler.seed() + static_cast<uint64_t>(i));
    first->samples.push_back(std::make_unique<LiveRequest>(request, *impl.tokenizer));
    first->samples.back()->id = id;
    first->samples.back()->ns = impl.ns;
  }
  impl.metrics.n_submitted += request.n;
  impl.scheduler->add(std::move(first), ms_between({}, Clock::now()));
  return id;
}

bool Engine::step() { return impl_->step(); }

void Engine::run_until_idle() {
  while (step()) {
  }
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(impl_->cancel_mutex);
  impl_->cancel_ids.push_back(id);
  impl_->cancel_some = true;
}

void Engine::cancel_all() { impl_->cancel_everything = true; }

Metrics Engine::metrics() const {
  const std::lock_guard lock(impl_->metrics_mutex);
  return impl_->published_metrics;
}

void Engine::evaluate(std::span<const int32_t> tokens, int64_t first_logit_row, int chunk,
                      const std::function<void(int64_t, std::span<const float>)>& on_row) {
  impl_->check_tokens(tokens);
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t step_rows = chunk <= 0 ? impl_->config.n_ubatch : std::min(chunk, impl_->config.n_ubatch);
  HeldPages held(*impl_->kv);
  const auto reserve = [&](int64_t n_more) {
    if (impl_->kv->n_available_pages() + static_cast<int64_t>(held.sequence.pages.size()) >=
            impl_->kv->n_pages_for(n_tokens) &&
        impl_->kv->reserve(held.sequence, static_cast<int64_t>(held.sequence.tokens.size()) + n_more)) {
      return;
    }
    fail(ErrorKind::kOutOfMemory, "no free K/V pages for ", n_tokens, " tokens: ", impl_->kv->n_free_pages(), " of ",
         impl_->kv->n_pages(), " pages are free");
  };
  Decoder& decoder = *impl_->decoder;
  const auto n_vocab = static_cast<size_t>(impl_->arch.vocab_size);
  for (int64_t first = 0; first < n_tokens; first += step_rows) {
    const int64_t n = std::min(step_rows, n_tokens - first);
    reserve(n);
    Batch batch;
    impl_->append_rows(batch, held.sequence, tokens, first, n);
    const int64_t first_wanted = std::max(first, first_logit_row);
    for (int64_t row = first_wanted; row < first + n; ++row)
      batch.logit_rows.push_back(static_cast<int32_t>(row - first));
    LOCI_CHECK(decoder.forward(batch), "a forward pass without a cancel flag was abandoned");
    impl_->kv->append(held.sequence, tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(n)));
    for (int64_t done = 0; done < decoder.n_logit_rows(); done += decoder.max_logit_rows()) {
      const int64_t count = std::min(decoder.max_logit_rows(), decoder.n_logit_rows() - done);
      const std::span<const float> logits = decoder.logits(done, count);
      for (int64_t row = 0; row < count; ++row) {
        on_row(first_wanted + done + row, logits.subspan(static_cast<size_t>(row) * n_vocab, n_vocab));
      }
    }
  }
}

std::vector<std::vector<float>> Engine::evaluate_batch(std::span<const std::vector<int32_t>> sequences) {
  Decoder& decoder = *impl_->decoder;
  std::deque<HeldPages> held;
  std::vector<bool> done(sequences.size(), false);
  std::vector<std::vector<float>> last_logits(sequences.size());
  for (const std::vector<int32_t>& sequence : sequences) {
    impl_->check_tokens(sequence);
    held.emplace_back(*impl_->kv);
  }
  const auto n_vocab = static_cast<size_t>(impl_->arch.vocab_size);
  while (true) {
    Batch batch;
    std::vector<size_t> ending, taking_part;
    for (size_t s = 0; s < sequences.size(); ++s) {
      if (done[s]) continue;
      const auto length = static_cast<int64_t>(sequences[s].size());
      const auto n_done = static_cast<int64_t>(held[s].sequence.tokens.size());
      const int64_t n = std::min(length - n_done, impl_->config.n_ubatch - batch.n_rows());
      if (n <= 0) break;
      if (!impl_->kv->reserve(held[s].sequence, n_done + n)) {
        if (!batch.empty()) break;  // the step gives pages back
        fail(ErrorKind::kOutOfMemory, "no free K/V pages for ", sequences.size(), " sequences: the pool holds ",
             impl_->info.n_kv_tokens, " tokens in all");
      }
      impl_->append_rows(batch, held[s].sequence, sequences[s], n_done, n);
      taking_part.push_back(s);
      done[s] = n_done + n == length;
      if (!done[s]) continue;
      batch.logit_rows.push_back(static_cast<int32_t>(batch.n_rows()) - 1);
      ending.push_back(s);
    }
    if (batch.empty()) break;
    LOCI_CHECK(decoder.forward(batch), "a forward pass without a cancel flag was abandoned");
    for (size_t i = 0; i < taking_part.size(); ++i) {
      const auto n = static_cast<size_t>(batch.q_indptr[i + 1] - batch.q_indptr[i]);
      KvSequence& sequence = held[taking_part[i]].sequence;
      impl_->kv->append(sequence, std::span(sequences[taking_part[i]]).subspan(sequence.tokens.size(), n));
    }
    for (size_t i = 0; i < ending.size(); ++i) {
      const std::span<const float> logits = decoder.logits(static_cast<int64_t>(i), 1);
      last_logits[ending[i]].assign(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(n_vocab));
      impl_->kv->release(std::move(held[ending[i]].sequence));
    }
  }
  return last_logits;
}

void Engine::save_cache(const std::string& path) {
  if (impl_->last_kept.empty()) {
    fail(ErrorKind::kInvalidInput, path, ": nothing to save: no request has been answered yet");
  }
  save_session(path, "", true);
}

std::string Engine::load_cache(const std::string& path) {
  std::string text;
  return load_session(path, text);
}

void Engine::save_session(const std::string& path, std::string_view text, bool durable) {
  HeldPages held(*impl_->kv);
  held.sequence = impl_->kv->find(impl_->last_kept, impl_->ns);
  write_cache_file(path, impl_->cache_identity(), *impl_->kv, held.sequence, text, durable, impl_->saved);
}

std::string Engine::load_session(const std::string& path, std::string& text) {
  CacheFile file = read_cache_file(path, impl_->cache_identity(), impl_->ns,
                                   static_cast<int32_t>(impl_->arch.vocab_size), *impl_->kv);
  if (!file.why_not.empty()) return file.why_not;
  if (file.n_torn_bytes > 0) log_warn(path, ": its last save was cut off; the one before it is used");
  impl_->saved = std::move(file.saved);
  text = std::move(file.text);
  impl_->last_kept = std::move(file.tokens);
  return "";
}

void Engine::clear_cache() { impl_->kv->clear(); }

void Engine::check_invariants() const { impl_->scheduler->check_invariants(); }

}  // namespace loci
