#include "main/cli.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "kernels/error.h"

namespace loci::cli {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// "-ngl" is declared to CLI11 as "--ngl": CLI11 knows one-letter short flags only.
std::string with_two_dashes(const std::string& arg) {
  const bool one_dash = arg.size() > 2 && arg[0] == '-' && arg[1] != '-' && std::isalpha(static_cast<unsigned char>(arg[1]));
  return one_dash ? "-" + arg : arg;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

std::unique_ptr<CLI::App> make_app(const std::string& command, const std::string& description) {
  auto app = std::make_unique<CLI::App>(description, "loci " + command);
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return app;
}

bool parse(CLI::App& app, std::vector<std::string> args) {
  const std::vector<std::string> names = flag_names(app);
  const auto known = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  bool is_value = false;  // the argument before was a flag that takes one
  for (std::string& arg : args) {
    if (is_value) {
      is_value = false;
      continue;
    }
    if (arg.size() < 2 || arg[0] != '-' || arg == "--") continue;
    const std::string spelled = with_two_dashes(arg);
    const size_t equals = spelled.find('=');
    const std::string name = spelled.substr(0, equals);
    if (!known(name)) {
      std::string nearest;
      size_t best = 3;
      for (const std::string& candidate : names) {
        if (candidate.size() < 4) continue;
        const size_t distance = edit_distance(name, candidate);
        if (distance < best) best = distance, nearest = candidate;
      }
      fail(ErrorKind::kInvalidInput, "invalid argument: ", arg.substr(0, arg.find('=')),
           nearest.empty() ? "" : " (did you mean " + nearest + "?)", "; see 'loci ", app.get_name().substr(5), " --help'");
    }
    arg = spelled;
    const CLI::Option* option = app.get_option(name);
    is_value = equals == std::string::npos && option->get_items_expected_min() > 0;
  }
  std::reverse(args.begin(), args.end());  // CLI11 takes them last first
  try {
    app.parse(args);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::kInvalidInput, "invalid argument: ", error.what());
  }
  return true;
}

std::string resolve_model(const std::string& name) { return name; }

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail(ErrorKind::kNotFound, path, ": ", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail(ErrorKind::kInvalidInput, path, ": is a directory, expected a text file");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::kInvalidInput, path, ": ", std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), active_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (active_ && last_drawn_s_ >= 0) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(double done, double total, const std::string& detail) {
  if (!active_ || total <= 0) return;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (last_drawn_s_ >= 0 && now - last_drawn_s_ < 0.05 && done < total) return;
  last_drawn_s_ = now;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * std::clamp(done / total, 0.0, 1.0));
  std::fprintf(stderr, "\r%s [%.*s%*s] %3.0f%% %s\033[K", label_.c_str(), filled,
               "==============================", kWidth - filled, "", 100 * done / total, detail.c_str());
  std::fflush(stderr);
}

}  // namespace loci::cli
