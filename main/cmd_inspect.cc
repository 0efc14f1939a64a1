// loci inspect: one page (or JSON) about a GGUF file. The exit code says whether it would load.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "gguf/printable.h"
#include "kernels/error.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/inspect_report.h"
#include "main/options.h"

namespace loci::cli {
namespace {

using nlohmann::ordered_json;

KvFormat cache_type(const std::string& flag, const std::string& type) {
  if (const auto format = kv_format_from_name(type)) return *format;
  fail(ErrorKind::kInvalidInput, flag, ": expected a cache type that this build has (", kv_format_names(), "), found '",
       gguf::printable(type), "'");
}

// "1000000", "0.25".
std::string number_shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

// "30", "[4, 4, 2]", "a name": a JSON value for people; "?" when it is not known. Long lists are cut.
std::string shown(const ordered_json& value) {
  if (value.is_null()) return "?";
  if (value.is_string()) return gguf::printable(value.get<std::string>());
  if (value.is_number_float()) return number_shown(value.get<double>());
  if (!value.is_array()) return value.dump();
  std::string text;
  for (size_t i = 0; i < value.size() && i < 8; ++i) text += (i > 0 ? ", " : "") + shown(value[i]);
  return "[" + text + (value.size() > 8 ? ", ..." : "") + "]";
}

std::string shown(const ordered_json& parent, const char* key) {
  return parent.contains(key) ? shown(parent[key]) : "?";
}

std::string bytes_shown(const ordered_json& value) { return bytes_text(value.get<double>()); }

// "134.5 M".
std::string count_shown(double n) {
  char text[32];
  if (n >= 1e9) {
    std::snprintf(text, sizeof text, "%.2f B", n / 1e9);
  } else if (n >= 1e6) {
    std::snprintf(text, sizeof text, "%.1f M", n / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.0f", n);
  }
  return text;
}

class Page {
 public:
  template <typename... Parts>
  void line(const std::string& label, Parts&&... parts) {
    std::string padded = label;
    padded.resize(15, ' ');
    out_ << "  " << padded << str(std::forward<Parts>(parts)...) << '\n';
  }
  // Items on as many lines as they need.
  void list(const std::string& label, const std::vector<std::string>& items) {
    constexpr size_t kColumns = 96;
    std::string text;
    bool first = true;
    for (size_t i = 0; i < items.size(); ++i) {
      text += items[i] + (i + 1 < items.size() ? ", " : "");
      if (i + 1 < items.size() && text.size() + items[i + 1].size() < kColumns) continue;
      line(first ? label : "", text);
      text.clear();
      first = false;
    }
    if (items.empty()) line(label, "none");
  }
  template <typename... Parts>
  void title(Parts&&... parts) {
    out_ << str(std::forward<Parts>(parts)...) << '\n';
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void print_sizes(const ordered_json& report, Page& page) {
  const ordered_json& sizes = report["sizes"];
  page.line("parameters", count_shown(sizes["parameters"].get<double>()));
  page.line("layers", shown(sizes, "layers"), ", dim ", shown(sizes, "dim"), ", ffn ", shown(sizes, "ffn_dim"));
  page.line("heads", shown(sizes, "heads"), ", K/V heads ", shown(sizes, "kv_heads"), ", head size ",
            shown(sizes, "head_dim"));
  page.line("vocabulary", shown(sizes, "vocab_size"));
}

void print_types(const ordered_json& report, Page& page) {
  page.line("quantization", shown(report, "quantization"));
  for (const ordered_json& type : report["types"]) {
    const double bits = 8 * type["bytes"].get<double>() / type["elements"].get<double>();
    char text[128];
    std::snprintf(text, sizeof text, "%-8s %5lld tensors  %10s  %5.2f bits per weight",
                  type["type"].get<std::string>().c_str(), static_cast<long long>(type["tensors"].get<int64_t>()),
                  bytes_shown(type["bytes"]).c_str(), bits);
    page.line("", text);
  }
}

void print_context(const ordered_json& report, Page& page) {
  if (!report.contains("context_length")) return;
  page.line("context", shown(report, "context_length"), " tokens");
  for (const ordered_json& window : report["windows"]) {
    page.line("window", shown(window, "tokens"), " tokens in ", shown(window, "layers"), " layers");
  }
  for (const ordered_json& rope : report["rope"]) {
    const bool scaled = rope["scaling"] != "none";
    page.line("rope", shown(rope, "dims"), " dims ", shown(rope, "pairing"), ", base ", shown(rope, "freq_base"),
              scaled ? str(", ", shown(rope, "scaling"), " scaling by ", 1 / rope["freq_scale"].get<double>())
                     : std::string(),
              report["rope"].size() > 1 ? str(", ", shown(rope, "layers"), " layers") : std::string());
  }
}

void print_tokenizer(const ordered_json& report, Page& page) {
  const ordered_json& tokenizer = report["tokenizer"];
  page.line("tokenizer", shown(tokenizer, "model"),
            tokenizer["pre"].is_null() ? std::string() : " / " + shown(tokenizer, "pre"), ", ",
            shown(tokenizer, "tokens"), " tokens",
            tokenizer.contains("merges") ? str(", ", shown(tokenizer, "merges"), " merges") : std::string());
  if (tokenizer.contains("special")) {
    std::vector<std::string> special;
    for (const auto& [name, token] : tokenizer["special"].items()) {
      special.push_back(str(name, " ", shown(token, "id"), " '", shown(token, "text"), "'"));
    }
    page.list("special", special);
    page.line("", "BOS ", tokenizer["add_bos"].get<bool>() ? "added" : "not added", ", EOS ",
              tokenizer["add_eos"].get<bool>() ? "added" : "not added", ", generation ends at ",
              shown(tokenizer, "end_of_generation"));
  }
  std::string templates;
  for (const ordered_json& entry : report["chat_templates"]) {
    templates += str(templates.empty() ? "" : ", ", shown(entry, "name"), " (", shown(entry, "bytes"), " bytes)");
  }
  page.line("chat template", templates.empty() ? "none" : templates);
}

void print_memory(const ordered_json& report, Page& page) {
  if (!report.contains("memory")) return;
  const ordered_json& memory = report["memory"];
  page.line("memory", "weights ", bytes_shown(memory["weight_bytes"]), ", K/V cache ", bytes_shown(memory["kv_bytes"]),
            " for ", shown(memory, "n_ctx"), " tokens");
  page.line("", "K ", shown(memory, "cache_type_k"), ", V ", shown(memory, "cache_type_v"), ": ",
            bytes_shown(memory["kv_bytes_per_token"]), " per token; logits ",
            bytes_shown(memory["logits_bytes_per_row"]), " per row");
  if (memory.contains("kv_window_tokens")) {
    page.line("", "of these ", bytes_shown(memory["kv_window_bytes_per_token"]), " in layers with a window: room for ",
              shown(memory, "kv_window_tokens"), " tokens there");
  }
}

std::string page_of(const ordered_json& report) {
  Page page;
  page.title(report["name"].is_null() ? std::string("(no name)") : shown(report, "name"));
  const ordered_json& format = report["format"];
  page.line("file", gguf::printable(report["path"].get<std::string>(), 4096));
  page.line("format", "GGUF version ", shown(format, "version"), ", ", bytes_shown(format["bytes"]),
            format["parts"] > 1 ? str(" in ", shown(format, "parts"), " parts") : std::string(), ", ",
            shown(format, "keys"), " keys, ", shown(format, "tensors"), " tensors");
  page.line("architecture", shown(report, "architecture"),
            report["type"].is_null() ? std::string() : str(" (", shown(report, "type"), ")"));
  print_sizes(report, page);
  print_types(report, page);
  print_context(report, page);
  print_tokenizer(report, page);
  print_memory(report, page);
  const auto list = [&](const std::string& label, const ordered_json& items) {
    for (size_t i = 0; i < items.size() && i < 8; ++i) page.line(i == 0 ? label : "", shown(items[i]));
    if (items.size() > 8) page.line("", "and ", items.size() - 8, " more");
  };
  list("oddities", report["oddities"]);
  list("unused tensors", report["unused_tensors"]);
  return page.text();
}

}  // namespace

int cmd_inspect(const std::vector<std::string>& args) {
  const auto app = make_app("inspect", "Says what a GGUF file holds. Exit code 0 only when it would load.");
  std::string path;
  int64_t n_ctx = 0;
  KvConfig kv;
  bool json = false;
  add_model_path_option(*app, path);
  app->add_flag("--json", json, "print JSON");
  app->add_option("-c,--ctx-size", n_ctx, "tokens of context for the memory estimate; 0: the model's trained length")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->type_name("N");
  app->add_option_function<std::string>(
         "--ctk,--cache-type-k", [&](const std::string& type) { kv.k_format = cache_type("-ctk", type); },
         "type of cached K: f32, f16 (default), bf16, q8_0, q4_0")
      ->type_name("T");
  app->add_option_function<std::string>(
         "--ctv,--cache-type-v", [&](const std::string& type) { kv.v_format = cache_type("-ctv", type); },
         "type of cached V: f32, f16 (default), bf16, q8_0, q4_0")
      ->type_name("T");
  app->add_flag("--swa-full", kv.swa_full, "layers with a sliding window keep the K/V of all tokens");
  if (!parse(*app, args)) return 0;

  const gguf::File file = gguf::File::open(resolve_model(path));
  const ordered_json report = inspect_report(file, n_ctx, kv);
  if (json) {
    std::cout << report.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  } else {
    std::cout << page_of(report);
  }
  std::cout.flush();
  if (report["loadable"].get<bool>()) return 0;
  fail(ErrorKind::kInvalidInput, report["error"].get<std::string>());
}

}  // namespace loci::cli
