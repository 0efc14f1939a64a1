// BatchRunner: from the lines of the input to the lines of the output. Holds a window of the input, never all of it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "main/batch_input.h"
#include "main/batch_job.h"
#include "main/batch_ledger.h"
#include "main/batch_output.h"
#include "main/batch_progress.h"
#include "main/batch_queue.h"
#include "main/interrupt.h"
#include "server/completion_response.h"

namespace loci::cli {

struct BatchSettings {
  server::RequestDefaults defaults;
  BatchFormat format = BatchFormat::kAuto;
  bool text_is_chat = true;           // plain lines are messages to a chat template
  std::optional<std::string> system;  // message before plain lines
  std::string model_name, fingerprint;
  int n_parallel = 1;
  int64_t n_total_lines = -1;  // when it was counted
};

class BatchRunner {
 public:
  // All arguments outlive the runner.
  BatchRunner(Engine& engine, LineReader& reader, BatchLedger& ledger, BatchOutput& output,
              const BatchSettings& settings);

  // Returns when every line has its result, or after an interrupt, with everything that ran broken off.
  void run(const interrupt::Answering& answering);

  const BatchCounts& counts() const { return counts_; }
  double elapsed_s() const { return progress_.elapsed_s(); }

 private:
  // A line whose choices the engine works on.
  struct Active {
    BatchJob job;
    std::vector<std::unique_ptr<server::ChoiceRecorder>> choices;
    std::vector<RequestId> ids;
    std::optional<server::ApiError> error;  // submitting failed half way
  };

  void refill(const interrupt::Answering& answering);
  void take_line(const InputLine& input);
  void start(BatchJob job);
  void collect();
  void finish(const Active& active);
  void write_failure(const std::string& custom_id, const std::string& request_id, const server::ApiError& error,
                     const std::string& code);
  void show_progress();

  Engine& engine_;
  LineReader& reader_;
  BatchLedger& ledger_;
  BatchOutput& output_;
  const BatchSettings& settings_;
  BatchFormat format_;
  BatchProgress progress_;
  BatchCounts counts_;
  PrefixQueue queue_;
  std::vector<Active> active_;
  size_t n_open_choices_ = 0;
  bool at_end_ = false;
};

}  // namespace loci::cli
