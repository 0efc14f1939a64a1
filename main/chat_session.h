// ChatSession: a conversation with a loaded model on a console. The prompt of each turn is made anew from the
// messages, so that what is answered depends on the conversation alone; the engine's prefix cache makes it cheap.
#pragma once
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/kv/file_stamp.h"
#include "main/answer.h"
#include "main/chat_format.h"
#include "main/console.h"
#include "main/conversation.h"
#include "main/options.h"

namespace loci::cli {

struct ChatFlags {
  EngineConfig config;
  PromptOptions prompt;
  ChatOptions chat;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  ConstraintOptions constraint;
  std::optional<Grammar> form;  // that `constraint` stands for
  std::optional<bool> color;
  bool simple_io = false;
  bool multiline = false;
  bool interactive = false;        // -i: in raw completion, go on with the user's text after each answer
  bool interactive_first = false;  // -if: ask before the first answer
  std::string in_prefix, in_suffix;
  std::string transcript_path;  // -o
  std::string session_path;     // --session
};

struct ChatTotals {
  int64_t n_answers = 0, n_prompt = 0, n_cached = 0, n_predicted = 0;
  double prompt_ms = 0, predicted_ms = 0;
  RequestStats last;  // of the last answer
};

class ChatSession {
 public:
  // Loads the model and the prompt cache.
  ChatSession(const ChatFlags& flags, Console& console);

  // Puts the message to the model and streams the answer. On an Error (a prompt too long, ...) the conversation is as
  // before. An answer that was interrupted or timed out is kept as far as it came; one that had not begun takes its
  // question along. `as_typed`: false for -p in raw completion, which gets neither prefix nor suffix.
  Answer ask(const std::string& message, bool as_typed = true);
  // Answers the last question again. False when there is none.
  bool regenerate(Answer& answer);
  // Forgets the last question and answer. False when there is none.
  bool undo();
  void clear() { conversation.messages.clear(); }
  // Text that goes before the next message (/read).
  void attach(const std::string& name, const std::string& text);
  // Loads the model again with another context size; on Error the old one is back.
  void set_context(int64_t n_ctx);
  // --prompt-cache at the end.
  void save_cache() const;
  // --session at the end: on disk, whatever happens next.
  void end_session();

  const Engine& engine() const { return *engine_; }
  const ChatFormat& format() const { return *format_; }
  const ChatTotals& totals() const { return totals_; }

  Conversation conversation;

 private:
  void load(int64_t n_ctx);
  Answer answer_last(int64_t seed);
  void load_session();
  void save_session(bool durable);

  const ChatFlags& flags_;
  Console& console_;
  std::unique_ptr<Engine> engine_;
  std::optional<ChatFormat> format_;
  ChatTotals totals_;
  std::string attached_;
  int64_t n_regenerated_ = 0;  // in a row
  std::ofstream transcript_;
  std::string session_path_;                // where the session is kept; empty: nowhere
  std::string session_text_;                // what of the conversation lies there
  std::optional<FileStamp> session_stamp_;  // the file as we left it; nothing: there was none
};

}  // namespace loci::cli
