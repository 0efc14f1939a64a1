// loci apply-template: the exact prompt that a chat template makes of a request's body, or of given variables.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/chat_template.h"
#include "gguf/gguf.h"
#include "kernels/error.h"
#include "main/cli.h"
#include "main/commands.h"
#include "server/chat_body.h"
#include "server/json.h"

namespace loci::cli {
namespace {

struct ApplyOptions {
  std::optional<std::string> model, template_name, template_file, variables_file, kwargs;
  std::string body_file = "-", now;
  bool no_prefill = false;
};

void add_options(CLI::App& app, ApplyOptions& options) {
  app.add_option("-m,--model", options.model, "take the template and the begin and end tokens from this GGUF file")
      ->type_name("FILE");
  app.add_option("--chat-template", options.template_name, "a built-in by name, or Jinja source")
      ->type_name("NAME|JINJA");
  app.add_option("--chat-template-file", options.template_file, "read the template from a file")->type_name("FILE");
  app.add_option("--chat-template-kwargs", options.kwargs, "more variables, a JSON object")->type_name("JSON");
  app.add_option("--variables", options.variables_file, "render with exactly the variables of this JSON object")
      ->type_name("FILE");
  app.add_option("--now", options.now, "the time that the template sees, as 2025-03-14T09:26:53")->type_name("TIME");
  app.add_flag("--no-prefill-assistant", options.no_prefill,
               "close a final assistant message instead of continuing it");
  app.add_option("-f,--file", options.body_file,
                 "the body: {\"messages\": [...], \"tools\": [...], ...} (default: stdin)")
      ->type_name("FILE");
}

struct Source {
  std::string text;
  std::string bos_token, eos_token;
};

Source find_source(const ApplyOptions& options) {
  const int n_templates = (options.template_file ? 1 : 0) + (options.template_name ? 1 : 0);
  if (n_templates > 1) {
    fail(ErrorKind::kInvalidInput, "invalid argument: --chat-template and --chat-template-file both give the template");
  }
  if (n_templates == 0 && !options.model) {
    fail(ErrorKind::kInvalidInput, "no template: give --chat-template-file FILE, --chat-template NAME or -m MODEL");
  }
  Source source;
  if (options.model) {
    const std::string path = resolve_model(*options.model);
    const gguf::File file = gguf::File::open(path);
    const std::optional<std::string> text = file.metadata().find_string("tokenizer.chat_template");
    if (!text && n_templates == 0) fail(ErrorKind::kInvalidInput, path, ": the file has no tokenizer.chat_template");
    source.text = text.value_or("");
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_metadata(file.metadata());
    const auto token_text = [&](int32_t id) { return id < 0 ? "" : std::string(tokenizer->token_text(id)); };
    source.bos_token = token_text(tokenizer->special().bos);
    source.eos_token = token_text(tokenizer->special().eos);
  }
  if (options.template_file) source.text = read_text(*options.template_file);
  if (options.template_name) {
    const bool is_source = options.template_name->find('{') != std::string::npos;
    source.text = is_source ? *options.template_name : ChatTemplate::builtin(*options.template_name).source();
  }
  return source;
}

}  // namespace

int cmd_apply_template(const std::vector<std::string>& args) {
  const auto app = make_app("apply-template", "Print the exact prompt that a chat template makes.");
  ApplyOptions options;
  add_options(*app, options);
  if (!parse(*app, args)) return 0;

  const Source source = find_source(options);
  if (options.variables_file) {
    const jinja::Variables variables =
        server::to_variables(read_text(*options.variables_file), *options.variables_file);
    std::cout << jinja::Template::parse(source.text).render(variables, options.now).bytes() << std::flush;
    return 0;
  }
  const ChatTemplate chat_template = ChatTemplate::from_source(source.text);
  const std::string where = options.body_file == "-" ? "standard input" : options.body_file;
  const nlohmann::ordered_json json = server::parse_json(read_text(options.body_file), where);
  server::ChatBody body = server::parse_chat_body(json, chat_template, !options.no_prefill);
  body.inputs.bos_token = source.bos_token;
  body.inputs.eos_token = source.eos_token;
  body.inputs.now = options.now;
  if (options.kwargs) {
    jinja::Variables kwargs = server::to_variables(*options.kwargs, "--chat-template-kwargs");
    kwargs.insert(kwargs.end(), body.inputs.kwargs.begin(), body.inputs.kwargs.end());  // the body's win
    body.inputs.kwargs = std::move(kwargs);
  }
  std::cout << join(server::render(chat_template, body)) << std::flush;
  return 0;
}

}  // namespace loci::cli
