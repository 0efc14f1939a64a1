// Flags that say where threads run, with llama.cpp's names.
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "kernels/error.h"
#include "main/cli.h"
#include "main/options.h"

namespace loci::cli {
namespace {

constexpr const char* kGroup = "Threads";
constexpr int kMaxCpus = 1024;

// "0x0f" or "f": bit i of the number is CPU i.
std::vector<int> parse_cpu_mask(const std::string& flag, const std::string& text) {
  const bool prefixed = text.starts_with("0x") || text.starts_with("0X");
  const std::string digits = text.substr(prefixed ? 2 : 0);
  const bool is_hex = digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (digits.empty() || !is_hex || digits.size() > kMaxCpus / 4) {
    fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected up to ", kMaxCpus / 4,
         " hexadecimal digits, found '", text, "'");
  }
  std::vector<int> cpus;
  for (size_t i = 0; i < digits.size(); ++i) {
    unsigned value = 0;
    const char* digit = digits.data() + digits.size() - 1 - i;
    std::from_chars(digit, digit + 1, value, 16);
    for (int bit = 0; bit < 4; ++bit) {
      if ((value >> bit & 1) != 0) cpus.push_back(static_cast<int>(i) * 4 + bit);
    }
  }
  if (cpus.empty()) fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": the mask ", text, " names no CPU");
  return cpus;
}

// "0-3"; "-3" begins with the first CPU, "2-" ends with the last.
std::vector<int> parse_cpu_range(const std::string& flag, const std::string& text) {
  int first = 0, last = kMaxCpus - 1;
  const size_t dash = text.find('-');
  const auto number = [](std::string_view part, int& value) {
    if (part.empty()) return true;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc{} && end == part.data() + part.size() && value >= 0 && value < kMaxCpus;
  };
  const std::string_view view = text;
  if (dash == std::string::npos || text.size() < 2 || !number(view.substr(0, dash), first) ||
      !number(view.substr(dash + 1), last) || last < first) {
    fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected FIRST-LAST with CPUs from 0 to ",
         kMaxCpus - 1, ", found '", text, "'");
  }
  if (dash + 1 == text.size()) last = std::max(first, static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)) - 1);
  std::vector<int> cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

void merge(std::vector<int>& into, const std::vector<int>& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

}  // namespace

void add_placement_options(CLI::App& app, ThreadPlacement& placement) {
  app.add_option_function<std::string>(
         "-C,--cpu-mask", [&](const std::string& text) { merge(placement.cpus, parse_cpu_mask("-C", text)); },
         "CPUs that threads may run on, as a hexadecimal mask; together with -Cr")
      ->group(kGroup)
      ->type_name("M");
  app.add_option_function<std::string>(
         "--Cr,--cpu-range", [&](const std::string& text) { merge(placement.cpus, parse_cpu_range("-Cr", text)); },
         "CPUs that threads may run on, first and last")
      ->group(kGroup)
      ->type_name("LO-HI");
  app.add_option_function<int>(
         "--cpu-strict", [&](int on) { placement.strict = on != 0; },
         "1: each thread stays on one CPU; 0 (default): on any of them")
      ->check(CLI::Range(0, 1))
      ->group(kGroup)
      ->type_name("0|1");
  app.add_option("--prio", placement.priority,
                 "priority of threads: -1 low, 0 normal, 1 medium, 2 high, 3 real time; above 0 needs rights")
      ->check(CLI::Range(-1, 3))
      ->group(kGroup)
      ->type_name("N");
  app.add_option("--poll", placement.poll, "a waiting thread spins for up to so many microseconds before it sleeps")
      ->check(CLI::Range(0, 100))
      ->group(kGroup)
      ->type_name("0..100")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--numa",
         [&](const std::string& mode) {
           placement.numa = mode == "distribute" ? NumaMode::kDistribute
                            : mode == "isolate"  ? NumaMode::kIsolate
                                                 : NumaMode::kNumactl;
         },
         "distribute: threads over all memory nodes; isolate: those of the node it started on; numactl: as numactl "
         "said")
      ->check(CLI::IsMember({"distribute", "isolate", "numactl"}))
      ->group(kGroup)
      ->type_name("MODE");
}

void add_batch_placement_options(CLI::App& app, BatchPlacement& placement) {
  const auto merge_batch = [&placement](const std::vector<int>& cpus) {
    std::vector<int> all = placement.cpus.value_or(std::vector<int>());
    merge(all, cpus);
    placement.cpus = std::move(all);
  };
  app.add_option_function<std::string>(
         "--Cb,--cpu-mask-batch", [=](const std::string& text) { merge_batch(parse_cpu_mask("-Cb", text)); },
         "as --cpu-mask, for prompts; default: as without -batch, here and below")
      ->group(kGroup)
      ->type_name("M");
  app.add_option_function<std::string>(
         "--Crb,--cpu-range-batch", [=](const std::string& text) { merge_batch(parse_cpu_range("-Crb", text)); },
         "as --cpu-range, for prompts")
      ->group(kGroup)
      ->type_name("LO-HI");
  app.add_option_function<int>(
         "--cpu-strict-batch", [&](int on) { placement.strict = on != 0; }, "as --cpu-strict, for prompts")
      ->check(CLI::Range(0, 1))
      ->group(kGroup)
      ->type_name("0|1");
  app.add_option("--prio-batch", placement.priority, "as --prio, for prompts")
      ->check(CLI::Range(-1, 3))
      ->group(kGroup)
      ->type_name("N");
  app.add_option("--poll-batch", placement.poll, "as --poll, for prompts")
      ->check(CLI::Range(0, 100))
      ->group(kGroup)
      ->type_name("0..100");
}

}  // namespace loci::cli
