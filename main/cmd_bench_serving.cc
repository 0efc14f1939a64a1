// loci bench-serving: a workload file through the engine, with the time of every token. scripts/compare_serving.py
// gives the same file to other servers.
#include <algorithm>
#include <fstream>
#include <iostream>

#include "kernels/error.h"
#include "main/bench_serving.h"
#include "main/bench_work.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/options.h"

namespace loci::cli {

int cmd_bench_serving(const std::vector<std::string>& args) {
  const auto app = make_app("bench-serving",
                            "Runs requests from a file of JSON lines (id, prompt as token ids, max_tokens, at_ms, "
                            "after) as they arrive, greedily, and prints when each token came.");
  EngineConfig config;
  std::string path;
  int64_t n_kv_tokens = 0;
  SpeculationOptions speculation;
  add_model_options(*app, config);
  add_scheduling_options(*app, config);
  add_speculation_options(*app, config, speculation);
  app->add_option("workload", path, "file of requests; - for standard input")->required()->type_name("FILE");
  app->add_option("--np,--parallel", config.max_sequences, "requests that run at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--max-queued-requests,--max-queue", config.max_queue,
                  "requests that may wait for a place; one that comes when so many wait is refused; 0: any number")
      ->check(CLI::Range(0, INT32_MAX))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--kv-tokens", n_kv_tokens, "room in the K/V cache in tokens, instead of --kv-budget")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->type_name("N");
  if (!parse(*app, args)) return 0;
  check_scheduling(config);

  std::vector<ServedRequest> requests;
  if (path == "-") {
    requests = read_workload(std::cin, "standard input");
  } else {
    std::ifstream file(path);
    if (!file) fail(ErrorKind::kInvalidInput, path, ": cannot be opened");
    requests = read_workload(file, path);
  }
  config.model_path = resolve_model(config.model_path);
  finish_speculation(config, speculation);
  int64_t longest = 0;
  for (const ServedRequest& request : requests) {
    longest = std::max(longest, static_cast<int64_t>(request.prompt.size()) + request.max_tokens + 1);
  }
  if (config.n_ctx == 0) config.n_ctx = std::max<int64_t>(longest, config.n_batch);
  if (n_kv_tokens > 0) config.kv.budget_bytes = kv_pool_bytes(config, n_kv_tokens);
  const std::unique_ptr<Engine> engine = Engine::load(config);
  const std::vector<ServedResult> results = serve_workload(*engine, requests, speculation.params);
  std::cout << results_text(results, engine->metrics());
  return 0;
}

}  // namespace loci::cli
