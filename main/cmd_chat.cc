// loci chat: a conversation in the terminal, or line by line through pipes.
#include <cstdio>
#include <optional>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/chat_commands.h"
#include "main/chat_session.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/interrupt.h"
#include "main/line_editor.h"
#include "main/message_reader.h"
#include "main/prompt_source.h"

namespace loci::cli {
namespace {

constexpr size_t kMaxEcho = 500;  // bytes of a -p message shown again

void add_chat_flags(CLI::App& app, ChatFlags& flags) {
  constexpr const char* kGroup = "Interaction";
  app.add_flag("--mli,--multiline-input", flags.multiline, "Enter starts a new line; a trailing / or \\ submits")
      ->group(kGroup);
  app.add_flag("--simple-io", flags.simple_io, "no line editing, no colours")->group(kGroup);
  app.add_option("-o,--output", flags.transcript_path, "append the conversation to this file")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_option("--session", flags.session_path, "go on with the chat in this file, and keep it there with its K/V")
      ->group(kGroup)
      ->type_name("FILE");
  app.add_flag("-i,--interactive", flags.interactive, "raw completion: go on with your text after each answer")
      ->group(kGroup);
  app.add_flag("--if,--interactive-first", flags.interactive_first, "the same, asking before the first answer")
      ->group(kGroup);
  app.add_option("--in-prefix", flags.in_prefix, "raw completion: put before your text")->group(kGroup);
  app.add_option("--in-suffix", flags.in_suffix, "raw completion: put after your text")->group(kGroup);
}

std::string shortened(const std::string& text) {
  if (text.size() <= kMaxEcho) return text;
  size_t end = kMaxEcho;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole characters
  return text.substr(0, end) + "... (" + std::to_string(text.size()) + " bytes)";
}

void print_banner(const ChatSession& session, const Console& console) {
  const ModelInfo& info = session.engine().info();
  console.note("loci " LOCI_VERSION, Style::kBold);
  console.note("model    " + info.name + ", " + info.architecture + ", " + info.quantization + ", " +
               bytes_text(static_cast<double>(info.file_bytes)));
  console.note("context  " + std::to_string(info.n_ctx) + " tokens; template " + session.format().template_name());
  console.note("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves\n", Style::kDim);
}

class ChatLoop {
 public:
  ChatLoop(const ChatFlags& flags, Console& console)
      : flags_(flags),
        console_(console),
        session_(flags, console),
        editor_(console, chat_command_names(), flags.simple_io),
        reader_(editor_, flags.multiline) {}

  int run(const std::optional<std::string>& first) {
    const int status = converse(first);
    session_.end_session();
    return status;
  }

 private:
  int converse(const std::optional<std::string>& first) {
    const bool at_terminal = console_.stdin_is_terminal() && console_.stderr_is_terminal();
    if (at_terminal) print_banner(session_, console_);
    int status = 0;
    bool finished = false;
    if (first && !flags_.interactive_first) {
      if (at_terminal && flags_.prompt.display_prompt.value_or(true)) {
        console_.note("> " + visible_controls(shortened(*first)), Style::kUser);
      }
      status = turn([&](Answer& answer) {
        answer = session_.ask(*first, false);
        return CommandOutcome::kAnswered;
      });
      // Raw completion without -i is one text, not a conversation.
      finished = status == 130 || flags_.chat.single_turn ||
                 (session_.format().raw() && flags_.chat.conversation == false && !flags_.interactive);
    }
    while (!finished) {
      Message message;
      const LineEditor::Result result = reader_.read(message);
      if (result == LineEditor::Result::kEnd) break;
      if (result == LineEditor::Result::kSignal) return 128 + editor_.signal();
      if (message.text.find_first_not_of(" \t\n") == std::string::npos) continue;
      editor_.remember(message.text);
      const int turn_status = turn([&](Answer& answer) {
        if (message.is_command) return run_chat_command(message.text, session_, reader_, console_, answer);
        answer = session_.ask(message.text);
        return CommandOutcome::kAnswered;
      });
      if (turn_status == 130) return 130;
      status = std::max(status, turn_status);
      finished = left_ || (flags_.chat.single_turn && !message.is_command);
    }
    session_.save_cache();
    return console_.stdin_is_terminal() && !flags_.chat.single_turn ? 0 : status;
  }

  // Runs one command or question. 0: well; 1: an error, printed; 130: interrupted, and there is nobody to go on with.
  template <typename Action>
  int turn(Action action) {
    Answer answer;
    try {
      const CommandOutcome outcome = action(answer);
      left_ = outcome == CommandOutcome::kLeave;
      if (outcome != CommandOutcome::kAnswered) return 0;
    } catch (const Error& error) {
      console_.end_line();
      std::fprintf(stderr, "error: %s\n", error.what());
      return 1;
    }
    console_.end_line();
    if (answer.never_began()) {
      console_.note("[stopped before the answer began: the message is not kept]", Style::kDim);
    }
    if (flags_.prompt.show_timings.value_or(console_.stdout_is_terminal() && console_.stderr_is_terminal())) {
      console_.note("\n" + timings_text(answer.stats, session_.engine().info().n_ctx) + "\n", Style::kDim);
    }
    const bool goes_on = console_.stdin_is_terminal() && !flags_.chat.single_turn;
    if (goes_on) return 0;
    return answer.interrupted ? 130 : answer.timed_out ? 1 : 0;
  }

  const ChatFlags& flags_;
  Console& console_;
  ChatSession session_;
  LineEditor editor_;
  MessageReader reader_;
  bool left_ = false;  // /exit
};

}  // namespace

int cmd_chat(const std::vector<std::string>& args) {
  const auto app = make_app("chat", "A conversation with a model. Answers go to stdout, everything else to stderr.");
  ChatFlags flags;
  add_prompt_options(*app, flags.prompt, false);
  add_model_options(*app, flags.config);
  add_chat_options(*app, flags.chat);
  add_chat_flags(*app, flags);
  add_color_option(*app, flags.color);
  add_sampling_options(*app, flags.sampling);
  add_speculation_options(*app, flags.config, flags.speculation);
  add_constraint_options(*app, flags.constraint);
  if (!parse(*app, args)) return 0;
  if (const std::string wrong = check(flags.sampling.params, INT32_MAX); !wrong.empty()) {
    fail(ErrorKind::kInvalidInput, wrong);
  }
  flags.form = read_constraint(flags.constraint);
  interrupt::install();
  Console console(flags.color, flags.simple_io);
  const std::optional<std::string> first = read_prompt(flags.prompt, false);
  flags.config.model_path = resolve_model(flags.config.model_path);
  finish_speculation(flags.config, flags.speculation);
  return ChatLoop(flags, console).run(first);
}

}  // namespace loci::cli
