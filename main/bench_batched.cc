#include "main/bench_batched.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "main/bench_request.h"
#include "main/bench_tokens.h"

namespace loci::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class CountingSink : public TokenSink {
 public:
  void on_token(int32_t, std::string_view, std::span<const TokenProb>) override { ++n_tokens_; }
  void on_finish(std::string_view, const RequestStats& stats) override {
    if (stats.reason == FinishReason::kError) error_ = stats.error;
  }
  int64_t n_tokens() const { return n_tokens_; }
  const std::string& error() const { return error_; }

 private:
  int64_t n_tokens_ = 0;
  std::string error_;
};

void check_all(const std::deque<CountingSink>& sinks, int64_t n_tokens) {
  for (const CountingSink& sink : sinks) {
    if (!sink.error().empty()) fail(ErrorKind::kInternal, sink.error());
    if (sink.n_tokens() != n_tokens) {
      fail(ErrorKind::kInternal, "batched bench: expected ", n_tokens, " tokens, found ", sink.n_tokens());
    }
  }
}

BenchWork prompt_work(const Engine& engine, const ModelWork& matrices, const BatchedTest& test) {
  BenchWorkCounter counter(engine.arch(), matrices, engine.config());
  // Prompts run one after another through micro-batches; the end of one shares a pass with the beginning of the next.
  const int64_t n_ubatch = engine.config().n_ubatch, n_all = test.n_prompt_tokens();
  for (int64_t done = 0; done < n_all; done += n_ubatch) {
    const int64_t end = std::min(done + n_ubatch, n_all);
    std::vector<BenchRows> rows;
    int64_t n_ending = 0;
    for (int64_t at = done; at < end;) {
      const int64_t first = at % test.n_prompt, n = std::min(test.n_prompt - first, end - at);
      rows.push_back({first, n});
      n_ending += first + n == test.n_prompt;
      at += n;
    }
    counter.add_pass(rows, n_ending);
  }
  return counter.work();
}

BenchWork gen_work(const Engine& engine, const ModelWork& matrices, const BatchedTest& test) {
  BenchWorkCounter counter(engine.arch(), matrices, engine.config());
  for (int64_t i = 0; i < test.n_gen; ++i) {
    const std::vector<BenchRows> rows(static_cast<size_t>(test.n_sequences), BenchRows{test.n_prompt + i, 1});
    counter.add_pass(rows, test.n_sequences);
  }
  return counter.work();
}

}  // namespace

int64_t BatchedTest::n_ctx(int page_size) const {
  const int64_t n_pages = (n_prompt + n_gen + 1 + page_size - 1) / page_size + 2;
  return n_sequences * n_pages * page_size;
}

BatchedResult run_batched(Engine& engine, const ModelWork& matrices, const BatchedTest& test) {
  engine.clear_cache();
  BatchedResult result{
      .test = test, .prompt_work = prompt_work(engine, matrices, test), .gen_work = gen_work(engine, matrices, test)};
  BenchTokens source(engine.tokenizer().vocab_size());
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(test.shared_prompt ? 1 : test.n_sequences));
  for (std::vector<int32_t>& prompt : prompts) source.append(test.n_prompt, prompt);
  {
    // One token each: prompts end with a row of logits.
    std::deque<CountingSink> sinks;
    const Clock::time_point start = Clock::now();
    for (const std::vector<int32_t>& prompt : prompts) engine.submit(bench_request(prompt, 1, sinks.emplace_back()));
    engine.run_until_idle();
    result.prompt_s = seconds_since(start);
    check_all(sinks, 1);
  }
  if (test.n_gen == 0) return result;

  // The prompts again, now from the cache. What is left of them comes before the clock starts: it starts when every
  // sequence has its first token.
  std::deque<CountingSink> sinks;
  for (int64_t i = 0; i < test.n_sequences; ++i) {
    const std::vector<int32_t>& prompt = prompts[test.shared_prompt ? 0 : static_cast<size_t>(i)];
    engine.submit(bench_request(prompt, test.n_gen + 1, sinks.emplace_back()));
  }
  const auto has_begun = [](const CountingSink& sink) { return sink.n_tokens() > 0 || !sink.error().empty(); };
  bool busy = true;
  while (busy && !std::all_of(sinks.begin(), sinks.end(), has_begun)) busy = engine.step();
  int64_t n_before = 0;
  for (const CountingSink& sink : sinks) n_before += sink.n_tokens();
  const Metrics before = engine.metrics();
  const Clock::time_point start = Clock::now();
  engine.run_until_idle();
  const double seconds = seconds_since(start);
  const Metrics after = engine.metrics();
  check_all(sinks, test.n_gen + 1);
  // Sequences that began earlier have fewer tokens left.
  const int64_t n_timed = test.n_gen_tokens() + test.n_sequences - n_before;
  if (n_timed <= 0) fail(ErrorKind::kInternal, "batched bench: the sequences did not run together");
  result.kv_bytes_per_token = static_cast<double>(after.kv_bytes_read - before.kv_bytes_read) /
                              static_cast<double>(after.n_generated_tokens - before.n_generated_tokens);
  result.gen_s = seconds * static_cast<double>(test.n_gen_tokens()) / static_cast<double>(n_timed);
  return result;
}

BatchedPrinter::BatchedPrinter(bool json_lines, const EngineConfig& config, int n_threads,
                               std::optional<cpu::Roofline> roofline, std::FILE* out)
    : json_lines_(json_lines), config_(config), n_threads_(n_threads), roofline_(std::move(roofline)), out_(out) {
  if (json_lines_) return;
  std::fprintf(out_, "|%6s | %6s | %4s | %6s | %8s | %8s | %8s | %8s | %8s | %8s |\n", "PP", "TG", "B", "N_KV",
               "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s");
  std::fprintf(
      out_, "|------:|-------:|-----:|-------:|---------:|---------:|---------:|---------:|---------:|---------:|\n");
}

void BatchedPrinter::row(const BatchedResult& result) {
  const BatchedTest& test = result.test;
  if (!json_lines_) {
    std::fprintf(out_, "|%6lld | %6lld | %4lld | %6lld | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f |\n",
                 static_cast<long long>(test.n_prompt), static_cast<long long>(test.n_gen),
                 static_cast<long long>(test.n_sequences), static_cast<long long>(test.n_kv()), result.prompt_s,
                 result.prompt_ts(), result.gen_s, result.gen_ts(), result.total_s(), result.total_ts());
    std::fflush(out_);
    return;
  }
  nlohmann::ordered_json out;
  out["n_kv_max"] = config_.n_ctx;
  out["n_batch"] = config_.n_batch;
  out["n_ubatch"] = config_.n_ubatch;
  out["flash_attn"] = 1;
  out["is_pp_shared"] = test.shared_prompt ? 1 : 0;
  out["n_gpu_layers"] = 0;
  out["n_threads"] = n_threads_;
  out["n_threads_batch"] = config_.n_threads_batch > 0 ? config_.n_threads_batch : n_threads_;
  out["pp"] = test.n_prompt;
  out["tg"] = test.n_gen;
  out["pl"] = test.n_sequences;
  out["n_kv"] = test.n_kv();
  out["t_pp"] = result.prompt_s;
  out["speed_pp"] = result.prompt_ts();
  out["t_tg"] = result.gen_s;
  out["speed_tg"] = result.gen_ts();
  out["t"] = result.total_s();
  out["speed"] = result.total_ts();
  // Beyond the customary: K/V read in decode, and fractions of the machine's ceilings.
  out["kv_bytes_per_token"] = result.kv_bytes_per_token;
  if (roofline_) {
    out["pp_mac_share"] = result.prompt_work.mac_seconds(*roofline_) / result.prompt_s;
    if (result.gen_s > 0) {
      out["tg_read_share"] = result.gen_work.read_seconds(*roofline_) / result.gen_s;
      out["tg_mac_share"] = result.gen_work.mac_seconds(*roofline_) / result.gen_s;
    }
  }
  std::fprintf(out_, "%s\n", out.dump().c_str());
  std::fflush(out_);
}

}  // namespace loci::cli
