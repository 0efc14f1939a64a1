// ObjectReader: {"name": ..., "arguments": {...}} and its relatives, and the arguments of a named call.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "server/tools/call_reader.h"
#include "server/tools/json_scanner.h"

namespace loci::server {

// Arguments given as JSON: an object, or an object's text as a JSON string.
class ArgumentsReader {
 public:
  // kYes: they are told and the call has ended. `name`, `id`: begins the call with them as soon as an object opens.
  Match read(Cursor& cursor, CallSink& sink, const std::string& name, const std::string& id);

 private:
  JsonScanner scanner_;
  std::string text_;
  bool started_ = false, is_object_ = false;
};

// One object that holds a call.
class ObjectCallReader {
 public:
  ObjectCallReader(const CallFormat& format, const ToolSet& tools) : format_(format), tools_(tools) {}
  Match read(Cursor& cursor, CallSink& sink);

 private:
  bool take_member(CallSink& sink, std::string_view added);
  bool finish(CallSink& sink);
  bool accepts(const std::string& name) const;

  const CallFormat& format_;
  const ToolSet& tools_;
  JsonScanner scanner_;
  std::string text_;           // of the object; without its arguments once they are told piece by piece
  std::string name_, member_;  // member_: text of the outer value being read
  std::string member_key_;
  std::string arguments_;                 // as they were written, when they were not told piece by piece
  bool begun_ = false, streams_ = false;  // streams_: the value being read is told as it comes
};

}  // namespace loci::server
