#include "main/request_defaults.h"

#include <algorithm>

#include "kernels/error.h"
#include "main/batch_ledger.h"
#include "main/cli.h"
#include "server/json.h"
#include "server/tools/dialect.h"

namespace loci::cli {
namespace {

// The dialect of this name, or that of the template.
const server::Dialect* dialect_for(const std::string& name, const ChatTemplate* chat_template) {
  if (name == "auto") return chat_template == nullptr ? nullptr : server::dialect_of(*chat_template);
  const server::Dialect* dialect = server::find_dialect(name);
  if (dialect != nullptr) return dialect;
  std::string names = "auto";
  for (const std::string& known : server::dialect_names()) names += ", " + known;
  fail(ErrorKind::kInvalidInput, "--tool-dialect: expected one of ", names, ", found '", name, "'");
}

}  // namespace

void add_answer_end_options(CLI::App& app, int64_t& n_predict, std::vector<std::string>& stops, const char* group) {
  app.add_option("-n,--predict,--n-predict", n_predict, "most tokens of an answer that asks for no limit; -1: none")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->group(group)
      ->type_name("N");
  app.add_option("-r,--reverse-prompt", stops, "stop text for requests without 'stop' (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group)
      ->type_name("S");
}

void add_tool_dialect_option(CLI::App& app, std::string& dialect) {
  app.add_option("--tool-dialect", dialect, "how the model writes tool calls; auto (default): as its template")
      ->group("Chat")
      ->type_name("NAME");
}

server::RequestDefaults request_defaults(Engine& engine, const ChatFormat& format, const ChatOptions& chat,
                                         const SamplingOptions& sampling, const SpeculationOptions& speculation,
                                         const std::string& dialect) {
  server::RequestDefaults defaults;
  defaults.tokenizer = &engine.tokenizer();
  defaults.chat_template = format.chat_template();
  defaults.dialect = dialect_for(dialect, format.chat_template());
  defaults.n_ctx = std::min(engine.info().n_ctx, engine.info().n_kv_tokens);
  defaults.sampling = sampling.params;
  defaults.template_kwargs = server::to_variables(chat.template_kwargs, "--chat-template-kwargs");
  defaults.thinking = chat.reasoning;
  defaults.separate_reasoning = chat.separate_reasoning;
  defaults.constraints = &engine.constraints();
  defaults.speculation = speculation.params;
  defaults.has_draft_model = !engine.config().draft_model_path.empty();
  return defaults;
}

std::string fingerprint_text(const Engine& engine, const ChatFormat& format, const ChatOptions& chat,
                             const server::RequestDefaults& defaults, const std::vector<std::string>& more) {
  const EngineConfig& config = engine.config();
  const std::string model = stable_id({str(engine.info().fingerprint, ' ', static_cast<int>(config.kv.k_format), ' ',
                                           static_cast<int>(config.kv.v_format), ' ', config.precise)});
  std::string all = str(defaults.n_ctx, '\n', defaults.max_tokens, '\n', defaults.separate_reasoning, !format.raw(),
                        '\n', chat.reasoning ? (*chat.reasoning ? 1 : 0) : -1, '\n');
  for (const auto& [name, value] : sampling_values(defaults.sampling)) all += name + "=" + value + "\n";
  for (const auto& [token, bias] : defaults.sampling.logit_bias) all += str(token, ':', bias, '\n');
  if (defaults.form) all += defaults.form->to_ebnf(false);
  if (defaults.dialect != nullptr) all += str("dialect ", defaults.dialect->name, '\n');
  std::string texts;
  for (const std::string& breaker : defaults.sampling.dry_sequence_breakers) texts += stable_id({breaker});
  for (const std::string& stop : defaults.stops) texts += stable_id({stop});
  for (const std::string& text : more) texts += stable_id({text, "more"});
  const std::string rest =
      stable_id({all, texts, format.raw() ? "" : format.chat_template()->source(), chat.template_kwargs});
  return "loci-" LOCI_VERSION "-" + model.substr(0, 8) + "-" + rest.substr(0, 8);
}

std::string model_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  const size_t dot = name.rfind(".gguf");
  if (dot != std::string::npos && dot + 5 == name.size() && dot > 0) name.resize(dot);
  return name;
}

}  // namespace loci::cli
