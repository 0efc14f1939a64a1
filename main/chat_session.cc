#include "main/chat_session.h"

#include <cerrno>
#include <cstring>

#include "kernels/error.h"
#include "kernels/log.h"

namespace loci::cli {
ChatSession::ChatSession(const ChatFlags& flags, Console& console) : flags_(flags), console_(console) {
  if (!flags.transcript_path.empty()) {
    transcript_.open(flags.transcript_path, std::ios::binary | std::ios::app);
    if (!transcript_) {
      fail(ErrorKind::kInvalidInput, "-o ", flags.transcript_path, ": cannot be written: ", std::strerror(errno));
    }
  }
  conversation.system = flags.chat.system;
  conversation.sampling = flags.sampling;
  conversation.n_predict = flags.prompt.n_predict;
  conversation.thinking = flags.chat.reasoning;
  load(flags.config.n_ctx);
  if (const std::string taken = apply_recommended(conversation.sampling, engine_->metadata()); !taken.empty()) {
    log_info("note: sampling as the model file recommends: ", taken);
  }
  if (!flags.prompt.cache_file.empty()) load_prompt_cache(*engine_, flags.prompt.cache_file);
  load_session();
}

// A file that does not fit stays as it is, and the chat goes on without it.
void ChatSession::load_session() {
  const std::string& path = flags_.session_path;
  struct stat info {};
  if (path.empty()) return;
  if (stat(path.c_str(), &info) != 0 && errno == ENOENT) {
    session_path_ = path;
    return;
  }
  std::string text;
  std::string why_not = engine_->load_session(path, text);
  if (why_not.empty() && text.empty()) why_not = path + ": holds no conversation (made by --prompt-cache)";
  if (why_not.empty()) {
    try {
      std::string model;
      const Conversation found = parse_conversation(text, path, model);
      conversation.messages = found.messages;
      if (!flags_.chat.system) conversation.system = found.system;
    } catch (const Error& error) {
      why_not = error.what();
    }
  }
  if (!why_not.empty()) {
    log_warn("--session ", why_not, "; it is left as it is, and this chat is not saved");
    return;
  }
  session_path_ = path;
  session_text_ = text;
  session_stamp_ = stamp_of(path);
  const size_t n = conversation.messages.size() / 2;
  log_info("session ", path, ": goes on after ", n, n == 1 ? " answer" : " answers");
}

void ChatSession::save_session(bool durable) {
  if (session_path_.empty()) return;
  const std::string text = conversation_text(conversation, engine_->info().name);
  if (!durable && text == session_text_) return;
  if (stamp_of(session_path_) != session_stamp_) {
    log_warn("--session ", session_path_,
             ": changed by somebody else; it is left as it is, and this chat is no longer saved");
    session_path_.clear();
    return;
  }
  try {
    engine_->save_session(session_path_, text, durable);
    session_text_ = text;
    session_stamp_ = stamp_of(session_path_);
  } catch (const Error& error) {
    log_warn("--session ", error.what());
  }
}

void ChatSession::end_session() {
  const bool nothing = conversation.messages.empty() && session_text_.empty();
  const bool unchanged =
      totals_.n_answers == 0 && conversation_text(conversation, engine_->info().name) == session_text_;
  if (!nothing && !unchanged) save_session(true);
}

void ChatSession::load(int64_t n_ctx) {
  EngineConfig config = flags_.config;
  config.n_ctx = n_ctx;
  format_.reset();
  engine_.reset();  // before the new one: two models may not fit
  engine_ = load_with_progress(config);
  format_.emplace(*engine_, flags_.chat);
}

void ChatSession::set_context(int64_t n_ctx) {
  const int64_t before = engine_->info().n_ctx;
  try {
    load(n_ctx);
  } catch (const Error&) {
    load(before);
    throw;
  }
}

void ChatSession::save_cache() const {
  if (flags_.prompt.cache_file.empty() || flags_.prompt.cache_read_only || totals_.n_answers == 0) return;
  engine_->save_cache(flags_.prompt.cache_file);
}

void ChatSession::attach(const std::string& name, const std::string& text) {
  attached_ += "--- File: " + name + " ---\n" + text;
  if (attached_.back() != '\n') attached_ += '\n';
}

Answer ChatSession::answer_last(int64_t seed) {
  AnswerRequest request;
  request.prompt = format_->prompt(conversation.prompt_messages(), conversation.thinking);
  request.sampling = conversation.sampling.params;
  request.sampling.seed = seed;
  request.max_tokens = conversation.n_predict;
  request.timeout_ms = flags_.prompt.timeout_ms;
  request.stops = flags_.prompt.stops;
  request.show_special = flags_.prompt.show_special;
  request.speculation = flags_.speculation.params;
  request.split_reasoning = !format_->raw() && flags_.chat.separate_reasoning;
  if (flags_.form) request.constraint = format_->compile(*flags_.form, *engine_, request.prompt);
  if (flags_.prompt.verbose_prompt) {
    log_line(LogLevel::kOutput, describe_tokens(engine_->tokenizer(), request.prompt.tokens));
  }
  Answer result = answer(*engine_, request, console_);
  if (format_->raw() && !result.stats.stop_string.empty()) {
    // The reverse prompt is part of the text that goes on.
    console_.answer(result.stats.stop_string);
    result.content += result.stats.stop_string;
  }
  totals_.n_answers += 1;
  totals_.n_prompt += result.stats.n_prompt;
  totals_.n_cached += result.stats.n_cached;
  totals_.n_predicted += result.stats.n_predicted;
  totals_.prompt_ms += result.stats.prompt_ms;
  totals_.predicted_ms += result.stats.predicted_ms;
  totals_.last = result.stats;
  return result;
}

Answer ChatSession::ask(const std::string& message, bool as_typed) {
  std::string text = attached_ + message;
  if (format_->raw() && as_typed) {
    const bool line_by_line = flags_.interactive || flags_.interactive_first || !flags_.prompt.stops.empty();
    text = flags_.in_prefix + text + (line_by_line ? "\n" : "") + flags_.in_suffix;
  }
  conversation.messages.push_back({"user", text, ""});
  n_regenerated_ = 0;
  Answer result;
  try {
    result = answer_last(conversation.sampling.params.seed);
  } catch (...) {
    conversation.messages.pop_back();
    throw;
  }
  if (result.never_began()) {
    conversation.messages.pop_back();
    return result;
  }
  attached_.clear();
  conversation.messages.push_back({"assistant", result.content, result.reasoning});
  if (transcript_.is_open()) {
    transcript_ << "> " << text << "\n\n" << result.content << "\n\n" << std::flush;
    if (!transcript_) log_warn("-o ", flags_.transcript_path, ": cannot be written: ", std::strerror(errno));
  }
  save_session(false);
  return result;
}

bool ChatSession::regenerate(Answer& result) {
  if (conversation.messages.empty()) return false;
  const ChatMessage before = conversation.messages.back();
  conversation.messages.pop_back();
  // With a fixed seed the same answer would come again: the seed moves on, and is told.
  int64_t seed = conversation.sampling.params.seed;
  if (seed >= 0 && conversation.sampling.params.temperature > 0) {
    seed += ++n_regenerated_;
    log_info("note: seed ", seed);
  }
  try {
    result = answer_last(seed);
  } catch (...) {
    conversation.messages.push_back(before);
    throw;
  }
  conversation.messages.push_back(result.never_began() ? before
                                                       : ChatMessage{"assistant", result.content, result.reasoning});
  save_session(false);
  return true;
}

bool ChatSession::undo() {
  if (conversation.messages.size() < 2) return false;
  conversation.messages.resize(conversation.messages.size() - 2);
  return true;
}

}  // namespace loci::cli
