#include "main/bench_options.h"

#include <charconv>
#include <limits>

#include "kernels/error.h"
#include "main/cli.h"
#include "main/options.h"

namespace loci::cli {
namespace {

constexpr size_t kMostValues = 1000;  // of one list: a range with a slip in it should fail, not run for days

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

[[noreturn]] void refuse(const std::string& flag, const std::string& text) {
  fail(ErrorKind::kInvalidInput, "invalid argument: ", flag,
       ": expected a number, a list a,b or a range first-last[+step|*factor], found '", text, "'");
}

// Reads one number at `position` and moves past it.
int64_t number_at(const std::string& flag, const std::string& text, size_t& position) {
  int64_t value = 0;
  const char* begin = text.data() + position;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc{} || value > std::numeric_limits<int>::max()) refuse(flag, text);
  position += static_cast<size_t>(end - begin);
  return value;
}

void append_range(const std::string& flag, const std::string& text, std::vector<int64_t>& values) {
  size_t at = 0;
  const int64_t first = number_at(flag, text, at);
  if (at == text.size()) {
    values.push_back(first);
    return;
  }
  if (text[at++] != '-') refuse(flag, text);
  const int64_t last = number_at(flag, text, at);
  char operation = '+';
  int64_t step = 1;
  if (at < text.size()) {
    operation = text[at++];
    step = number_at(flag, text, at);
  }
  const bool grows = operation == '+' ? step > 0 : operation == '*' && step > 1 && first > 0;
  if (at != text.size() || !grows || last < first) refuse(flag, text);
  for (int64_t value = first; value <= last; value = operation == '+' ? value + step : value * step) {
    if (values.size() == kMostValues) {
      fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected at most ", kMostValues,
           " values, found more in '", text, "'");
    }
    values.push_back(value);
  }
}

std::vector<int64_t> expand(const std::string& flag, const std::vector<std::string>& given, int64_t least,
                            std::vector<int64_t> by_default) {
  if (given.empty()) return by_default;
  std::vector<int64_t> values;
  for (const std::string& text : given) {
    for (int64_t value : parse_int_list(flag, text, least)) values.push_back(value);
  }
  return values;
}

std::vector<KvFormat> expand_formats(const std::string& flag, const std::vector<std::string>& given,
                                     KvFormat by_default) {
  std::vector<KvFormat> formats;
  for (const std::string& text : given) {
    for (const std::string& part : split(text, ',')) {
      const std::optional<KvFormat> format = kv_format_from_name(part);
      if (!format) fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": unknown K/V format '", part, "'");
      formats.push_back(*format);
    }
  }
  if (formats.empty()) formats.push_back(by_default);
  return formats;
}

void add_list(CLI::App& app, const std::string& names, std::vector<std::string>& values, const std::string& help) {
  app.add_option(names, values, help)->take_all()->allow_extra_args(false)->type_name("LIST");
}

}  // namespace

std::vector<int64_t> parse_int_list(const std::string& flag, const std::string& text, int64_t least) {
  std::vector<int64_t> values;
  for (const std::string& part : split(text, ',')) append_range(flag, part, values);
  for (int64_t value : values) {
    if (value < least) {
      fail(ErrorKind::kInvalidInput, "invalid argument: ", flag, ": expected at least ", least, ", found ", value);
    }
  }
  return values;
}

std::string BenchTest::name() const {
  std::string text;
  if (n_prompt > 0) text = str("pp", n_prompt);
  if (n_gen > 0) text += str(text.empty() ? "" : "+", "tg", n_gen);
  if (n_depth > 0) text += str(" @ d", n_depth);
  return text;
}

std::vector<BenchSetup> BenchOptions::setups() const {
  std::vector<std::string> paths;
  for (const std::string& text : models) {
    for (const std::string& part : split(text, ',')) paths.push_back(part);
  }
  if (paths.empty()) paths.emplace_back();
  const auto batches = expand("-b", batch, 1, {2048}), ubatches = expand("-ub", ubatch, 1, {512});
  const auto thread_counts = expand("-t", threads, 1, {0});
  const KvFormat by_default = precise ? KvFormat::kF32 : KvFormat::kF16;
  const auto k_formats = expand_formats("-ctk", k_format, by_default);
  const auto v_formats = expand_formats("-ctv", v_format, by_default);
  std::vector<BenchSetup> all;
  for (const std::string& path : paths)
    for (int64_t n_batch : batches)
      for (int64_t n_ubatch : ubatches)
        for (KvFormat k : k_formats)
          for (KvFormat v : v_formats)
            for (int64_t n_threads : thread_counts)
              all.push_back({path, static_cast<int>(n_batch), static_cast<int>(n_ubatch), static_cast<int>(n_threads),
                             k, v, placement});
  return all;
}

std::vector<BenchTest> BenchOptions::tests() const {
  // Asking for some tests drops the defaults of the others.
  const bool none_given = n_prompt.empty() && n_gen.empty() && prompt_and_gen.empty();
  const auto prompts = expand("-p", n_prompt, 0, none_given ? std::vector<int64_t>{512} : std::vector<int64_t>{});
  const auto gens = expand("-n", n_gen, 0, none_given ? std::vector<int64_t>{128} : std::vector<int64_t>{});
  std::vector<BenchTest> all;
  for (int64_t d : expand("-d", depth, 0, {0})) {
    for (int64_t p : prompts) {
      if (p > 0) all.push_back({p, 0, d});
    }
    for (int64_t n : gens) {
      if (n > 0) all.push_back({0, n, d});
    }
    for (const std::string& pair : prompt_and_gen) {
      const auto values = parse_int_list("-pg", pair, 1);
      if (values.size() != 2) {
        fail(ErrorKind::kInvalidInput, "invalid argument: -pg: expected PROMPT,GEN, found '", pair, "'");
      }
      all.push_back({values[0], values[1], d});
    }
  }
  if (all.empty()) fail(ErrorKind::kInvalidInput, "nothing to measure: -p, -n and -pg are all 0 or empty");
  return all;
}

void add_bench_options(CLI::App& app, BenchOptions& options) {
  add_list(app, "-m,--model", options.models, "GGUF files or aliases; default smollm2");
  add_list(app, "-p,--n-prompt", options.n_prompt, "prompt tokens evaluated together; default 512");
  add_list(app, "-n,--n-gen", options.n_gen, "tokens generated one by one; default 128");
  add_list(app, "--pg", options.prompt_and_gen, "PROMPT,GEN: one after the other");
  add_list(app, "-d,--n-depth", options.depth, "tokens already in the cache; default 0");
  add_list(app, "-b,--batch-size", options.batch, "most prompt tokens taken at a time; default 2048");
  add_list(app, "--ub,--ubatch-size", options.ubatch, "most tokens of one forward pass; default 512");
  add_list(app, "--ctk,--cache-type-k", options.k_format, "format of cached keys, as -ctk of run; default f16");
  add_list(app, "--ctv,--cache-type-v", options.v_format, "format of cached values; default f16");
  add_list(app, "-t,--threads", options.threads, "threads; default: one per core");
  app.add_option("-r,--repetitions", options.repetitions, "times each test runs")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->capture_default_str();
  const auto formats = CLI::IsMember({"csv", "json", "jsonl", "md", "sql"});
  app.add_option("-o,--output", options.output, "csv, json, jsonl, md or sql, on stdout")
      ->check(formats)
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_option("--oe,--output-err", options.output_stderr, "the same on stderr, or none")
      ->check(CLI::IsMember({"csv", "json", "jsonl", "md", "sql", "none"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_flag("--progress", options.progress, "say on stderr what is being measured");
  app.add_flag("--no-warmup", options.no_warmup, "no unmeasured run before the measured ones");
  app.add_flag("--no-roofline", options.no_roofline, "do not measure what the machine can do (half a second)");
  app.add_flag("--precise", options.precise, "f32 activations");
  app.add_option("--delay", options.delay_s, "seconds to wait between tests")->check(CLI::Range(0, 3600));
  add_placement_options(app, options.placement);
}

}  // namespace loci::cli
