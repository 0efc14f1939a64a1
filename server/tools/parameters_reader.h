// ParametersReader: calls whose arguments stand each between markers, <parameter=KEY>VALUE</parameter> and the like.
#pragma once
#include <optional>
#include <string>

#include "server/tools/call_reader.h"

namespace loci::server {

class ParametersReader : public CallReader {
 public:
  ParametersReader(const CallFormat& format, const ToolSet& tools, bool began_with_call)
      : format_(format), tools_(tools), state_(began_with_call ? State::kName : State::kOpen) {}
  Match read(Cursor& cursor, CallSink& sink) override;

 private:
  enum class State { kOpen, kName, kNameAttributes, kParameter, kKey, kAttributes, kValueOpen, kValue, kAnother };
  Match step(Cursor& cursor, CallSink& sink);
  Match take_attributes(Cursor& cursor);
  Match take_value(Cursor& cursor, CallSink& sink);
  void tell_key(CallSink& sink);
  void tell_text(CallSink& sink, std::string_view piece, bool is_last);
  void end_call(CallSink& sink);

  const CallFormat& format_;
  const ToolSet& tools_;
  State state_;
  std::string name_, key_, attributes_;
  std::string value_;        // of the argument, as far as it was not told
  std::string value_close_;  // what ends it
  bool begun_ = false, is_first_ = true;
  bool is_text_ = false;      // the value is told as it comes
  bool value_begun_ = false;  // its first line break, or CDATA, has been seen to
};

}  // namespace loci::server
