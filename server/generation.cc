#include "server/generation.h"

#include <utility>

namespace loci::server {

using Clock = std::chrono::steady_clock;

struct Generation::Shared {
  // A choice's end of the queue. Keeps what is shared alive until the engine is done with it.
  struct Sink : TokenSink {
    void on_prompt(int64_t done, int64_t total, int64_t cached) override {
      GenerationEvent event;
      event.kind = GenerationEvent::Kind::kPrompt;
      event.n_done = done, event.n_total = total, event.n_cached = cached;
      owner->push(choice, std::move(event));
    }
    void on_prompt_token(int64_t position, std::span<const TokenProb> top) override {
      GenerationEvent event;
      event.kind = GenerationEvent::Kind::kPromptToken;
      event.position = position;
      event.top.assign(top.begin(), top.end());
      owner->push(choice, std::move(event));
    }
    void on_hidden(int64_t, std::span<const float> row) override { pooler.add(row); }
    void on_token(int32_t token, std::string_view text, std::span<const TokenProb> top) override {
      GenerationEvent event;
      event.token = token;
      event.text = text;
      event.top.assign(top.begin(), top.end());
      owner->push(choice, std::move(event));
    }
    void on_finish(std::string_view text, const RequestStats& stats) override {
      GenerationEvent event;
      event.kind = GenerationEvent::Kind::kFinish;
      event.text = text;
      event.stats = stats;
      event.pooled = pooler.result();
      const std::shared_ptr<Shared> last_hold = std::move(keeps);
      owner->push(choice, std::move(event));
    }
    Shared* owner = nullptr;
    size_t choice = 0;
    Pooler pooler;
    std::shared_ptr<Shared> keeps;
  };

  void push(size_t choice, GenerationEvent event) {
    event.choice = choice;
    event.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    {
      const std::lock_guard lock(mutex);
      events.push_back(std::move(event));
    }
    has_event.notify_one();
  }

  const Clock::time_point start = Clock::now();
  std::vector<Sink> sinks;
  std::mutex mutex;
  std::condition_variable has_event;
  std::deque<GenerationEvent> events;  // guarded by mutex
  std::vector<RequestId> ids;          // set before the constructor of Generation returns
};

Generation::Generation(EngineThread& engine, const CompletionRequest& request)
    : engine_(engine), shared_(std::make_shared<Shared>()), n_open_(request.n_choices()) {
  shared_->sinks.resize(request.n_choices());
  for (size_t i = 0; i < shared_->sinks.size(); ++i) {
    shared_->sinks[i].owner = shared_.get();
    shared_->sinks[i].choice = i;
    shared_->sinks[i].pooler = Pooler(request.pooling);
  }
  engine.call([this, &request] {
    const auto n = static_cast<size_t>(request.n);
    for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
      std::vector<TokenSink*> sinks;
      for (size_t i = 0; i < n; ++i) sinks.push_back(&shared_->sinks[prompt * n + i]);
      try {
        shared_->ids.push_back(engine_.engine().submit(engine_request(request, prompt, sinks)));
      } catch (const Error&) {
        for (const RequestId id : shared_->ids) engine_.engine().cancel(id);
        throw;
      }
      for (size_t i = 0; i < n; ++i) shared_->sinks[prompt * n + i].keeps = shared_;
    }
  });
}

Generation::~Generation() { cancel(); }

std::optional<GenerationEvent> Generation::next(int timeout_ms) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->has_event.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                   [this] { return !shared_->events.empty(); })) {
    return std::nullopt;
  }
  GenerationEvent event = std::move(shared_->events.front());
  shared_->events.pop_front();
  if (event.kind == GenerationEvent::Kind::kFinish) --n_open_;
  return event;
}

void Generation::cancel() {
  if (n_open_ == 0) return;
  for (const RequestId id : shared_->ids) engine_.engine().cancel(id);
  engine_.wake();
}

}  // namespace loci::server
