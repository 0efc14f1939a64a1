// Flags of the scheduler (docs/scheduling.md), for commands that run several requests at once.
#include <algorithm>

#include "engine/config.h"
#include "kernels/error.h"
#include "main/cli.h"
#include "main/options.h"

namespace loci::cli {
namespace {

constexpr const char* kGroup = "Scheduling";
constexpr double kMaxMs = 1e9;  // eleven days

}  // namespace

void add_scheduling_options(CLI::App& app, EngineConfig& config) {
  app.add_option("--max-stall-ms", config.max_stall_ms,
                 "longest time that the prompts of others may hold up a token; 0: no limit")
      ->check(CLI::Range(0.0, kMaxMs))
      ->group(kGroup)
      ->type_name("MS")
      ->capture_default_str();
  app.add_option("--priority-ageing-ms,--priority-aging-ms", config.ageing_ms,
                 "waiting for so long lifts a request by one priority class")
      ->check(CLI::Range(1.0, kMaxMs))
      ->group(kGroup)
      ->type_name("MS")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--preemption-mode",
         [&config](const std::string& mode) {
           config.preemption = mode == "swap"        ? Preemption::kSwap
                               : mode == "recompute" ? Preemption::kRecompute
                                                     : Preemption::kAuto;
         },
         "how a request makes way when the cache is full: its K/V are copied to host memory (swap) or computed again "
         "(recompute); auto (default): what takes less time")
      ->check(CLI::IsMember({"auto", "swap", "recompute"}))
      ->group(kGroup)
      ->type_name("auto|swap|recompute");
  app.add_option_function<std::string>(
         "--swap-space",
         [&config](const std::string& text) {
           // A number without unit is in GiB, as in vLLM; 0 is none.
           const bool is_number = text.find_first_not_of("0123456789.") == std::string::npos;
           const bool is_zero =
               text.find('0') != std::string::npos && text.find_first_not_of("0.") == std::string::npos;
           config.kv.swap_bytes = text == "auto" ? -1
                                  : is_zero      ? 0
                                                 : parse_size("--swap-space", is_number ? text + "GiB" : text);
         },
         "host memory for swapped requests, as 512M or 2GiB, without unit in GiB; 0: none; auto (default): as much as "
         "--kv-budget, at most a quarter of the free memory")
      ->group(kGroup)
      ->type_name("SIZE");
}

void check_scheduling(const EngineConfig& config) {
  if (config.preemption == Preemption::kSwap && config.kv.swap_bytes == 0) {
    fail(ErrorKind::kInvalidInput, "--preemption-mode swap: expected a --swap-space to copy to, found 0");
  }
}

void add_request_timeout_option(CLI::App& app, int64_t& timeout_ms) {
  app.add_option_function<double>(
         "--request-timeout",
         [&timeout_ms](double seconds) {
           if (!(seconds >= 0 && seconds * 1000 <= kMaxMs)) {
             fail(ErrorKind::kInvalidInput, "invalid argument: --request-timeout: expected seconds from 0 to ",
                  kMaxMs / 1000, ", found ", seconds);
           }
           timeout_ms = seconds == 0 ? -1 : std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000));
         },
         "most seconds for an answer, its prompt included; 0 (default): no limit")
      ->group("Prompt and answer")
      ->type_name("S");
}

}  // namespace loci::cli
