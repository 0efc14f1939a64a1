// loci tokenize: text to token ids and back. Reads the vocabulary only; files without weights will do.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "gguf/gguf.h"
#include "kernels/error.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/options.h"

namespace loci::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> prompt, file;
  std::string pre;  // forced pre-tokenizer rule
  bool json = false, ids = false, detokenize = false, show_count = false;
  bool no_bos = false, no_parse_special = false, escape = false;
};

void add_options(CLI::App& app, TokenizeOptions& options) {
  add_model_path_option(app, options.model);
  app.add_option("-p,--prompt", options.prompt, "the text")->type_name("TEXT");
  app.add_option("-f,--file", options.file, "read the text from a file, - for standard input")->type_name("FILE");
  app.add_flag(
      "--stdin", [&](int64_t) { options.file = "-"; }, "the same as -f -");
  app.add_flag("--json", options.json, "print one line {\"tokens\":[...]}");
  app.add_flag("--ids", options.ids, "print the ids only, as [1, 2, 3]");
  app.add_flag("--detokenize", options.detokenize, "read such a line and print the text it came from");
  app.add_flag("--show-count", options.show_count, "print the number of tokens as well");
  app.add_flag("--no-bos", options.no_bos, "add no token that the model asks for at the start or end");
  app.add_flag("--no-parse-special", options.no_parse_special, "take control tokens in the text as plain text");
  app.add_flag("-e,--escape,!--no-escape", options.escape, "turn \\n \\t ... of -p into characters (default off)");
  app.add_option_function<std::string>(
         "--override-kv",
         [&](const std::string& value) {
           const std::string wanted = "tokenizer.ggml.pre=str:";
           if (value.rfind(wanted, 0) != 0 || value.size() == wanted.size()) {
             fail(ErrorKind::kInvalidInput, "invalid argument: --override-kv: tokenize takes ", wanted,
                  "NAME only, found '", value, "'");
           }
           options.pre = value.substr(wanted.size());
         },
         "tokenizer.ggml.pre=str:NAME forces a rule for splitting words")
      ->type_name("KEY=str:NAME");
}

std::string read_input(const TokenizeOptions& options) {
  if (options.prompt && options.file) {
    fail(ErrorKind::kInvalidInput, "invalid argument: -p and -f both give the text; use one");
  }
  if (options.file) return read_text(*options.file);
  if (!options.prompt) fail(ErrorKind::kInvalidInput, "nothing to tokenize: give -p TEXT, -f FILE or -f -");
  return options.escape ? unescape(*options.prompt) : *options.prompt;
}

// {"tokens":[1,2]} or [1, 2].
std::vector<int32_t> parse_ids(const std::string& text, const Tokenizer& tokenizer) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object() && parsed.contains("tokens")) {
    nlohmann::json tokens = std::move(parsed["tokens"]);
    parsed = std::move(tokens);
  }
  const auto is_id = [](const nlohmann::json& value) { return value.is_number_integer(); };
  if (!parsed.is_array() || !std::all_of(parsed.begin(), parsed.end(), is_id)) {
    fail(ErrorKind::kInvalidInput, "--detokenize: expected {\"tokens\":[1,2,...]} or [1,2,...]");
  }
  std::vector<int32_t> ids;
  for (const nlohmann::json& value : parsed) {
    const bool inside = value.is_number_unsigned()
                            ? value.get<uint64_t>() < static_cast<uint64_t>(tokenizer.vocab_size())
                            : value.get<int64_t>() >= 0 && value.get<int64_t>() < tokenizer.vocab_size();
    if (!inside) {
      fail(ErrorKind::kInvalidInput, "--detokenize: expected ids below ", tokenizer.vocab_size(), ", found ",
           value.dump());
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

// The inverse of encoding under the same flags: what add_special put at the ends is taken off again.
std::string original_text(std::span<const int32_t> ids, const Tokenizer& tokenizer, bool added_special) {
  const SpecialTokens& special = tokenizer.special();
  if (added_special) {
    if (special.add_bos && !ids.empty() && ids.front() == special.bos) ids = ids.subspan(1);
    if (special.add_eos && !ids.empty() && ids.back() == special.eos) ids = ids.first(ids.size() - 1);
    if (special.add_sep && !ids.empty() && ids.back() == special.sep) ids = ids.first(ids.size() - 1);
  }
  return tokenizer.decode(ids, /*special=*/true);
}

void print_list(const std::vector<int32_t>& ids, const char* separator) {
  std::string line = "[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) line += separator;
    line += std::to_string(ids[i]);
  }
  std::cout << line << ']';
}

}  // namespace

int cmd_tokenize(const std::vector<std::string>& args) {
  const auto app = make_app("tokenize", "Text to token ids, and back with --detokenize.");
  TokenizeOptions options;
  add_options(*app, options);
  if (!parse(*app, args)) return 0;

  const std::string input = read_input(options);
  const gguf::File file = gguf::File::open(resolve_model(options.model));
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_metadata(file.metadata(), options.pre);
  if (options.detokenize) {
    std::cout << original_text(parse_ids(input, *tokenizer), *tokenizer, !options.no_bos) << std::flush;
    return 0;
  }
  const std::vector<int32_t> ids = tokenizer->encode(input, !options.no_bos, !options.no_parse_special);
  if (options.json) {
    std::cout << "{\"tokens\":";
    print_list(ids, ",");
    std::cout << "}\n";
  } else if (options.ids) {
    print_list(ids, ", ");
    std::cout << '\n';
  } else {
    char number[16];
    for (const int32_t id : ids) {
      std::snprintf(number, sizeof number, "%6d", id);
      std::cout << number << " -> '" << unicode::sanitized(tokenizer->token_bytes(id, /*special=*/true)) << "'\n";
    }
  }
  if (options.show_count) {
    // With --json, standard output stays one line of JSON.
    (options.json ? std::cerr : std::cout) << "Total number of tokens: " << ids.size() << '\n';
  }
  std::cout << std::flush;
  return 0;
}

}  // namespace loci::cli
