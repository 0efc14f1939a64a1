#include "main/chat_commands.h"

#include <glob.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/error.h"
#include "main/progress.h"
#include "main/text_input.h"

namespace loci::cli {
namespace {

constexpr size_t kMaxGlobFiles = 100;

struct Context {
  ChatSession& session;
  MessageReader& reader;
  const Console& console;
  Answer& answer;
};

struct Command {
  const char* name;
  const char* arguments;
  const char* help;
  CommandOutcome (*run)(Context& context, const std::string& argument);
};

std::string required(const char* command, const char* what, const std::string& argument) {
  if (argument.empty()) fail(ErrorKind::kInvalidInput, command, ": expected ", what, ", found nothing");
  return argument;
}

CommandOutcome leave(Context&, const std::string&) { return CommandOutcome::kLeave; }
CommandOutcome help(Context& context, const std::string&);

CommandOutcome clear(Context& context, const std::string&) {
  context.session.clear();
  context.console.note("The conversation is empty.", Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome regenerate(Context& context, const std::string&) {
  if (context.session.regenerate(context.answer)) return CommandOutcome::kAnswered;
  fail(ErrorKind::kInvalidInput, "/regen: there is no answer yet");
}

CommandOutcome undo(Context& context, const std::string&) {
  if (!context.session.undo()) fail(ErrorKind::kInvalidInput, "/undo: there is nothing to take back");
  context.console.note("The last question and its answer are forgotten; " +
                           std::to_string(context.session.conversation.messages.size() / 2) + " are left.",
                       Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome save(Context& context, const std::string& argument) {
  const std::string path = required("/save", "a file name", argument);
  save_conversation(context.session.conversation, context.session.engine().info().name, path);
  context.console.note("saved: " + path, Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome load(Context& context, const std::string& argument) {
  const std::string path = required("/load", "a file name", argument);
  std::string model;
  context.session.conversation = load_conversation(path, model);
  const std::string& here = context.session.engine().info().name;
  context.console.note("loaded: " + path + ", " + std::to_string(context.session.conversation.messages.size() / 2) +
                           " answers" + (model == here ? "" : " (by another model: " + model + ")"),
                       Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome system_message(Context& context, const std::string& argument) {
  std::optional<std::string>& system = context.session.conversation.system;
  if (argument == "none") {
    system.reset();
  } else if (!argument.empty()) {
    system = argument;
  }
  context.console.note("system: " + (system ? *system : "none of ours (the template may have one)"), Style::kDim);
  return CommandOutcome::kGoOn;
}

int64_t parse_count(const std::string& name, const std::string& text, int64_t least) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < least || value > INT32_MAX) {
    fail(ErrorKind::kInvalidInput, "/set ", name, ": expected an integer from ", least, ", found '", text, "'");
  }
  return value;
}

CommandOutcome set(Context& context, const std::string& argument) {
  const size_t space = argument.find_first_of(" \t=");
  std::string name = argument.substr(0, space);
  const size_t value_at = space == std::string::npos ? space : argument.find_first_not_of(" \t=", space);
  const std::string value = value_at == std::string::npos ? "" : argument.substr(value_at);
  while (!name.empty() && name[0] == '-') name.erase(0, 1);
  if (name.empty() || value.empty()) {
    fail(ErrorKind::kInvalidInput, "/set: expected NAME VALUE as in '/set temp 0.5'; /show lists the names");
  }
  if (name == "ctx" || name == "ctx-size" || name == "c") {
    context.session.set_context(parse_count(name, value, 0));
    context.console.note("context: " + std::to_string(context.session.engine().info().n_ctx) + " tokens", Style::kDim);
  } else if (name == "predict" || name == "n-predict" || name == "n") {
    context.session.conversation.n_predict = parse_count(name, value, -1);
    context.console.note("predict: " + value, Style::kDim);
  } else {
    set_sampling_value(context.session.conversation.sampling, name, value);
    context.console.note(name + ": " + value, Style::kDim);
  }
  return CommandOutcome::kGoOn;
}

CommandOutcome show(Context& context, const std::string&) {
  const ModelInfo& info = context.session.engine().info();
  const Conversation& conversation = context.session.conversation;
  std::string text = "model     " + info.name + " (" + info.path + ")\n";
  text +=
      "context   " + std::to_string(info.n_ctx) + " tokens (trained with " + std::to_string(info.n_ctx_train) + ")\n";
  text += "template  " + context.session.format().template_name() + "\n";
  text += "system    " + conversation.system.value_or("none of ours") + "\n";
  text += "messages  " + std::to_string(conversation.messages.size()) + "\n";
  text += "think     " + std::string(!conversation.thinking ? "auto" : *conversation.thinking ? "on" : "off") + "\n";
  text += "predict   " + std::to_string(conversation.n_predict) + "\n";
  for (const auto& [name, value] : sampling_values(conversation.sampling.params)) {
    text += name + std::string(name.size() < 20 ? 20 - name.size() : 1, ' ') + value + "\n";
  }
  text.pop_back();
  context.console.note(text, Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome stats(Context& context, const std::string&) {
  const ChatTotals& totals = context.session.totals();
  const ModelInfo& info = context.session.engine().info();
  const auto rate = [](int64_t tokens, double ms) { return ms > 0 ? 1000.0 * static_cast<double>(tokens) / ms : 0.0; };
  const std::string windows = info.n_kv_window_tokens > 0
                                  ? ", in layers with a window " + std::to_string(info.n_kv_window_tokens) + " of them"
                                  : "";
  char text[600];
  std::snprintf(text, sizeof text,
                "answers    %lld\n"
                "prompts    %lld tokens, of these %lld cached; %.1f ms, %.1f t/s\n"
                "generated  %lld tokens; %.1f ms, %.1f t/s\n"
                "memory     %s weights, %s K/V for %lld tokens%s\n",
                static_cast<long long>(totals.n_answers), static_cast<long long>(totals.n_prompt),
                static_cast<long long>(totals.n_cached), totals.prompt_ms,
                rate(totals.n_prompt - totals.n_cached, totals.prompt_ms), static_cast<long long>(totals.n_predicted),
                totals.predicted_ms, rate(totals.n_predicted, totals.predicted_ms),
                bytes_text(static_cast<double>(info.weight_bytes)).c_str(),
                bytes_text(static_cast<double>(info.kv_bytes)).c_str(), static_cast<long long>(info.n_kv_tokens),
                windows.c_str());
  std::string cache = "cache      last prompt: " + std::to_string(totals.last.n_cached) + " of " +
                      std::to_string(totals.last.n_prompt) + " tokens found";
  if (!totals.last.cache_miss.empty()) cache += "; " + visible_controls(totals.last.cache_miss);
  context.console.note(text + (totals.n_answers > 0 ? cache + "\n" : "") + summary(context.session.engine().metrics()),
                       Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome read(Context& context, const std::string& argument) {
  const std::string path = required("/read", "a file name", argument);
  const std::string text = read_text(path);
  context.session.attach(path, text);
  context.console.note(
      "read: " + path + ", " + bytes_text(static_cast<double>(text.size())) + "; it goes before the next message",
      Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome glob_files(Context& context, const std::string& argument) {
  const std::string pattern = required("/glob", "a pattern as in '/glob src/*.cc'", argument);
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_MARK | GLOB_TILDE, nullptr, &found);
  std::vector<std::string> paths;
  if (status == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      std::string path = found.gl_pathv[i];
      if (path.back() != '/') paths.push_back(std::move(path));  // GLOB_MARK: a directory
    }
  }
  globfree(&found);
  if (paths.empty()) fail(ErrorKind::kNotFound, "/glob ", pattern, ": no such files");
  if (paths.size() > kMaxGlobFiles) {
    fail(ErrorKind::kInvalidInput, "/glob ", pattern, ": expected at most ", kMaxGlobFiles, " files, found ",
         paths.size());
  }
  std::vector<std::string> texts;
  for (const std::string& path : paths) texts.push_back(read_text(path));
  size_t n_bytes = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    context.session.attach(paths[i], texts[i]);
    n_bytes += texts[i].size();
  }
  context.console.note("read: " + std::to_string(paths.size()) + " files, " + bytes_text(static_cast<double>(n_bytes)) +
                           "; they go before the next message",
                       Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome multi(Context& context, const std::string&) {
  context.reader.set_multiline(!context.reader.multiline());
  context.console.note(context.reader.multiline() ? "multi-line: on; a trailing / or \\ submits"
                                                  : "multi-line: off; a trailing \\ goes on",
                       Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome think(Context& context, const std::string& argument) {
  if (argument != "on" && argument != "off" && argument != "auto") {
    fail(ErrorKind::kInvalidInput, "/think: expected on, off or auto, found '", argument, "'");
  }
  context.session.conversation.thinking = argument == "auto" ? std::nullopt : std::optional<bool>(argument == "on");
  context.console.note("think: " + argument, Style::kDim);
  return CommandOutcome::kGoOn;
}

CommandOutcome no_media(Context&, const std::string&) {
  fail(ErrorKind::kUnsupported, "not supported by this build: /image and /audio (models see text only)");
}

const Command kCommands[] = {
    {"/help", "", "this list", help},
    {"/?", "", "the same", help},
    {"/exit", "", "leave (also /quit, /bye, Ctrl-D)", leave},
    {"/quit", "", nullptr, leave},
    {"/bye", "", nullptr, leave},
    {"/clear", "", "forget the conversation, keep system message and settings", clear},
    {"/regen", "", "answer the last question again", regenerate},
    {"/undo", "", "forget the last question and its answer", undo},
    {"/save", "FILE", "save the conversation", save},
    {"/load", "FILE", "go on with a saved conversation", load},
    {"/system", "TEXT", "set the system message; none removes it", system_message},
    {"/set", "NAME VALUE", "change a setting: temp, top-k, seed, predict, ctx, ...", set},
    {"/show", "", "model, template and all settings", show},
    {"/stats", "", "tokens, speeds, memory", stats},
    {"/read", "FILE", "put a file's text before the next message", read},
    {"/glob", "PATTERN", "the same for all files that match (at most 100)", glob_files},
    {"/multi", "", "switch multi-line input on or off", multi},
    {"/think", "on|off|auto", "let the model think first, if its template knows how", think},
    {"/image", "FILE", nullptr, no_media},
    {"/audio", "FILE", nullptr, no_media},
};

CommandOutcome help(Context& context, const std::string&) {
  std::string text;
  for (const Command& command : kCommands) {
    if (command.help == nullptr) continue;
    std::string usage = std::string(command.name) + " " + command.arguments;
    usage.resize(std::max<size_t>(usage.size(), 20), ' ');
    text += usage + " " + command.help + "\n";
  }
  text +=
      "\"\"\"                  starts and ends a message of several lines\n"
      "trailing \\           goes on with the message in the next line; trailing / submits\n"
      "Ctrl-C               stops the answer; at the prompt it leaves";
  context.console.note(text, Style::kDim);
  return CommandOutcome::kGoOn;
}

}  // namespace

std::vector<std::string> chat_command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

CommandOutcome run_chat_command(const std::string& line, ChatSession& session, MessageReader& reader,
                                const Console& console, Answer& answer) {
  const size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const size_t first = space == std::string::npos ? space : line.find_first_not_of(" \t", space);
  std::string argument = first == std::string::npos ? "" : line.substr(first);
  argument.resize(argument.find_last_not_of(" \t") + 1);  // completion leaves a space
  Context context{session, reader, console, answer};
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(context, argument);
  }
  fail(ErrorKind::kInvalidInput, "unknown command ", name,
       "; /help lists them, and \"\"\" before a message lets it start with /");
}

}  // namespace loci::cli
