#include "server/tools/call_reader.h"

#include <optional>
#include <utility>

#include "kernels/check.h"
#include "server/tools/literal.h"
#include "server/tools/object_reader.h"
#include "server/tools/parameters_reader.h"

namespace loci::server {
namespace {

// What may stand behind the last call of a group. The cursor stays before white space that leads nowhere.
Match take_close(Cursor& cursor, std::string_view close) {
  if (close.empty()) return Match::kYes;
  Cursor ahead = cursor;
  const Match space = skip_space(ahead);
  if (space != Match::kYes) return space == Match::kMore ? Match::kMore : Match::kYes;
  const Match match = take(ahead, close);
  if (match == Match::kYes) cursor.pos = ahead.pos;
  // A marker that the text's end cuts off is no text.
  if (match == Match::kNo && ahead.at_end && close.substr(0, ahead.rest().size()) == ahead.rest()) {
    cursor.pos = ahead.text.size();
  }
  return match == Match::kMore ? Match::kMore : Match::kYes;
}

// Objects: one, several in a row, or a list of them.
class ObjectsReader : public CallReader {
 public:
  ObjectsReader(const CallFormat& format, const ToolSet& tools, bool began_with_call) : format_(format), tools_(tools) {
    LOCI_CHECK(!began_with_call, "objects have no marker of their own");
  }

  Match read(Cursor& cursor, CallSink& sink) override {
    while (true) {
      if (state_ == State::kClose) return take_close(cursor, format_.close);
      if (state_ == State::kObject) {
        const Match match = call_->read(cursor, sink);
        if (match != Match::kYes) return match;
        state_ = State::kNext;
      }
      Cursor ahead = cursor;
      const Match space = skip_space(ahead);
      if (space == Match::kMore) return Match::kMore;
      const char byte = space == Match::kYes ? ahead.text[ahead.pos] : '\0';
      if (byte == '{') {
        call_.emplace(format_, tools_);
        state_ = State::kObject;
      } else if (state_ == State::kNext) {
        if (byte == ']' && in_list_) {
          state_ = State::kClose;
        } else if (byte != ',' && byte != ';') {
          state_ = State::kClose;
          continue;
        } else {
          state_ = State::kAnother;
        }
        ++ahead.pos;
      } else if (byte == '[' && !in_list_ && state_ == State::kFirst && !format_.is_bare) {
        in_list_ = true;
        ++ahead.pos;
      } else {
        return Match::kNo;
      }
      cursor.pos = ahead.pos;
    }
  }

 private:
  enum class State { kFirst, kObject, kNext, kAnother, kClose };
  const CallFormat& format_;
  const ToolSet& tools_;
  std::optional<ObjectCallReader> call_;
  State state_ = State::kFirst;
  bool in_list_ = false;
};

// "functions.get_weather:0" is a name and an id at once; "name[CALL_ID]id" both, side by side.
void split_name(std::string& name, std::string& id) {
  constexpr std::string_view kIdMark = "[CALL_ID]", kSpace = "functions.";
  if (const size_t at = name.find(kIdMark); at != std::string::npos) {
    id = name.substr(at + kIdMark.size());
    name.resize(at);
  }
  if (name.rfind(kSpace, 0) != 0) return;
  const std::string whole = name;
  name.erase(0, kSpace.size());
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || name.find_first_not_of("0123456789", colon + 1) != std::string::npos) return;
  name.resize(colon);
  id = whole;
}

class NamedObjectsReader : public CallReader {
 public:
  NamedObjectsReader(const CallFormat& format, bool began_with_call)
      : format_(format), state_(began_with_call ? State::kName : State::kOpen) {}

  Match read(Cursor& cursor, CallSink& sink) override {
    while (true) {
      Cursor ahead = cursor;
      Match match = Match::kYes;
      if (state_ != State::kArguments) match = skip_space(ahead);
      if (match == Match::kMore) return match;
      switch (state_) {
        case State::kOpen:
          match = take(ahead, format_.call_open);
          if (match == Match::kYes) state_ = State::kName;
          break;
        case State::kName:
          match = take_name(ahead, format_.name_end, name_);
          if (match == Match::kYes) state_ = State::kBeforeArguments;
          break;
        case State::kBeforeArguments: {
          if (match != Match::kYes) return Match::kNo;
          const char byte = ahead.text[ahead.pos];
          if (byte == '{' || byte == '"') {
            state_ = State::kArguments;
            split_name(name_, id_);
            if (name_.empty()) return Match::kNo;
          } else if (byte == '`') {
            match = take(ahead, kFence);
          } else if (!format_.second_name_end.empty() && !has_second_name_) {
            match = take_name(ahead, format_.second_name_end, name_);
            has_second_name_ = has_second_name_ || match == Match::kYes;
          } else {
            return Match::kNo;
          }
          break;
        }
        case State::kArguments:
          match = arguments_.read(cursor, sink, name_, id_);
          if (match != Match::kYes) return match;
          ahead.pos = cursor.pos;
          arguments_ = {};
          id_.clear();
          has_second_name_ = false;
          state_ = State::kFenceEnd;
          break;
        case State::kFenceEnd:
          match = take(ahead, "```");
          if (match == Match::kMore) return match;
          if (match == Match::kNo) ahead.pos = cursor.pos;
          match = Match::kYes;
          state_ = State::kCallClose;
          break;
        case State::kCallClose:
          match = take_close(cursor, format_.call_close);
          if (match != Match::kYes) return match;
          ahead.pos = cursor.pos;
          state_ = State::kAnother;
          break;
        case State::kAnother:
          match = format_.open.empty() ? Match::kNo : take(ahead, format_.call_open);
          if (match == Match::kMore) return match;
          if (match == Match::kNo) return take_close(cursor, format_.close);
          state_ = State::kName;
          break;
      }
      if (match != Match::kYes) return match;
      cursor.pos = ahead.pos;
    }
  }

 private:
  static constexpr std::string_view kFence = "```json";
  enum class State { kOpen, kName, kBeforeArguments, kArguments, kFenceEnd, kCallClose, kAnother };
  const CallFormat& format_;
  State state_;
  std::string name_, id_;
  bool has_second_name_ = false;
  ArgumentsReader arguments_;
};

// Python calls and braces: read once the closing marker, or the end, has come.
class LiteralReader : public CallReader {
 public:
  explicit LiteralReader(const CallFormat& format) : format_(format) {}

  Match read(Cursor& cursor, CallSink& sink) override {
    const size_t close = find_close(cursor);
    if (close == std::string_view::npos && !(cursor.at_end && format_.close.empty())) {
      return cursor.at_end ? Match::kNo : Match::kMore;
    }
    const std::string_view text = trimmed(cursor.rest().substr(0, close));
    const size_t end = close == std::string_view::npos ? cursor.text.size() : cursor.pos + close + format_.close.size();
    const bool ok =
        format_.body == CallBody::kPython ? tell_python(text, cursor, end, sink) : tell_braces(text, cursor, end, sink);
    return ok ? Match::kYes : Match::kNo;
  }

 private:
  // From the cursor; outside of strings.
  size_t find_close(const Cursor& cursor) {
    if (format_.close.empty()) return std::string_view::npos;
    const std::string_view text = cursor.rest();
    while (at_ < text.size()) {
      const std::string_view rest = text.substr(at_);
      if (!in_quote_.empty()) {
        if (in_quote_.size() == 1 && rest[0] == '\\') {
          if (rest.size() < 2) break;
          at_ += 2;
          continue;
        }
        if (rest.substr(0, in_quote_.size()) == in_quote_) {
          at_ += in_quote_.size();
          in_quote_ = {};
          continue;
        }
        if (in_quote_.substr(0, rest.size()) == rest && !cursor.at_end) break;
        ++at_;
        continue;
      }
      if (rest.substr(0, format_.close.size()) == format_.close) return at_;
      bool may_be = format_.close.substr(0, rest.size()) == rest;
      for (const std::string_view quote : {format_.quote, std::string_view("\""), std::string_view("'")}) {
        if (quote.empty() || (quote == "'" && !format_.quote.empty())) continue;
        if (rest.substr(0, quote.size()) == quote) in_quote_ = quote;
        may_be = may_be || (quote.size() > 1 && quote.substr(0, rest.size()) == rest);
      }
      if (!in_quote_.empty()) {
        at_ += in_quote_.size();
        continue;
      }
      if (may_be && !cursor.at_end) break;
      ++at_;
    }
    return std::string_view::npos;
  }

  static void tell(CallSink& sink, const std::string& name, const std::string& arguments) {
    sink.begin(name, "");
    sink.arguments(arguments);
    sink.end();
  }
  static std::string dump(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  static bool tell_python(std::string_view text, Cursor& cursor, size_t end, CallSink& sink) {
    auto calls = parse_python_calls(text);
    if (!calls) return false;
    cursor.pos = end;
    for (auto& [name, arguments] : *calls) {
      constexpr std::string_view kCall = ".call";  // as Llama writes calls of its own tools
      if (name.size() > kCall.size() && name.compare(name.size() - kCall.size(), kCall.size(), kCall) == 0) {
        name.resize(name.size() - kCall.size());
      }
      tell(sink, name, dump(arguments));
    }
    return true;
  }

  bool tell_braces(std::string_view text, Cursor& cursor, size_t end, CallSink& sink) const {
    constexpr std::string_view kCall = "call:";
    if (text.substr(0, kCall.size()) != kCall) return false;
    const size_t brace = text.find('{');
    if (brace == std::string_view::npos) return false;
    const std::string name(trimmed(text.substr(kCall.size(), brace - kCall.size())));
    if (name.empty() || name.size() > kMaxNameBytes) return false;
    std::string_view braces = text.substr(brace);
    auto arguments = parse_literal(braces, format_.quote);
    // Arguments that were an object's text are printed with one pair of braces too many.
    if (!arguments && braces.size() > 2 && braces.back() == '}') {
      arguments = parse_literal(braces.substr(1, braces.size() - 2), format_.quote);
    }
    if (!arguments || !arguments->is_object()) return false;
    cursor.pos = end;
    tell(sink, name, dump(*arguments));
    return true;
  }

  const CallFormat& format_;
  size_t at_ = 0;              // looked at so far, from the cursor
  std::string_view in_quote_;  // the quote that a string is open with
};

class ArgumentsOnly : public CallReader {
 public:
  explicit ArgumentsOnly(std::string name) : name_(std::move(name)) { split_name(name_, id_); }
  Match read(Cursor& cursor, CallSink& sink) override {
    if (!started_) {
      const Match space = skip_space(cursor);
      if (space != Match::kYes) return space;
      started_ = true;
    }
    return name_.empty() ? Match::kNo : arguments_.read(cursor, sink, name_, id_);
  }

 private:
  std::string name_, id_;
  bool started_ = false;
  ArgumentsReader arguments_;
};

}  // namespace

std::unique_ptr<CallReader> make_call_reader(const CallFormat& format, const ToolSet& tools, bool began_with_call) {
  switch (format.body) {
    case CallBody::kObjects:
      return std::make_unique<ObjectsReader>(format, tools, began_with_call);
    case CallBody::kNamedObject:
      return std::make_unique<NamedObjectsReader>(format, began_with_call);
    case CallBody::kParameters:
      return std::make_unique<ParametersReader>(format, tools, began_with_call);
    case CallBody::kPython:
    case CallBody::kBraces:
      break;
  }
  return std::make_unique<LiteralReader>(format);
}

std::unique_ptr<CallReader> make_arguments_reader(std::string name) {
  return std::make_unique<ArgumentsOnly>(std::move(name));
}

}  // namespace loci::server
