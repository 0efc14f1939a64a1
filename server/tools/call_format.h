// CallFormat: how a model writes tool calls, as data for the readers of call_reader.h.
#pragma once
#include <string_view>

namespace loci::server {

enum class CallBody {
  kObjects,      // {"name": ..., "arguments": {...}}, one or several, with or without a list around them
  kNamedObject,  // the name between markers, then the arguments as a JSON object
  kParameters,   // the name between markers, then each argument between markers of its own
  kPython,       // f(a='x', b=1), one or a list of them
  kBraces,       // call:NAME{key:<quote>text<quote>,other:1}
};

// A group of calls stands between `open` and `close`; each call of it between `call_open` and `call_close`. What a
// format does not have is empty. Only `open` (or, where `open_is_optional`, `call_open`) makes text a call.
struct CallFormat {
  CallBody body = CallBody::kObjects;
  std::string_view open = {}, close = {};
  std::string_view call_open = {}, call_close = {};
  bool open_is_optional = false;
  // Nothing marks the call but the opening brace of the answer: only names of the request's tools count.
  bool is_bare = false;

  // kObjects: {"NAME": {...}} instead.
  bool name_is_key = false;
  // kObjects: the object holds an "id" behind the arguments, which therefore wait for it.
  bool id_may_follow = false;

  // kNamedObject, kParameters: what ends the name; empty: white space or '<'.
  std::string_view name_end = {};
  // kNamedObject: what stood before `name_end` was a type where no object follows; then the name, up to this.
  std::string_view second_name_end = {};

  // kParameters: param_open KEY key_end [attributes attributes_end] value_open VALUE value_close. Attributes may stand
  // behind the function's name too.
  std::string_view param_open = {}, key_end = {}, attributes_end = {}, value_open = {}, value_close = {};
  bool drops_line_breaks = false;  // one each at the begin and the end of a value

  std::string_view quote = {};  // kBraces
};

}  // namespace loci::server
