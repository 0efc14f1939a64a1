// OutputDelta: a step of a streamed answer, as OutputParser tells it.
#pragma once
#include <string>

namespace loci::server {

struct OutputDelta {
  enum class Kind {
    kContent,    // text goes on with the answer
    kReasoning,  // text goes on with the thinking
    kToolCall,   // with a name: a call begins; text goes on with the JSON text of its arguments
  };
  Kind kind = Kind::kContent;
  std::string text;
  int call = 0;          // kToolCall: which of the answer's calls, from 0
  std::string id, name;  // kToolCall: with the first delta of a call alone, whose text is empty
  bool operator==(const OutputDelta&) const = default;
};

}  // namespace loci::server
