// POST /v1/chat/completions and /v1/completions.
#include "server/answer_run.h"
#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

class OpenAiFormat : public AnswerFormat {
 public:
  Json whole(const AnswerView& a) override { return completion_json(a.request, a.choices, a.tokenizer, a.stamp); }

  void progress(EventStream& out, const AnswerView& a, size_t choice, const Json& progress) override {
    Json chunk = start_chunk(a, choice);
    chunk["prompt_progress"] = progress;
    out.data(chunk);
  }

  void finish(EventStream& out, const AnswerView& a, size_t choice) override {
    ++n_finished_;
    Json chunk = start_chunk(a, choice);
    chunk["choices"][0]["finish_reason"] = last_reason(a, choice);
    if (n_finished_ == a.choices.size() && !a.request.include_usage) {
      chunk["timings"] = timings_json(a.request, a.choices);
    }
    out.data(chunk);
  }

  void end(EventStream& out, const AnswerView& a) override {
    if (a.request.include_usage) {
      Json chunk = start_chunk(a, 0);
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_json(a.request, a.choices);
      chunk["timings"] = timings_json(a.request, a.choices);
      out.data(chunk);
    }
    out.done();
  }

 protected:
  virtual const char* object() const = 0;
  // What stands in a choice that brings nothing new.
  virtual void put_nothing(Json& choice) const = 0;
  virtual const char* last_reason(const AnswerView& a, size_t choice) const {
    return finish_reason(a.choices[choice]->stats());
  }

  Json start_chunk(const AnswerView& a, size_t choice) const {
    Json chunk;
    chunk["id"] = a.stamp.id;
    chunk["object"] = object();
    chunk["created"] = a.stamp.created_unix_s;
    chunk["model"] = a.stamp.model;
    chunk["system_fingerprint"] = a.stamp.fingerprint;
    Json& entry = chunk["choices"][0];
    entry["index"] = choice;
    put_nothing(entry);
    entry["logprobs"] = nullptr;
    entry["finish_reason"] = nullptr;
    return chunk;
  }

  void send(EventStream& out, const AnswerView& a, Json chunk, std::span<const TokenRecord> records) const {
    if (a.request.logprobs) chunk["choices"][0]["logprobs"] = logprobs_json(records, a.tokenizer);
    if (a.request.timings_per_token) chunk["timings"] = timings_json(a.request, a.choices);
    out.data(chunk);
  }

 private:
  size_t n_finished_ = 0;
};

class ChatFormat : public OpenAiFormat {
 public:
  void begin(EventStream& out, const AnswerView& a) override {
    has_calls_.resize(a.choices.size());
    for (size_t i = 0; i < a.choices.size(); ++i) {
      Json chunk = start_chunk(a, i);
      chunk["choices"][0]["delta"] = {{"role", "assistant"}, {"content", nullptr}};
      out.data(chunk);
    }
  }

  // One chunk for each part; log-probabilities ride on the first.
  void delta(EventStream& out, const AnswerView& a, const ChoiceDelta& delta) override {
    std::span<const TokenRecord> records = delta.records;
    for (const OutputDelta& part : delta.parts) {
      Json chunk = start_chunk(a, delta.choice);
      Json& body = chunk["choices"][0]["delta"];
      switch (part.kind) {
        case OutputDelta::Kind::kContent:
          body["content"] = part.text;
          break;
        case OutputDelta::Kind::kReasoning:
          body["reasoning_content"] = part.text;
          break;
        case OutputDelta::Kind::kToolCall:
          has_calls_[delta.choice] = true;
          body["tool_calls"] = Json::array({call_json(part)});
          break;
      }
      send(out, a, std::move(chunk), records);
      records = {};
    }
  }

 protected:
  const char* object() const override { return "chat.completion.chunk"; }
  void put_nothing(Json& choice) const override { choice["delta"] = Json::object(); }
  const char* last_reason(const AnswerView& a, size_t choice) const override {
    const char* reason = finish_reason(a.choices[choice]->stats());
    return has_calls_[choice] && std::string_view(reason) == "stop" ? "tool_calls" : reason;
  }

 private:
  static Json call_json(const OutputDelta& part) {
    Json call;
    call["index"] = part.call;
    if (!part.name.empty()) {
      call["id"] = part.id;
      call["type"] = "function";
      call["function"]["name"] = part.name;
    }
    call["function"]["arguments"] = part.text;
    return call;
  }
  std::vector<bool> has_calls_;  // by choice
};

class TextFormat : public OpenAiFormat {
 public:
  void begin(EventStream& out, const AnswerView& a) override {
    if (a.request.echoed.empty()) return;
    for (size_t i = 0; i < a.choices.size(); ++i) {
      Json chunk = start_chunk(a, i);
      chunk["choices"][0]["text"] = a.request.echoed[i / static_cast<size_t>(a.request.n)];
      out.data(chunk);
    }
  }

  void delta(EventStream& out, const AnswerView& a, const ChoiceDelta& delta) override {
    if (delta.text.empty()) return;
    Json chunk = start_chunk(a, delta.choice);
    chunk["choices"][0]["text"] = delta.text;
    send(out, a, std::move(chunk), delta.records);
  }

 protected:
  const char* object() const override { return "text_completion"; }
  void put_nothing(Json& choice) const override { choice["text"] = ""; }
};

}  // namespace

void serve_chat_completions(Service& service, Exchange& exchange) {
  CompletionRequest request = parse_completion(Endpoint::kChatCompletions, exchange.json(), service.defaults());
  run_answer(service, exchange, std::move(request), "chatcmpl-", std::make_unique<ChatFormat>());
}

void serve_completions(Service& service, Exchange& exchange) {
  CompletionRequest request = parse_completion(Endpoint::kCompletions, exchange.json(), service.defaults());
  run_answer(service, exchange, std::move(request), "cmpl-", std::make_unique<TextFormat>());
}

}  // namespace loci::server
