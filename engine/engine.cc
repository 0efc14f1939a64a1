#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "engine/cache_text.h"
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

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

struct LiveRequest : Sequence {
  LiveRequest(Request r, const Tokenizer& tokenizer)
      : request(std::move(r)),
        sampler(request.sampling, tokenizer),
        detokenizer(tokenizer, request.stops, request.show_special) {}

  Request request;
  Sampler sampler;
  Detokenizer detokenizer;
  RequestStats stats;
  Clock::time_point started, first_token;
  bool has_started = false, has_token = false;
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
  require_range("micro-batch size", config.n_ubatch, 1, kMaxUbatch);
  return config;
}

int64_t n_pool_pages(std::span<const KvLayerShape> layers, const EngineConfig& config) {
  return pool_pages({.page_bytes = kv_bytes_per_page(layers, config.kv.page_size),
                     .page_size = config.kv.page_size,
                     .n_ctx = config.n_ctx,
                     .max_sequences = config.max_sequences,
                     .budget_bytes = config.kv.budget_bytes,
                     .available_bytes = available_memory_bytes()});
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
  ModelInfo info;
  CacheNamespace ns;
  std::vector<int32_t> last_kept;  // tokens of the sequence kept last
  RequestId next_id = 1;

  std::mutex cancel_mutex;
  std::vector<RequestId> cancel_ids;     // guarded by cancel_mutex
  std::atomic<bool> cancel_some{false};  // cancel_ids is not empty
  std::atomic<bool> cancel_everything{false};

  CacheIdentity cache_identity() const {
    const std::string device = info.backend.substr(0, info.backend.find(','));  // without the number of threads
    return {ns.model, device + (config.precise ? " precise" : "")};
  }

  void process_cancellations() {
    if (cancel_everything.exchange(false)) {
      for (Sequence* sequence : scheduler->sequences()) finish(sequence, FinishReason::kCancelled);
    }
    if (!cancel_some.exchange(false)) return;
    std::vector<RequestId> ids;
    {
      const std::lock_guard lock(cancel_mutex);
      ids.swap(cancel_ids);
    }
    for (Sequence* sequence : scheduler->sequences()) {
      if (std::find(ids.begin(), ids.end(), sequence->id) != ids.end()) finish(sequence, FinishReason::kCancelled);
    }
  }

  void finish(Sequence* sequence, FinishReason reason, const std::string& error = "") {
    const bool keep = sequence->cache_prompt && reason != FinishReason::kError;
    if (keep) last_kept = sequence->kv.tokens;
    const std::unique_ptr<Sequence> taken = scheduler->remove(sequence, keep);
    LiveRequest& request = live(taken.get());
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
    if (request.has_started)
      stats.prompt_ms = ms_between(request.started, request.has_token ? request.first_token : now);
    if (request.has_token) stats.predicted_ms = ms_between(request.first_token, now);
    if (request.request.sink != nullptr) request.request.sink->on_finish(request.detokenizer.finish(), stats);
  }

  // One row of logits has come for a request: choose, show, go on or end.
  void take_logits(LiveRequest& request, std::span<const float> logits) {
    if (!request.has_token) {
      request.has_token = true;
      request.first_token = Clock::now();
    }
    const auto n_nan = std::count_if(logits.begin(), logits.end(), [](float v) { return std::isnan(v); });
    if (n_nan > 0) {
      finish(&request, FinishReason::kError,
             str("the model computed ", n_nan, " NaN of ", logits.size(), " logits at position ",
                 request.n_computed() - 1));
      return;
    }
    const std::optional<int32_t> token = request.sampler.sample(logits);
    if (!token) {
      finish(&request, FinishReason::kError, str("no token has a finite logit at position ", request.n_computed() - 1));
      return;
    }
    request.sampler.accept(*token, false);
    request.tokens.push_back(*token);
    ++request.stats.n_predicted;
    const bool ends = request.request.stop_at_end && tokenizer->is_end_of_generation(*token);
    const std::string text = ends && !request.request.show_special ? "" : request.detokenizer.add(*token);
    if (request.request.sink != nullptr) {
      const int n_top = request.request.n_top_logprobs;
      const std::vector<TokenProb> top = n_top > 0 ? top_logprobs(logits, n_top, *token) : std::vector<TokenProb>();
      request.request.sink->on_token(*token, text, top);
    }
    if (!request.detokenizer.stop_found().empty()) return finish(&request, FinishReason::kStopString);
    if (ends) return finish(&request, FinishReason::kEndToken);
    const int64_t max_tokens = request.request.max_tokens;
    if (max_tokens >= 0 && request.stats.n_predicted >= max_tokens) return finish(&request, FinishReason::kLimit);
    if (static_cast<int64_t>(request.tokens.size()) > config.n_ctx) return finish(&request, FinishReason::kContextFull);
  }

  bool step() {
    process_cancellations();
    Step next = scheduler->next_step();
    for (Sequence* sequence : next.stuck) finish(sequence, FinishReason::kContextFull);
    if (next.batch.empty()) return !scheduler->idle();
    const Clock::time_point now = Clock::now();
    for (Sequence* sequence : next.entries) {
      LiveRequest& request = live(sequence);
      if (!request.has_started) request.started = now;
      request.has_started = true;
    }
    if (!decoder->forward(next.batch, &cancel_everything)) return true;  // cancelled half way: the next step ends them
    scheduler->commit(next);
    deliver(next);
    return !scheduler->idle();
  }

  void deliver(const Step& done) {
    for (Sequence* sequence : done.entries) {
      LiveRequest& request = live(sequence);
      const bool in_prompt = static_cast<int64_t>(request.tokens.size()) == request.n_prompt;
      if (in_prompt && request.request.sink != nullptr) {
        request.request.sink->on_prompt(request.n_computed(), request.n_prompt, request.cache.n_cached);
      }
    }
    // Rows of logits come in the order of the entries that asked for them.
    std::vector<Sequence*> wanting;
    for (size_t i = 0; i < done.entries.size(); ++i) {
      if (done.entries[i]->n_pending() != 0) continue;
      if (done.entries[i]->wants_logits) {
        wanting.push_back(done.entries[i]);
      } else {
        finish(done.entries[i], FinishReason::kLimit);
      }
    }
    const auto n_vocab = static_cast<size_t>(arch.vocab_size);
    for (int64_t first = 0; first < decoder->n_logit_rows(); first += decoder->max_logit_rows()) {
      const int64_t count = std::min(decoder->max_logit_rows(), decoder->n_logit_rows() - first);
      const std::span<const float> logits = decoder->logits(first, count);
      for (int64_t row = 0; row < count; ++row) {
        take_logits(live(wanting[static_cast<size_t>(first + row)]),
                    logits.subspan(static_cast<size_t>(row) * n_vocab, n_vocab));
      }
    }
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
  const std::vector<KvLayerShape> kv_layers = kv_layer_shapes(impl.arch, impl.config.kv);
  n_pool_pages(kv_layers, impl.config);  // refused before minutes are spent on the weights
  check_weight_memory(*impl.file);
  impl.backend = backend != nullptr ? std::move(backend)
                                    : make_cpu_backend({.n_threads = impl.config.n_threads,
                                                        .n_threads_batch = impl.config.n_threads_batch,
                                                        .precise = impl.config.precise,
                                                        .share_prefixes = impl.config.share_prefixes});
  if (impl.config.use_mlock) {
    if (const std::string reason = impl.file->lock_memory(); !reason.empty()) log_warn(reason);
  }
  impl.weights = load_weights(*impl.file, impl.arch, *impl.backend,
                              {.keep_mapped = impl.config.use_mmap, .release = !impl.config.use_mlock}, progress);
  const int64_t n_pages = n_pool_pages(kv_layers, impl.config);
  impl.kv = std::make_unique<KvManager>(kv_layers, impl.config.kv, n_pages, *impl.backend);
  impl.ns = {.model = fingerprint(*impl.file, impl.metadata, impl.arch),
             .k_format = impl.config.kv.k_format,
             .v_format = impl.config.kv.v_format,
             .variant = ""};
  impl.decoder = std::make_unique<Decoder>(impl.arch, impl.weights, *impl.kv, *impl.backend, impl.config.n_ubatch);
  impl.scheduler = std::make_unique<Scheduler>(
      SchedulerLimits{
          .n_ubatch = impl.config.n_ubatch, .n_batch = impl.config.n_batch, .max_sequences = impl.config.max_sequences},
      *impl.kv);
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
  info.n_kv_tokens = n_pages * impl.config.kv.page_size;
  if (info.n_kv_tokens < info.n_ctx) {
    log_warn("--kv-budget holds ", info.n_kv_tokens, " tokens, the context has ", info.n_ctx,
             ": a request ends when the budget is used up");
  }
  info.backend = impl.backend->describe();
  info.chat_template = impl.metadata.find_string("tokenizer.chat_template").value_or("");
  return engine;
} catch (const std::bad_alloc&) {
  fail(ErrorKind::kOutOfMemory, config.model_path, ": out of memory while loading; ",
       bytes_text(std::max<int64_t>(0, available_memory_bytes())), " are available");
}

const EngineConfig& Engine::config() const { return impl_->config; }
const ModelInfo& Engine::info() const { return impl_->info; }
const gguf::Metadata& Engine::metadata() const { return impl_->metadata; }
const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }
const ArchSpec& Engine::arch() const { return impl_->arch; }

RequestId Engine::submit(Request request) {
  impl_->check_tokens(request.prompt);
  if (const std::string wrong = check(request.sampling, impl_->tokenizer->vocab_size()); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  if (impl_->scheduler->idle()) impl_->cancel_everything = false;  // meant for requests that have ended since
  auto sequence = std::make_unique<LiveRequest>(std::move(request), *impl_->tokenizer);
  sequence->id = impl_->next_id++;
  sequence->tokens = sequence->request.prompt;
  sequence->n_prompt = static_cast<int64_t>(sequence->tokens.size());
  sequence->cache_prompt = sequence->request.cache_prompt;
  sequence->ns = impl_->ns;
  sequence->wants_logits = sequence->request.max_tokens != 0;
  for (const int32_t token : sequence->tokens) sequence->sampler.accept(token, true);
  const RequestId id = sequence->id;
  impl_->scheduler->add(std::move(sequence));
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

void Engine::evaluate(std::span<const int32_t> tokens, int64_t first_logit_row, int chunk,
                      const std::function<void(int64_t, std::span<const float>)>& on_row) {
  impl_->check_tokens(tokens);
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t step_rows = chunk <= 0 ? impl_->config.n_ubatch : std::min(chunk, impl_->config.n_ubatch);
  HeldPages held(*impl_->kv);
  if (!impl_->kv->reserve(held.sequence, n_tokens)) {
    fail(ErrorKind::kOutOfMemory, "no free K/V pages for ", n_tokens, " tokens: ", impl_->kv->n_free_pages(), " of ",
         impl_->kv->n_pages(), " pages are free");
  }
  Decoder& decoder = *impl_->decoder;
  const auto n_vocab = static_cast<size_t>(impl_->arch.vocab_size);
  for (int64_t first = 0; first < n_tokens; first += step_rows) {
    const int64_t n = std::min(step_rows, n_tokens - first);
    Batch batch;
    impl_->append_rows(batch, held.sequence, tokens, first, n);
    const int64_t first_wanted = std::max(first, first_logit_row);
    for (int64_t row = first_wanted; row < first + n; ++row)
      batch.logit_rows.push_back(static_cast<int32_t>(row - first));
    LOCI_CHECK(decoder.forward(batch), "a forward pass without a cancel flag was abandoned");
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
  std::vector<int64_t> n_done(sequences.size(), 0);
  std::vector<std::vector<float>> last_logits(sequences.size());
  for (const std::vector<int32_t>& sequence : sequences) {
    impl_->check_tokens(sequence);
    if (impl_->kv->reserve(held.emplace_back(*impl_->kv).sequence, static_cast<int64_t>(sequence.size()))) continue;
    fail(ErrorKind::kOutOfMemory, "no free K/V pages for ", sequences.size(), " sequences: the pool holds ",
         impl_->info.n_kv_tokens, " tokens in all");
  }
  const auto n_vocab = static_cast<size_t>(impl_->arch.vocab_size);
  while (true) {
    Batch batch;
    std::vector<size_t> ending;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto length = static_cast<int64_t>(sequences[s].size());
      const int64_t n = std::min(length - n_done[s], impl_->config.n_ubatch - batch.n_rows());
      if (n <= 0) continue;
      impl_->append_rows(batch, held[s].sequence, sequences[s], n_done[s], n);
      n_done[s] += n;
      if (n_done[s] < length) continue;
      batch.logit_rows.push_back(static_cast<int32_t>(batch.n_rows()) - 1);
      ending.push_back(s);
    }
    if (batch.empty()) break;
    LOCI_CHECK(decoder.forward(batch), "a forward pass without a cancel flag was abandoned");
    for (size_t i = 0; i < ending.size(); ++i) {
      const std::span<const float> logits = decoder.logits(static_cast<int64_t>(i), 1);
      last_logits[ending[i]].assign(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(n_vocab));
    }
  }
  return last_logits;
}

void Engine::save_cache(const std::string& path) const {
  if (impl_->last_kept.empty()) {
    fail(ErrorKind::kInvalidInput, path, ": nothing to save: no request has been answered yet");
  }
  save_session(path, "", true);
}

std::string Engine::load_cache(const std::string& path) {
  std::string text;
  return load_session(path, text);
}

void Engine::save_session(const std::string& path, std::string_view text, bool durable) const {
  HeldPages held(*impl_->kv);
  held.sequence = impl_->kv->find(impl_->last_kept, impl_->ns);
  write_cache_file(path, impl_->cache_identity(), *impl_->kv, held.sequence, text, durable);
}

std::string Engine::load_session(const std::string& path, std::string& text) {
  CacheFile file = read_cache_file(path, impl_->cache_identity(), impl_->ns,
                                   static_cast<int32_t>(impl_->arch.vocab_size), *impl_->kv);
  if (!file.why_not.empty()) return file.why_not;
  text = std::move(file.text);
  impl_->last_kept = std::move(file.tokens);
  return "";
}

void Engine::clear_cache() { impl_->kv->clear(); }

void Engine::check_invariants() const { impl_->scheduler->check_invariants(); }

}  // namespace loci
