#include "server/tools/parameters_reader.h"

#include <algorithm>

#include "server/tools/literal.h"

namespace loci::server {
namespace {

constexpr size_t kMaxAttributeBytes = 256;
constexpr std::string_view kCdataOpen = "<![CDATA[", kCdataClose = "]]>";

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

Match ParametersReader::read(Cursor& cursor, CallSink& sink) {
  while (true) {
    const Match match = step(cursor, sink);
    if (match != Match::kYes) return match;
    if (state_ != State::kAnother) continue;
    // Behind a call: another one, or the end of the group.
    Cursor ahead = cursor;
    if (format_.call_open.empty() || format_.open.empty()) return Match::kYes;
    if (const Match space = skip_space(ahead); space != Match::kYes) {
      return space == Match::kMore ? space : Match::kYes;
    }
    const Match again = take(ahead, format_.call_open);
    if (again == Match::kMore) return again;
    if (again == Match::kYes) {
      cursor.pos = ahead.pos;
      state_ = State::kName;
      continue;
    }
    const Match close = take(ahead, format_.close);
    if (close == Match::kMore) return close;
    if (close == Match::kYes) cursor.pos = ahead.pos;
    if (close == Match::kNo && ahead.at_end && format_.close.substr(0, ahead.rest().size()) == ahead.rest()) {
      cursor.pos = ahead.text.size();
    }
    return Match::kYes;
  }
}

Match ParametersReader::step(Cursor& cursor, CallSink& sink) {
  if (state_ == State::kValue) return take_value(cursor, sink);
  if (state_ == State::kAnother) return Match::kYes;
  Cursor ahead = cursor;
  Match match = Match::kYes;
  if (state_ != State::kAttributes && state_ != State::kNameAttributes) match = skip_space(ahead);
  if (match != Match::kYes) return match;
  switch (state_) {
    case State::kOpen:
      match = take(ahead, format_.call_open);
      if (match == Match::kYes) state_ = State::kName;
      break;
    case State::kName:
      match = take_name(ahead, format_.name_end, name_);
      if (match == Match::kYes) state_ = State::kNameAttributes;
      break;
    case State::kNameAttributes:
      match = take_attributes(ahead);
      if (match == Match::kYes) state_ = State::kParameter;
      break;
    case State::kParameter: {
      // An argument, or the end; the group's closing marker stands in for the call's.
      bool may_come = false;
      for (const std::string_view marker : {format_.param_open, format_.call_close, format_.close}) {
        if (marker.empty()) continue;
        Cursor there = ahead;
        match = take(there, marker);
        may_come = may_come || match == Match::kMore;
        if (match != Match::kYes) continue;
        if (marker == format_.param_open) {
          ahead = there;
          state_ = State::kKey;
        } else {
          if (marker == format_.call_close) ahead = there;
          cursor.pos = ahead.pos;
          end_call(sink);
          state_ = State::kAnother;
        }
        break;
      }
      if (match != Match::kYes && may_come) return Match::kMore;
      break;
    }
    case State::kKey:
      match = take_name(ahead, format_.key_end, key_);
      if (match == Match::kYes) state_ = State::kAttributes;
      break;
    case State::kAttributes:
      match = take_attributes(ahead);
      if (match == Match::kYes) state_ = State::kValueOpen;
      break;
    case State::kValueOpen:
      if (!format_.value_open.empty()) {
        match = take(ahead, format_.value_open);
      } else {
        ahead.pos = cursor.pos;  // white space belongs to the value
      }
      if (match != Match::kYes) break;
      value_.clear();
      value_begun_ = false;
      value_close_ = format_.value_close;
      is_text_ = holds(attributes_, "string=\"true\"") || holds(attributes_, "type=\"string\"") ||
                 (attributes_.empty() && tools_.wants_text(name_, key_));
      if (!begun_) sink.begin(name_, "");
      begun_ = true;
      cursor.pos = ahead.pos;
      tell_key(sink);
      state_ = State::kValue;
      break;
    case State::kValue:
    case State::kAnother:
      break;
  }
  if (match == Match::kYes) cursor.pos = ahead.pos;
  return match;
}

Match ParametersReader::take_attributes(Cursor& cursor) {
  attributes_.clear();
  if (format_.attributes_end.empty()) return Match::kYes;
  const std::string_view rest = cursor.rest().substr(0, kMaxAttributeBytes);
  const size_t end = rest.find(format_.attributes_end);
  if (end == std::string_view::npos) {
    return cursor.at_end || rest.size() == kMaxAttributeBytes ? Match::kNo : Match::kMore;
  }
  attributes_ = trimmed(rest.substr(0, end));
  cursor.pos += end + format_.attributes_end.size();
  return Match::kYes;
}

void ParametersReader::tell_key(CallSink& sink) {
  sink.arguments((is_first_ ? "{" : ", ") + json_string(key_) + ": " + (is_text_ ? "\"" : ""));
  is_first_ = false;
}

// A piece of a text: the inside of a JSON string.
void ParametersReader::tell_text(CallSink& sink, std::string_view piece, bool is_last) {
  const std::string quoted = json_string(piece);
  const std::string inside = quoted.substr(1, quoted.size() - 2) + (is_last ? "\"" : "");
  if (!inside.empty()) sink.arguments(inside);
}

Match ParametersReader::take_value(Cursor& cursor, CallSink& sink) {
  if (!value_begun_) {
    Cursor ahead = cursor;
    if (format_.drops_line_breaks) {
      const Match match = take(ahead, "\n");
      if (match == Match::kMore) return match;
    }
    const Match cdata = take(ahead, kCdataOpen);
    if (cdata == Match::kMore) return cdata;
    if (cdata == Match::kYes) value_close_.insert(0, kCdataClose);
    cursor.pos = ahead.pos;
    value_begun_ = true;
  }
  const std::string_view rest = cursor.rest();
  const size_t close = rest.find(value_close_);
  const bool is_closed = close != std::string_view::npos;
  size_t n_sure = is_closed ? close : rest.size() - partial_at_end(rest, value_close_);
  // The line break before the closing marker is none of the value's, unless more follows it.
  if (format_.drops_line_breaks && n_sure > 0 && rest[n_sure - 1] == '\n') --n_sure;
  const std::string_view sure = rest.substr(0, n_sure);
  if (is_text_) {
    cursor.pos += is_closed ? close + value_close_.size() : n_sure;
    tell_text(sink, sure, is_closed);
  } else {
    value_ += sure;
    cursor.pos += is_closed ? close + value_close_.size() : n_sure;
  }
  if (!is_closed) return cursor.at_end ? Match::kNo : Match::kMore;
  if (!is_text_) {
    const bool has_type = !attributes_.empty();
    const std::optional<std::string> spelled = has_type ? json_text_of_value(value_) : std::nullopt;
    sink.arguments(spelled ? *spelled : tools_.argument_text(name_, key_, value_));
  }
  state_ = State::kParameter;
  return Match::kYes;
}

void ParametersReader::end_call(CallSink& sink) {
  if (!begun_) sink.begin(name_, "");
  sink.arguments(is_first_ ? "{}" : "}");
  sink.end();
  begun_ = false;
  is_first_ = true;
}

}  // namespace loci::server
