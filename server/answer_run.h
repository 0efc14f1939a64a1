// AnswerRun: a request from its submission to the last byte of its answer, whole or streamed, in whatever dialect. The
// dialect is an AnswerFormat.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/completion_response.h"
#include "server/generation.h"
#include "server/http/exchange.h"
#include "server/request_output.h"
#include "server/service.h"
#include "server/sse.h"

namespace loci::server {

// What a format can look at.
struct AnswerView {
  const CompletionRequest& request;
  const ResponseStamp& stamp;
  const Tokenizer& tokenizer;
  std::span<const ChoiceRecorder* const> choices;
};

// What came for a choice since the last time.
struct ChoiceDelta {
  size_t choice = 0;
  std::string text;                      // all of it, markers too
  std::vector<OutputDelta> parts;        // the same, told apart
  std::vector<int32_t> tokens;           // whose text it is
  std::span<const TokenRecord> records;  // log-probabilities of tokens that are part of the answer now
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual Json whole(const AnswerView& answer) = 0;

  // Of a stream, in this order; deltas and ends of several choices mix.
  virtual void begin(EventStream& out, const AnswerView& answer) { (void)out, (void)answer; }
  virtual void progress(EventStream& out, const AnswerView& answer, size_t choice, const Json& progress) {
    (void)out, (void)answer, (void)choice, (void)progress;
  }
  virtual void delta(EventStream& out, const AnswerView& answer, const ChoiceDelta& delta) = 0;
  virtual void finish(EventStream& out, const AnswerView& answer, size_t choice) = 0;
  virtual void end(EventStream& out, const AnswerView& answer) = 0;
  // In place of the rest.
  virtual void error(EventStream& out, const ApiError& error) { out.data(error_body(error)); }
  virtual const char* stream_type() const { return kEventStreamType; }
};

// Answers the exchange: checks the prompts' lengths, submits, waits or streams. The work ends when the client leaves.
// Throws Error when the engine refuses the request.
void run_answer(Service& service, Exchange& exchange, CompletionRequest request, const std::string& id_prefix,
                std::unique_ptr<AnswerFormat> format);

}  // namespace loci::server
