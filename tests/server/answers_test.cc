// Answers over HTTP: whole and streamed, many at once, broken off.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/server/served_model.h"

namespace loci::test {
namespace {

using server::Json;

Json body_of(const std::string& more = "") {
  Json body = Json::parse(R"({"prompt":"Once upon a time","max_tokens":40,"temperature":1,"seed":7})");
  if (!more.empty()) body.update(Json::parse(more));
  return body;
}

Json chat_body(const std::string& more = "") {
  Json body = body_of(more);
  body.erase("prompt");
  body["messages"] = Json::parse(R"([{"role":"user","content":"Tell me"}])");
  return body;
}

// The chunks of a stream, without [DONE], which must be last.
std::vector<Json> chunks_of(const HttpAnswer& answer, bool has_done = true) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
  std::vector<std::string> events = events_of(answer.body);
  if (has_done) {
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
  }
  std::vector<Json> chunks;
  for (const std::string& event : events) chunks.push_back(Json::parse(event));  // throws on broken characters
  return chunks;
}

std::string streamed_text(const std::vector<Json>& chunks, size_t choice = 0) {
  std::string text;
  for (const Json& chunk : chunks) {
    for (const Json& entry : chunk["choices"]) {
      if (entry["index"] != choice) continue;
      if (entry.contains("text")) text += entry["text"].get<std::string>();
      if (entry.contains("delta") && entry["delta"].contains("content") && entry["delta"]["content"].is_string()) {
        text += entry["delta"]["content"].get<std::string>();
      }
    }
  }
  return text;
}

TEST(Answers, AStreamSaysWhatTheWholeAnswerSays) {
  ServedModel model;
  const Json whole = model.post("/v1/completions", body_of().dump()).json();
  ASSERT_TRUE(whole.contains("choices")) << whole.dump();
  const std::string text = whole["choices"][0]["text"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["model"], "tiny");
  EXPECT_EQ(whole["usage"]["completion_tokens"].get<int>() + whole["usage"]["prompt_tokens"].get<int>(),
            whole["usage"]["total_tokens"].get<int>());
  const auto chunks = chunks_of(
      model.post("/v1/completions", body_of(R"({"stream":true,"stream_options":{"include_usage":true}})").dump()));
  EXPECT_EQ(streamed_text(chunks), text);
  EXPECT_GT(chunks.size(), 5u);
  EXPECT_EQ(chunks.back()["choices"].size(), 0u);
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_EQ(chunks.back()["usage"]["prompt_tokens_details"]["cached_tokens"],
            whole["usage"]["prompt_tokens"].get<int>() - 1);
  EXPECT_EQ(chunks.back()["timings"]["prompt_n"], 1);
  EXPECT_EQ(chunks[chunks.size() - 2]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
}

TEST(Answers, ChatStreamsBeginWithTheRole) {
  ServedModel model;
  const Json whole = model.post("/v1/chat/completions", chat_body().dump()).json();
  const auto chunks = chunks_of(model.post("/chat/completions", chat_body(R"({"stream":true})").dump()));
  EXPECT_EQ(chunks.front()["object"], "chat.completion.chunk");
  EXPECT_EQ(chunks.front()["choices"][0]["delta"].dump(), R"({"role":"assistant","content":null})");
  EXPECT_EQ(streamed_text(chunks), whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(chunks.back()["choices"][0]["delta"], Json::object());
  EXPECT_TRUE(chunks.back().contains("timings"));
  EXPECT_EQ(chunks.front()["id"], chunks.back()["id"]);
}

TEST(Answers, TheNativeDialect) {
  ServedModel model;
  const Json whole = model.post("/completion", body_of(R"({"return_tokens":true,"n_probs":2})").dump()).json();
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], whole["tokens_predicted"] == 40 ? "limit" : "eos");
  EXPECT_EQ(whole["prompt"], "Once upon a time");
  EXPECT_EQ(whole["generation_settings"]["seed"], 7);
  EXPECT_EQ(whole["tokens"].size(), whole["tokens_predicted"]);
  EXPECT_EQ(whole["completion_probabilities"][0]["top_logprobs"].size(), 2u);
  const auto chunks = chunks_of(model.post("/completions", body_of(R"({"stream":true,"n_probs":2})").dump()), false);
  std::string text;
  Json records = Json::array();
  for (const Json& chunk : chunks) {
    text += chunk["content"].get<std::string>();
    for (const Json& record : chunk.value("completion_probabilities", Json::array())) records.push_back(record);
  }
  EXPECT_EQ(text, whole["content"]);
  EXPECT_EQ(records, whole["completion_probabilities"]);
  EXPECT_EQ(chunks.back()["stop"], true);
  EXPECT_EQ(chunks.back()["content"], "");
  const Json some =
      model
          .post("/completion",
                body_of(R"({"response_fields":["content","generation_settings/n_predict","no/such"]})").dump())
          .json();
  EXPECT_EQ(some.size(), 2u);
  EXPECT_EQ(some["n_predict"], 40);
  EXPECT_EQ(model.post("/completion", R"({"prompt":["a","b"],"n_predict":1})").json().size(), 2u);
  const Json warm = model.post("/completion", R"({"prompt":"warm the cache","n_predict":0})").json();
  EXPECT_EQ(warm["tokens_predicted"], 0);
}

TEST(Answers, SeveralChoicesStreamUnderTheirIndex) {
  ServedModel model;
  const Json whole = model.post("/v1/completions", body_of(R"({"n":3})").dump()).json();
  ASSERT_EQ(whole["choices"].size(), 3u);
  EXPECT_NE(whole["choices"][0]["text"], whole["choices"][1]["text"]);
  const auto chunks = chunks_of(model.post("/v1/completions", body_of(R"({"n":3,"stream":true})").dump()));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(streamed_text(chunks, i), whole["choices"][i]["text"]);
}

TEST(Answers, LogProbabilitiesAreStreamedWithTheirText) {
  ServedModel model;
  const std::string more = R"({"logprobs":true,"top_logprobs":3,"stop":["e"]})";
  const Json whole = model.post("/v1/chat/completions", chat_body(more).dump()).json();
  Json body = chat_body(more);
  body["stream"] = true;
  Json records = Json::array();
  for (const Json& chunk : chunks_of(model.post("/v1/chat/completions", body.dump()))) {
    if (chunk["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& record : chunk["choices"][0]["logprobs"]["content"]) records.push_back(record);
  }
  EXPECT_EQ(records, whole["choices"][0]["logprobs"]["content"]);
}

TEST(Answers, ProgressAndTimingsOnDemand) {
  ServedModel model;
  const auto chunks = chunks_of(model.post(
      "/v1/chat/completions", chat_body(R"({"stream":true,"return_progress":true,"timings_per_token":true})").dump()));
  const Json& progress = chunks[1]["prompt_progress"];
  EXPECT_EQ(progress["processed"], progress["total"]);
  EXPECT_EQ(progress["cache"], 0);
  for (size_t i = 3; i < 6; ++i) EXPECT_GE(chunks[i]["timings"]["predicted_n"], 1);
  EXPECT_EQ(chunks.back()["timings"]["cache_miss"]["cause"], "empty");
}

TEST(Answers, ManyAtOnceSayWhatTheySayAlone) {
  ServedModel model;
  const auto ask = [&](int i) {
    Json body = body_of();
    body["prompt"] = "Story number " + std::to_string(i % 7);
    body["seed"] = i;
    return model.post("/v1/completions", body.dump()).json()["choices"][0]["text"].get<std::string>();
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 12; ++i) alone.push_back(ask(i));
  std::vector<std::future<std::string>> together;
  for (int i = 0; i < 12; ++i) together.push_back(std::async(std::launch::async, ask, i));
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(together[i].get(), alone[i]);
  EXPECT_TRUE(model.becomes_idle());
}

TEST(Answers, AClientThatLeavesIsNotWorkedFor) {
  ServedOptions options;
  options.n_ctx = 1024;
  ServedModel model(options);
  const int64_t free_before = model.metrics().pages_used;
  for (const bool stream : {true, false}) {
    Json body = body_of(R"({"max_tokens":-1,"ignore_eos":true,"n":64})");  // for seconds
    body["stream"] = stream;
    Socket socket(model.port());
    socket.send(request_text("POST", "/v1/completions", body.dump()));
    if (stream) {
      EXPECT_NE(socket.read_until("data: "), "");
    } else {
      while (model.metrics().n_running == 0) std::this_thread::yield();
    }
    socket.close();
    EXPECT_TRUE(model.becomes_idle());
  }
  const Metrics metrics = model.metrics();
  EXPECT_GE(metrics.n_finished[static_cast<size_t>(FinishReason::kCancelled)], 2 * 56);
  EXPECT_EQ(metrics.pages_used, free_before);
}

TEST(Answers, AFullQueueTurnsAway) {
  ServedOptions options;
  options.engine.max_queue = 1;
  options.engine.max_sequences = 2;
  ServedModel model(options);
  const std::string body = body_of(R"({"max_tokens":-1,"ignore_eos":true,"stream":true})").dump();
  std::vector<std::unique_ptr<Socket>> sockets;
  HttpAnswer refused;
  for (int i = 0; i < 20 && refused.status != 503; ++i) {
    sockets.push_back(std::make_unique<Socket>(model.port()));
    sockets.back()->send(request_text("POST", "/v1/completions", body));
    refused = model.post("/v1/completions", body_of(R"({"max_tokens":1})").dump());
  }
  ASSERT_EQ(refused.status, 503);
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
  EXPECT_EQ(refused.json()["error"]["type"], "unavailable_error");
  sockets.clear();
  EXPECT_TRUE(model.becomes_idle());
  EXPECT_EQ(model.post("/v1/completions", body_of().dump()).status, 200);
}

TEST(Answers, APromptBeyondTheContextIsRefused) {
  ServedModel model;
  Json body = body_of();
  body["prompt"] = std::string(600, 'x');
  const HttpAnswer answer = model.post("/v1/completions", body.dump());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["type"], "exceed_context_size_error");
  EXPECT_EQ(answer.json()["error"]["n_prompt_tokens"], 600);
}

TEST(Answers, AReaderThatDoesNotReadIsGivenUp) {
  ServedOptions options;
  options.http.limits.write_timeout_ms = 200;
  options.http.limits.min_rate = int64_t{1} << 40;
  options.n_ctx = 1024;
  ServedModel model(options);
  Socket socket(model.port());
  socket.send(request_text(
      "POST", "/v1/completions",
      body_of(R"({"max_tokens":-1,"ignore_eos":true,"stream":true,"n":8,"logprobs":100})").dump()));  // megabytes
  while (model.metrics().n_submitted == 0) std::this_thread::yield();
  EXPECT_TRUE(model.becomes_idle());
  EXPECT_GT(model.metrics().n_finished[static_cast<size_t>(FinishReason::kCancelled)], 0);
}

TEST(Answers, StoppingLetsRequestsEnd) {
  ServedModel model;
  Socket socket(model.port());
  socket.send(request_text("POST", "/v1/completions", body_of(R"({"stream":true})").dump()));
  EXPECT_NE(socket.read_until("data: "), "");
  std::thread stopping([&] { model.http_server().stop(10000, [] { return false; }); });
  const std::string rest = socket.read_all();
  stopping.join();
  EXPECT_NE(rest.find("[DONE]"), std::string::npos);
}

TEST(Answers, StoppingInAHurryBreaksThemOff) {
  ServedOptions options;
  options.n_ctx = 1024;
  ServedModel model(options);
  Socket socket(model.port());
  socket.send(request_text("POST", "/v1/completions",
                           body_of(R"({"stream":true,"max_tokens":-1,"ignore_eos":true,"n":64})").dump()));
  EXPECT_NE(socket.read_until("data: "), "");
  std::thread stopping([&] { model.http_server().stop(10000, [] { return true; }); });
  const std::string rest = socket.read_all();
  stopping.join();
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_NE(rest.find("the server is shutting down"), std::string::npos);
}

TEST(Answers, ThePromptsLogProbabilitiesComeWithItsEcho) {
  ServedModel model;
  const std::string more = R"({"echo":true,"logprobs":2,"max_tokens":1,"temperature":0,"ignore_eos":true})";
  const Json choice = model.post("/v1/completions", body_of(more).dump()).json()["choices"][0];
  const Json& lists = choice["logprobs"];
  const size_t n = lists["tokens"].size();
  ASSERT_GT(n, 5u);
  EXPECT_EQ(lists["token_logprobs"].size(), n);
  EXPECT_EQ(lists["top_logprobs"].size(), n);
  EXPECT_EQ(lists["text_offset"].size(), n);
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(lists["text_offset"][i], text.size());  // all of it is ASCII but for the answer, which is last
    text += lists["tokens"][i].get<std::string>();
    if (i == 0) continue;
    EXPECT_LE(lists["token_logprobs"][i].get<double>(), 0);
    EXPECT_EQ(lists["top_logprobs"][i].size(), 2u);
  }
  EXPECT_EQ(choice["text"].get<std::string>().rfind("Once upon a time", 0), 0u);
  // The answer's own token, asked for alone.
  const Json alone =
      model
          .post("/v1/completions", body_of(R"({"logprobs":2,"max_tokens":1,"temperature":0,"ignore_eos":true})").dump())
          .json()["choices"][0];
  EXPECT_EQ(alone["logprobs"]["token_logprobs"][0], lists["token_logprobs"][n - 1]);
  // A prefix of the prompt as a prompt: its answer's alternatives are those of the next token.
  const Json tokens = model.post("/tokenize", R"({"content":"Once upon a time"})").json()["tokens"];
  Json prefix = body_of(R"({"logprobs":2,"max_tokens":1,"temperature":0,"ignore_eos":true})");
  prefix["prompt"] = Json(std::vector<int>(tokens.begin(), tokens.begin() + 4));
  EXPECT_EQ(model.post("/v1/completions", prefix.dump()).json()["choices"][0]["logprobs"]["top_logprobs"][0],
            lists["top_logprobs"][4]);
  EXPECT_EQ(model.post("/v1/completions", body_of(R"({"echo":true,"logprobs":1,"stream":true})").dump()).status, 501);
}

TEST(Answers, TextsBecomeVectors) {
  ServedModel model;
  const Json one = model.post("/v1/embeddings", R"({"input":["hello","world"],"model":"x"})").json();
  ASSERT_EQ(one["data"].size(), 2u);
  EXPECT_EQ(one["data"][1]["index"], 1);
  const auto vector = one["data"][0]["embedding"].get<std::vector<float>>();
  EXPECT_EQ(vector.size(), 64u);
  double squares = 0;
  for (const float v : vector) squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_NE(one["data"][0]["embedding"], one["data"][1]["embedding"]);
  EXPECT_EQ(model.post("/v1/embeddings", R"({"input":"hello"})").json()["data"][0]["embedding"], Json(vector));
  const std::string packed =
      model.post("/v1/embeddings", R"({"input":"hello","encoding_format":"base64"})").json()["data"][0]["embedding"];
  EXPECT_EQ(packed.size(), (64 * 4 + 2) / 3 * 4u);
  const Json native = model.post("/embedding", R"({"content":"hello","embd_normalize":-1})").json();
  EXPECT_EQ(native[0]["embedding"][0].size(), 64u);
  EXPECT_EQ(model.post("/api/embed", R"({"input":"hello"})").json()["embeddings"][0], Json(vector));
  for (const char* empty : {R"({"input":""})", R"({"input":[]})", R"({"input":[""]})", "{}"}) {
    EXPECT_EQ(model.post("/v1/embeddings", empty).status, 400) << empty;
  }
}

TEST(Answers, MetricsCountThem) {
  ServedOptions options;
  options.service.metrics = true;
  options.service.metrics_prefix = "llamacpp:";
  ServedModel model(options);
  model.post("/v1/completions", body_of().dump());
  model.post("/v1/completions", "{}");
  EXPECT_TRUE(model.becomes_idle());
  const HttpAnswer answer = model.get("/metrics");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4");
  EXPECT_GT(std::stoll(answer.headers.at("process-start-time-unix")), 0);
  for (const char* line :
       {"\nllamacpp:prompt_tokens_total 16\n", "\nllamacpp:requests_total{code=\"200\"} 1\n",
        "\nllamacpp:requests_total{code=\"400\"} 1\n", "\nllamacpp:e2e_request_latency_seconds_count 1\n",
        "\n# TYPE llamacpp:time_to_first_token_seconds histogram\n", "\nllamacpp:requests_processing 0\n"}) {
    EXPECT_NE(answer.body.find(line), std::string::npos) << line << answer.body;
  }
}

}  // namespace
}  // namespace loci::test
