// OutputParser: the text that a model writes, as it streams, to content, thinking and tool calls.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/reasoning.h"
#include "server/tools/call_reader.h"
#include "server/tools/dialect.h"
#include "server/tools/output_delta.h"
#include "server/tools/tool_set.h"

namespace loci::server {

struct OutputOptions {
  // The marker of thinking that the prompt ends with (opened_reasoning()); empty: none.
  std::string opened_reasoning;
  // Thinking comes as kReasoning. False: it stays in the content, its markers with it, that of the prompt too.
  bool split_reasoning = true;
  // The tools of the request; without any, calls are text like everything else.
  ToolSet tools;
  // Arguments come as they are written. A call that breaks off then ends where it broke. False: a call comes when it
  // is whole, and a broken one is content.
  bool stream_arguments = false;
  // False: the answer ends with its first call.
  bool parallel_calls = true;
  // Ids of calls are made from this; the same seed gives the same ids.
  std::string id_seed;
};

// The contract:
//  - All deltas together depend on the text alone, not on how it was cut; it may be cut inside characters.
//  - No text is lost: what is neither marker nor call comes out as content, a call that cannot be read as the text it
//    is. Nothing throws for what a model writes. (Lost are only white space between content and a call, and after the
//    last call; markers; and what follows the first call when calls are not parallel.)
//  - Text is held back only while it may become a marker, or, of a call, until it is whole (see stream_arguments).
//  - Arguments of a call that ended well are the JSON text of an object.
//  - A name that is not among the tools makes a call all the same, for the client to judge; not so in dialects whose
//    calls have no marker of their own.
class OutputParser {
 public:
  // `dialect` outlives the parser; nullptr: thinking is told from the answer, nothing else.
  OutputParser(const Dialect* dialect, OutputOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // The text so far goes on with `text`. What can be told of it now.
  std::vector<OutputDelta> feed(std::string_view text);
  // There is no more text: the rest. REQUIRES: called once, last.
  std::vector<OutputDelta> finish();

  int n_calls() const;      // that have ended well
  bool has_broken() const;  // a call was begun, with stream_arguments, and broke off
  bool is_thinking() const;
  // Nothing that follows counts any more: the model may be stopped.
  bool is_done() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

// All deltas put together.
struct ParsedCall {
  std::string id, name, arguments;
  bool operator==(const ParsedCall&) const = default;
};
struct ParsedOutput {
  std::string content, reasoning;
  std::vector<ParsedCall> calls;
  void add(const std::vector<OutputDelta>& deltas);
  bool operator==(const ParsedOutput&) const = default;
};

}  // namespace loci::server
