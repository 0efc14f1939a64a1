// loci batched-bench: prefill and decode of several sequences together, in the shape of llama-batched-bench.
#include <algorithm>

#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/placement.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "main/bench_batched.h"
#include "main/bench_options.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/options.h"

namespace loci::cli {
namespace {

struct Flags {
  std::string n_prompt = "128,256,512", n_gen = "128", n_sequences = "1,2,4,8,16";
  bool shared_prompt = false, no_warmup = false, no_roofline = false;
  std::string output = "md";
};

std::vector<BatchedTest> expand(const Flags& flags) {
  std::vector<BatchedTest> tests;
  for (int64_t n_prompt : parse_int_list("-npp", flags.n_prompt, 1))
    for (int64_t n_gen : parse_int_list("-ntg", flags.n_gen, 0))
      for (int64_t n_sequences : parse_int_list("-npl", flags.n_sequences, 1))
        tests.push_back({n_prompt, n_gen, n_sequences, flags.shared_prompt});
  return tests;
}

}  // namespace

int cmd_batched_bench(const std::vector<std::string>& args) {
  const auto app = make_app("batched-bench",
                            "Measures several sequences at once: prefill of all prompts (PP), then decode of all "
                            "together (TG). Lists run in all combinations.");
  EngineConfig config;
  Flags flags;
  add_model_options(*app, config);
  app->add_option("--npp", flags.n_prompt, "prompt tokens of a sequence, a list")->type_name("LIST");
  app->add_option("--ntg", flags.n_gen, "generated tokens of a sequence, a list")->type_name("LIST");
  app->add_option("--npl", flags.n_sequences, "sequences at once, a list")->type_name("LIST");
  app->add_flag("--pps", flags.shared_prompt, "one prompt shared by all sequences");
  app->remove_option(app->get_option("--no-warmup"));  // elsewhere there is no warm-up run
  app->add_flag("--no-warmup", flags.no_warmup, "no unmeasured run before the measured ones");
  app->add_flag("--no-roofline", flags.no_roofline, "do not measure what the machine can do (jsonl shows it)");
  app->add_option("-o,--output-format", flags.output, "md or jsonl, on stdout")
      ->check(CLI::IsMember({"md", "jsonl"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  if (!parse(*app, args)) return 0;

  const std::vector<BatchedTest> tests = expand(flags);
  config.model_path = resolve_model(config.model_path);
  int64_t n_tokens = 0, longest = 0;
  for (const BatchedTest& test : tests) {
    n_tokens = std::max(n_tokens, test.n_ctx(config.kv.page_size));
    longest = std::max(longest, test.n_prompt + test.n_gen + 1);
    config.max_sequences = std::max(config.max_sequences, static_cast<int>(test.n_sequences));
  }
  // -c is the room of all sequences together; one of them takes no more than it needs, or a batch.
  if (config.n_ctx > 0) n_tokens = config.n_ctx;
  config.n_ctx = std::min(n_tokens, std::max<int64_t>(longest, config.n_batch));
  if (config.kv.budget_bytes == 0) config.kv.budget_bytes = kv_pool_bytes(config, n_tokens);
  const int n_threads = config.n_threads > 0
                            ? config.n_threads
                            : cpu::default_thread_count(cpu::placement_cpus(config.placement, cpu::read_machine()));
  std::optional<cpu::Roofline> roofline;
  if (!flags.no_roofline && flags.output == "jsonl") roofline = cpu::measure_roofline(n_threads, config.placement);
  const std::unique_ptr<Engine> engine = Engine::load(config);
  const ModelWork matrices = count_matrices(gguf::File::open(config.model_path), engine->arch());
  if (!flags.no_warmup) run_batched(*engine, matrices, {std::min<int64_t>(16, config.n_ctx / 2), 0, 1, false});

  BatchedPrinter printer(flags.output == "jsonl", engine->config(), n_threads, roofline, stdout);
  for (const BatchedTest& test : tests) {
    const int64_t needed = test.n_ctx(config.kv.page_size), there = engine->info().n_kv_tokens;
    if (needed > there || test.n_prompt + test.n_gen + 1 > config.n_ctx) {
      log_warn("PP ", test.n_prompt, ", TG ", test.n_gen, ", B ", test.n_sequences, ": skipped: needs room for ",
               needed, " tokens, found room for ", there);
      continue;
    }
    printer.row(run_batched(*engine, matrices, test));
  }
  return 0;
}

}  // namespace loci::cli
