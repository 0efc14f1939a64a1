#include "main/cli.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/foreign_flags.h"

namespace loci::cli {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string alignment).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// Names that people write with one dash; CLI11 knows one-letter short flags only, so they are declared with two.
constexpr std::string_view kOneDash[] = {"ngl", "ctk",  "ctv", "ub", "tb", "fa", "lv",   "cnv", "no-cnv", "st",
                                         "sys", "sysf", "mli", "sp", "if", "lm", "nkvo", "dev", "bf",     "rea",
                                         "fit", "pg",   "oe",  "md", "np", "Cr", "Cb",   "Crb"};

bool has_one_dash(const std::string& long_name) {
  return std::find(std::begin(kOneDash), std::end(kOneDash), long_name) != std::end(kOneDash);
}

std::string with_two_dashes(const std::string& arg) {
  const bool one_dash = arg.size() > 2 && arg[0] == '-' && arg[1] != '-' &&
                        std::isalpha(static_cast<unsigned char>(arg[1])) && arg[2] != '=';
  return one_dash ? "-" + arg : arg;
}

// All spellings, as CLI11 knows them ("--ngl").
std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }
bool is_three_state(const CLI::Option& option) { return option.get_type_name() == kOnOffAuto; }

std::optional<bool> to_bool(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* yes : {"1", "true", "on", "enabled", "yes"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "off", "disabled", "no"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& arg, const std::vector<std::string>& names) {
  const std::string given = arg.substr(0, arg.find('='));
  const std::string_view reason = foreign_flag_reason(given);
  if (!reason.empty()) fail(ErrorKind::kUnsupported, "not supported by this build: ", given, " (", reason, ")");
  std::string nearest;
  size_t best = 3;
  for (const std::string& candidate : names) {
    if (candidate.size() < 4) continue;
    const size_t distance = edit_distance(with_two_dashes(given), candidate);
    if (distance < best) best = distance, nearest = candidate;
  }
  if (!nearest.empty() && has_one_dash(nearest.substr(2))) nearest.erase(0, 1);
  const std::string app_name = app.get_name();
  const std::string command = app_name.rfind("loci ", 0) == 0 ? app_name.substr(5) + " --help" : "help";
  fail(ErrorKind::kInvalidInput, "invalid argument: ", given, nearest.empty() ? "" : " (did you mean " + nearest + "?)",
       "; see 'loci ", command, "'");
}

// A spelling of the option that survives values of any content: "--name=value" when it has a long name.
void push_with_value(std::vector<std::string>& out, const CLI::Option& option, const std::string& name,
                     const std::string& value) {
  if (option.get_lnames().empty() || value.empty()) {
    out.push_back(name);
    out.push_back(value);
  } else {
    out.push_back((name.rfind("--", 0) == 0 ? name : "--" + option.get_lnames().front()) + "=" + value);
  }
}

void push_flag(std::vector<std::string>& out, const CLI::Option& option, const std::string& name,
               const std::string& value, const std::string& source) {
  const std::optional<bool> on = to_bool(value);
  if (!on) fail(ErrorKind::kInvalidInput, source, ": expected on or off, found '", value, "'");
  if (*on) {
    out.push_back(name);
  } else if (!option.get_lnames().empty()) {
    out.push_back((name.rfind("--", 0) == 0 ? name : "--" + option.get_lnames().front()) + "=false");
  }
}

// Arguments in a form that CLI11 reads as we mean them. Marks the options seen.
std::vector<std::string> normalise(const CLI::App& app, const std::vector<std::string>& args,
                                   std::vector<const CLI::Option*>& seen) {
  const std::vector<std::string> names = flag_names(app);
  std::vector<std::string> out, words;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      words.insert(words.end(), args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (arg.size() < 2 || arg[0] != '-') {
      words.push_back(arg);
      continue;
    }
    const std::string spelled = with_two_dashes(arg);
    const size_t equals = spelled.find('=');
    const std::string name = spelled.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end()) refuse_unknown(app, arg, names);
    const CLI::Option& option = *app.get_option(name);
    seen.push_back(&option);
    if (is_flag(option)) {
      if (equals == std::string::npos) {
        out.push_back(name);
      } else {
        push_flag(out, option, name, spelled.substr(equals + 1), "invalid argument: " + arg);
      }
    } else if (equals != std::string::npos) {
      push_with_value(out, option, name, spelled.substr(equals + 1));
    } else if (is_three_state(option)) {
      const bool has_value = i + 1 < args.size() && (args[i + 1] == "auto" || to_bool(args[i + 1]));
      push_with_value(out, option, name, has_value ? args[++i] : "on");
    } else if (i + 1 == args.size()) {
      fail(ErrorKind::kInvalidInput, "invalid argument: ", arg, ": expected a value, found the end of the line");
    } else {
      push_with_value(out, option, name, args[++i]);
    }
  }
  if (!words.empty()) {
    out.push_back("--");
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

// Options absent from the command line but set in the environment.
std::vector<std::string> from_environment(const CLI::App& app, const std::vector<const CLI::Option*>& seen) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || std::find(seen.begin(), seen.end(), option) != seen.end()) continue;
    for (const std::string& name : option->get_lnames()) {
      std::string variable = "LLAMA_ARG_" + name;
      std::transform(variable.begin(), variable.end(), variable.begin(),
                     [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
      const char* value = std::getenv(variable.c_str());
      if (value == nullptr) continue;
      if (is_flag(*option)) {
        push_flag(out, *option, "--" + name, value, variable);
      } else {
        push_with_value(out, *option, "--" + name, value);
      }
      break;
    }
  }
  return out;
}

// "--ngl" is printed as "-ngl" where that is the customary spelling.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(38); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    std::string text;
    for (const std::string& name : option->get_snames()) text += (text.empty() ? "-" : ", -") + name;
    for (const std::string& name : option->get_lnames()) {
      text += (text.empty() ? "" : ", ") + std::string(has_one_dash(name) ? "-" : "--") + name;
    }
    return text;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (is_flag(*option)) return "";
    const std::string type = option->get_type_name();
    return " " + (type == "TEXT" || type.empty()    ? "S"
                  : type == "INT" || type == "UINT" ? "N"
                  : type == "FLOAT"                 ? "X"
                                                    : type);
  }
  std::string make_usage(const CLI::App* app, std::string) const override {
    const bool positional = !app->get_options([](const CLI::Option* o) { return o->get_positional(); }).empty();
    return "usage: " + app->get_name() + " [flags]" + (positional ? " [words]" : "") + "\n";
  }
};

void add_log_options(CLI::App& app) {
  app.add_flag_callback(
         "-v,--verbose,--log-verbose", [] { set_log_level(LogLevel::kDebug); }, "log everything")
      ->group("Log");
  app.add_option_function<int>(
         "--lv,--verbosity,--log-verbosity",
         [](int level) { set_log_level(static_cast<LogLevel>(std::clamp(level, 0, 5))); },
         "0 answers only, 1 errors, 2 warnings, 3 information (default), 4 trace, 5 debug")
      ->group("Log");
  app.add_option_function<std::string>(
         "--log-file", [](const std::string& path) { set_log_file(path); }, "write the log to this file as well")
      ->group("Log");
  app.add_flag_callback(
         "--log-disable", [] { set_log_level(LogLevel::kOutput); }, "no log at all")
      ->group("Log");
}

}  // namespace

std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description) {
  auto app = std::make_unique<CLI::App>(description, "loci " + command);
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->formatter(std::make_shared<HelpFormatter>());
  add_log_options(*app);
  return app;
}

bool parse(CLI::App& app, std::vector<std::string> args) {
  std::vector<const CLI::Option*> seen;
  std::vector<std::string> line = normalise(app, args, seen);
  const bool help = std::find(seen.begin(), seen.end(), app.get_help_ptr()) != seen.end();
  if (help) {
    std::cout << app.help();
    return false;
  }
  const std::vector<std::string> twins = from_environment(app, seen);
  line.insert(line.begin(), twins.begin(), twins.end());
  std::reverse(line.begin(), line.end());  // CLI11 takes them last first
  try {
    app.parse(line);
  } catch (const CLI::ConversionError& error) {
    // "Could not convert: --top-k = many"
    std::string text = error.what();
    const size_t name_at = text.find("--"), equals = text.find(" = ");
    if (name_at == std::string::npos || equals == std::string::npos) {
      fail(ErrorKind::kInvalidInput, "invalid argument: ", text);
    }
    const std::string name = text.substr(name_at, equals - name_at);
    const CLI::Option* option = app.get_option_no_throw(name);
    const std::string type = option == nullptr ? "" : option->get_type_name();
    fail(ErrorKind::kInvalidInput, "invalid argument: ", name, ": expected ",
         type == "INT" || type == "UINT" ? "an integer"
         : type == "FLOAT"               ? "a number"
                                         : type,
         ", found '", text.substr(equals + 3), "'");
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::kInvalidInput, "invalid argument: ", error.what());
  }
  return true;
}

}  // namespace loci::cli
