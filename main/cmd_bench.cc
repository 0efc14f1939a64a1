// loci bench: tokens per second of prefill and decode, in the shape of llama-bench.
#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "engine/engine.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/placement.h"
#include "kernels/cpu/roofline.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "main/bench_options.h"
#include "main/bench_output.h"
#include "main/bench_request.h"
#include "main/bench_tokens.h"
#include "main/bench_work.h"
#include "main/cli.h"
#include "main/commands.h"

namespace loci::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Notes when the first and the last token came.
class TimingSink : public TokenSink {
 public:
  void on_token(int32_t, std::string_view, std::span<const TokenProb>) override {
    last_ = Clock::now();
    if (n_tokens_++ == 0) first_ = last_;
  }
  void on_finish(std::string_view, const RequestStats& stats) override { stats_ = stats; }

  Clock::time_point first() const { return first_; }
  Clock::time_point last() const { return last_; }
  int64_t n_tokens() const { return n_tokens_; }
  const RequestStats& stats() const { return stats_; }

 private:
  Clock::time_point first_, last_;
  int64_t n_tokens_ = 0;
  RequestStats stats_;
};

class Bench {
 public:
  Bench(Engine& engine, const ModelWork& matrices)
      : engine_(engine), matrices_(matrices), source_(engine.tokenizer().vocab_size()) {}

  // One repetition in nanoseconds.
  uint64_t run(const BenchTest& test) {
    if (static_cast<int64_t>(prefix_.size()) != test.n_depth) fill_prefix(test.n_depth);
    std::vector<int32_t> prompt = prefix_;
    source_.append(test.n_prompt, prompt);
    // Decode alone starts from one token when nothing is in the cache.
    if (prompt.empty()) source_.append(1, prompt);
    TimingSink sink;
    const Clock::time_point start = Clock::now();
    // The first token comes out of the prompt's forward pass (which computes one row of logits, as a user's prompt
    // does); n_gen passes of their own make n_gen more.
    request(prompt, test.n_gen + 1, sink);
    const Clock::time_point end = Clock::now();
    if (sink.n_tokens() != test.n_gen + 1) {
      fail(ErrorKind::kInternal, test.name(), ": expected ", test.n_gen + 1, " tokens, found ", sink.n_tokens());
    }
    if (test.n_prompt == 0) return nanoseconds(sink.last() - sink.first());
    // Tokens of the depth that had to be evaluated again are not the test's: take their share off.
    const int64_t evaluated = sink.stats().n_prompt - sink.stats().n_cached;
    const uint64_t generation = test.n_gen > 0 ? nanoseconds(sink.last() - sink.first()) : 0;
    const auto prefill = static_cast<double>(nanoseconds(end - start) - generation);
    return generation + static_cast<uint64_t>(prefill * static_cast<double>(test.n_prompt) /
                                              static_cast<double>(std::max(evaluated, test.n_prompt)));
  }

  // What one repetition is counted to read and multiply.
  BenchWork work(const BenchTest& test) const {
    BenchWorkCounter counter(engine_.arch(), matrices_, engine_.config());
    counter.add_prefill(test.n_depth, test.n_prompt);
    const int64_t first = std::max<int64_t>(test.n_depth + test.n_prompt, 1);
    for (int64_t i = 0; i < test.n_gen; ++i) counter.add_pass({{first + i, 1}}, 1);
    return counter.work();
  }

 private:
  static uint64_t nanoseconds(Clock::duration duration) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  }

  void fill_prefix(int64_t depth) {
    prefix_.clear();
    source_.append(depth, prefix_);
    if (depth == 0) return;
    TimingSink sink;
    request(prefix_, 0, sink);
  }

  void request(const std::vector<int32_t>& prompt, int64_t max_tokens, TimingSink& sink) {
    Request request = bench_request(prompt, max_tokens, sink);
    request.cache_prompt = !prefix_.empty();
    engine_.submit(std::move(request));
    engine_.run_until_idle();
    if (sink.stats().reason == FinishReason::kError) fail(ErrorKind::kInternal, sink.stats().error);
  }

  Engine& engine_;
  const ModelWork matrices_;
  BenchTokens source_;
  std::vector<int32_t> prefix_;  // what lies in the cache before the test
};

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

int cmd_bench(const std::vector<std::string>& args) {
  const auto app = make_app("bench",
                            "Measures tokens per second of prefill (pp) and decode (tg). Lists and ranges "
                            "(1,2,4; 1-8; 256-4096*2) run in all combinations.");
  BenchOptions options;
  add_bench_options(*app, options);
  if (!parse(*app, args)) return 0;
  std::vector<BenchSetup> setups = options.setups();
  const std::vector<BenchTest> tests = options.tests();
  for (BenchSetup& setup : setups) setup.model_path = resolve_model(setup.model_path);

  std::vector<std::unique_ptr<BenchPrinter>> printers;
  printers.push_back(make_bench_printer(options.output, setups, stdout));
  if (options.output_stderr != "none") printers.push_back(make_bench_printer(options.output_stderr, setups, stderr));
  for (const auto& printer : printers) printer->begin();

  // Before any model is loaded: memory and cores are free.
  const cpu::CpuIds cpus = cpu::placement_cpus(options.placement, cpu::read_machine());
  std::map<int, cpu::Roofline> rooflines;
  for (BenchSetup& setup : setups) {
    if (setup.n_threads == 0) setup.n_threads = cpu::default_thread_count(cpus);
    if (options.no_roofline || rooflines.contains(setup.n_threads)) continue;
    rooflines[setup.n_threads] = cpu::measure_roofline(setup.n_threads, options.placement);
  }

  bool first_test = true;
  for (BenchSetup& setup : setups) {
    EngineConfig config;
    config.model_path = setup.model_path;
    config.n_batch = setup.n_batch;
    config.n_ubatch = setup.n_ubatch;
    config.n_threads = setup.n_threads;
    config.placement = setup.placement;
    config.kv.k_format = setup.k_format;
    config.kv.v_format = setup.v_format;
    config.precise = options.precise;
    for (const BenchTest& test : tests) config.n_ctx = std::max(config.n_ctx, test.n_ctx());
    const std::unique_ptr<Engine> engine = Engine::load(config);
    setup.k_format = engine->config().kv.k_format;
    setup.v_format = engine->config().kv.v_format;
    Bench bench(*engine, count_matrices(gguf::File::open(setup.model_path), engine->arch()));
    for (const BenchTest& test : tests) {
      if (!first_test && options.delay_s > 0) std::this_thread::sleep_for(std::chrono::seconds(options.delay_s));
      first_test = false;
      BenchRow row{.setup = setup,
                   .test = test,
                   .model = engine->info(),
                   .test_time = now_utc(),
                   .samples_ns = {},
                   .work = bench.work(test),
                   .roofline = {}};
      if (const auto found = rooflines.find(setup.n_threads); found != rooflines.end()) row.roofline = found->second;
      if (!options.no_warmup) bench.run({test.n_prompt, std::min<int64_t>(test.n_gen, 1), test.n_depth});
      for (int64_t i = 0; i < options.repetitions; ++i) {
        if (options.progress) {
          log_line(LogLevel::kInfo, str(row.model.name, ": ", test.name(), ", run ", i + 1, "/", options.repetitions));
        }
        const int64_t kv_bytes_before = engine->metrics().kv_bytes_read;
        row.samples_ns.push_back(bench.run(test));
        row.kv_bytes_per_token = static_cast<double>(engine->metrics().kv_bytes_read - kv_bytes_before) /
                                 static_cast<double>(test.n_tokens());
      }
      for (const auto& printer : printers) printer->row(row);
    }
  }
  for (const auto& printer : printers) printer->end();
  return 0;
}

}  // namespace loci::cli
