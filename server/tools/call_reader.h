// CallReader: reads a group of tool calls out of a text that is still arriving.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "server/tools/call_format.h"
#include "server/tools/cursor.h"
#include "server/tools/tool_set.h"

namespace loci::server {

// Takes the calls. All text before the cursor counts as told with each of these.
class CallSink {
 public:
  virtual ~CallSink() = default;
  // `id`: as the model wrote it, or empty.
  virtual void begin(const std::string& name, const std::string& id) = 0;
  virtual void arguments(std::string_view json_text) = 0;
  virtual void end() = 0;
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  // Reads on. The cursor begins right behind the format's opening marker and goes on where the last call left it (its
  // text may have grown).
  //   kYes   the group is over at the cursor, after at least one call
  //   kNo    what stands there is no call of this format; calls that have ended are none the worse
  //   kMore  the rest has not arrived. Not when the text is at its end.
  virtual Match read(Cursor& cursor, CallSink& sink) = 0;
};

// `began_with_call`: the marker that was met was call_open. Both outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const CallFormat& format, const ToolSet& tools, bool began_with_call);
// A call whose name is known already; its arguments come at once.
std::unique_ptr<CallReader> make_arguments_reader(std::string name);

}  // namespace loci::server
