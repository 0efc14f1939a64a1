#include "server/tools/object_reader.h"

#include <nlohmann/json.hpp>

#include "server/tools/literal.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplaceBadBytes = Json::error_handler_t::replace;

bool is_name_key(std::string_view key) { return key == "name" || key == "tool_name"; }
bool is_arguments_key(std::string_view key) { return key == "arguments" || key == "parameters"; }

// JSON text of an object: as it is, or inside a string; null stands for none.
std::optional<std::string> object_text(const std::string& value) {
  const std::string_view text = trimmed(value);
  if (text == "null" || text == "\"\"") return "{}";
  if (text.empty()) return std::nullopt;
  if (text[0] == '{') return std::string(text);
  if (text[0] != '"') return std::nullopt;
  const Json inner = Json::parse(text, nullptr, false);
  if (!inner.is_string()) return std::nullopt;
  const std::optional<std::string> unpacked = json_text_of_value(inner.get_ref<const std::string&>());
  if (!unpacked || (*unpacked)[0] != '{') return std::nullopt;
  return unpacked;
}

}  // namespace

Match ArgumentsReader::read(Cursor& cursor, CallSink& sink, const std::string& name, const std::string& id) {
  while (!cursor.empty()) {
    const char byte = cursor.text[cursor.pos];
    if (!started_) {
      if (byte != '{' && byte != '"') return Match::kNo;
      started_ = true;
      is_object_ = byte == '{';
      if (is_object_) sink.begin(name, id);
    }
    const JsonScanner::State state = scanner_.push(byte, text_);
    if (state == JsonScanner::State::kFailed) return Match::kNo;
    ++cursor.pos;
    if (is_object_) {
      if (!text_.empty()) sink.arguments(text_);
      text_.clear();
    }
    if (state != JsonScanner::State::kDone) continue;
    if (!is_object_) {
      const std::optional<std::string> arguments = object_text(text_);
      if (!arguments) return Match::kNo;
      sink.begin(name, id);
      sink.arguments(*arguments);
    }
    sink.end();
    return Match::kYes;
  }
  return cursor.at_end ? Match::kNo : Match::kMore;
}

bool ObjectCallReader::accepts(const std::string& name) const {
  return !name.empty() && name.size() <= kMaxNameBytes && (!format_.is_bare || tools_.has(name));
}

Match ObjectCallReader::read(Cursor& cursor, CallSink& sink) {
  while (!cursor.empty()) {
    std::string added;
    const JsonScanner::State state = scanner_.push(cursor.text[cursor.pos], added);
    if (state == JsonScanner::State::kFailed) return Match::kNo;
    ++cursor.pos;
    if (!take_member(sink, added)) return Match::kNo;
    if (!streams_) text_ += added;
    if (state == JsonScanner::State::kDone) return finish(sink) ? Match::kYes : Match::kNo;
  }
  return cursor.at_end ? Match::kNo : Match::kMore;
}

// Follows the members of the object: learns the name, tells the arguments as they come. False: this is no call.
bool ObjectCallReader::take_member(CallSink& sink, std::string_view added) {
  if (scanner_.in_outer_value()) {
    const bool is_first = member_.empty();
    if (is_first) member_key_ = scanner_.outer_key();
    if (is_first && format_.is_bare && !is_name_key(member_key_) && !is_arguments_key(member_key_) &&
        member_key_ != "type" && member_key_ != "function" && member_key_ != "id") {
      return false;
    }
    if (is_first && !begun_ && !added.empty() && added[0] == '{') {
      const bool is_named_by_key = format_.name_is_key && name_.empty();
      const std::string& name = is_named_by_key ? member_key_ : name_;
      if (accepts(name) && (is_named_by_key || is_arguments_key(member_key_)) && !format_.id_may_follow) {
        sink.begin(name, "");
        begun_ = streams_ = true;
      }
    }
    if (is_first || !streams_) member_ += added;
    if (streams_) sink.arguments(added);
    return true;
  }
  if (member_.empty()) return true;
  // The byte after a value.
  if (streams_) {
    text_ += "{}";
    streams_ = false;
  } else if (is_name_key(member_key_) && name_.empty()) {
    const Json name = Json::parse(member_, nullptr, false);
    if (!name.is_string()) return false;
    name_ = name.get<std::string>();
    if (!accepts(name_)) return false;
  } else if (is_arguments_key(member_key_)) {
    arguments_ = member_;
  }
  member_.clear();
  return true;
}

bool ObjectCallReader::finish(CallSink& sink) {
  if (begun_) {
    sink.end();
    return true;
  }
  const Json whole = Json::parse(text_, nullptr, false);
  if (!whole.is_object()) return false;
  const Json* call = &whole;
  std::string name = name_, id;
  if (const auto function = whole.find("function"); function != whole.end()) {
    if (function->is_object()) call = &*function;
    if (function->is_string() && name.empty()) name = function->get<std::string>();
  }
  std::string arguments = "{}";
  if (format_.name_is_key && name.empty() && whole.size() == 1) {  // its value is no object, or it had been told
    const std::optional<std::string> text = object_text(whole.front().dump(-1, ' ', false, kReplaceBadBytes));
    if (!text) return false;
    name = whole.begin().key();
    arguments = *text;
  }
  for (const auto& [key, value] : call->items()) {
    if (is_name_key(key) && value.is_string() && name.empty()) name = value.get<std::string>();
    if (!is_arguments_key(key)) continue;
    const bool is_as_written = call == &whole && !arguments_.empty();
    const std::optional<std::string> text =
        object_text(is_as_written ? arguments_ : value.dump(-1, ' ', false, kReplaceBadBytes));
    if (!text) return false;
    arguments = *text;
  }
  if (const auto found = whole.find("id"); format_.id_may_follow && found != whole.end() && found->is_string()) {
    id = found->get<std::string>();
  }
  if (!accepts(name)) return false;
  sink.begin(name, id);
  sink.arguments(arguments);
  sink.end();
  return true;
}

}  // namespace loci::server
