// The dialects of other APIs: their bodies to chat bodies, and their answers over HTTP.
#include <gtest/gtest.h>

#include "server/anthropic_body.h"
#include "server/responses_body.h"
#include "tests/server/served_model.h"

namespace loci::test {
namespace {

using server::Json;

Json anthropic(const std::string& text) { return server::chat_body_of_anthropic(Json::parse(text), false); }
Json responses(const std::string& text) { return server::chat_body_of_responses(Json::parse(text)); }

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Dialects, AnthropicBodies) {
  const Json body = anthropic(R"({"model":"m","system":[{"type":"text","text":"Be brief."}],"stop_sequences":["X"],
    "thinking":{"type":"disabled"},"messages":[{"role":"user","content":"hi"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"Wait"},
      {"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"7"}]}]}],
    "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
    "tool_choice":{"type":"tool","name":"f"}})");
  EXPECT_EQ(
      body["messages"].dump(),
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},)"
      R"({"role":"assistant","content":"Wait","reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"a\":1}"}}]},)"
      R"({"role":"tool","tool_call_id":"t1","content":"7"}])");
  EXPECT_EQ(body["max_tokens"], 4096);
  EXPECT_EQ(body["stop"], Json::parse(R"(["X"])"));
  EXPECT_EQ(body["chat_template_kwargs"]["enable_thinking"], false);
  EXPECT_EQ(body["tools"][0]["function"]["parameters"]["type"], "object");
  EXPECT_EQ(body["tool_choice"]["function"]["name"], "f");
  EXPECT_EQ(error_of([] { anthropic(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})"); }),
            "Field 'messages[0]': not supported by this build: blocks of type image");
  EXPECT_EQ(error_of([] { anthropic("{}"); }), "'messages' is required");
}

TEST(Dialects, LinesThatChangeWithEveryCallAreTakenOut) {
  EXPECT_EQ(server::without_pseudo_headers("x-anthropic-billing-header: cch=1f2e;\nYou are a helper.\n"),
            "You are a helper.\n");
  EXPECT_EQ(server::without_pseudo_headers("a\nx-anthropic-billing-header: 1"), "a\n");
  EXPECT_EQ(server::without_pseudo_headers("say x-anthropic-billing-header: 1"), "say x-anthropic-billing-header: 1");
  EXPECT_EQ(server::without_pseudo_headers(""), "");
}

TEST(Dialects, ResponsesBodies) {
  const Json body = responses(R"({"instructions":"Be brief.","max_output_tokens":9,"reasoning":{"effort":"low"},
    "input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},
    {"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Wait"}]},
    {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
    {"type":"function_call_output","call_id":"c1","output":"7"}],
    "tools":[{"type":"function","name":"f","parameters":{}}]})");
  EXPECT_EQ(
      body["messages"].dump(),
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},)"
      R"({"role":"assistant","content":"Wait","reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"7"}])");
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["reasoning_effort"], "low");
  EXPECT_EQ(body["tools"][0]["function"]["name"], "f");
  EXPECT_EQ(responses(R"({"input":"hi"})")["messages"].dump(), R"([{"role":"user","content":"hi"}])");
  EXPECT_NE(error_of([] { responses(R"({"input":"x","previous_response_id":"r"})"); }).find("not supported"),
            std::string::npos);
}

// Pairs of event and data.
std::vector<std::pair<std::string, Json>> named_events(const std::string& stream) {
  std::vector<std::pair<std::string, Json>> events;
  for (size_t at = 0; (at = stream.find("event: ", at)) != std::string::npos;) {
    const size_t data = stream.find("\ndata: ", at), end = stream.find("\n\n", at);
    events.emplace_back(stream.substr(at + 7, data - at - 7), Json::parse(stream.substr(data + 7, end - data - 7)));
    at = end;
  }
  return events;
}

TEST(Dialects, MessagesWholeAndStreamed) {
  ServedModel model;
  Json body = Json::parse(R"({"max_tokens":20,"temperature":1,"seed":3,"messages":[{"role":"user","content":"hi"}]})");
  const Json whole = model.post("/v1/messages", body.dump()).json();
  ASSERT_EQ(whole["type"], "message") << whole.dump();
  body["stream"] = true;
  const auto events = named_events(model.post("/v1/messages", body.dump()).body);
  std::string text;
  for (const auto& [name, data] : events) {
    EXPECT_EQ(name, data["type"]);
    if (name == "content_block_delta") text += data["delta"]["text"].get<std::string>();
  }
  EXPECT_EQ(text, whole["content"][0]["text"]);
  EXPECT_EQ(events.front().first, "message_start");
  EXPECT_EQ(events.back().first, "message_stop");
  const Json& last = events[events.size() - 2].second;
  EXPECT_EQ(last["delta"]["stop_reason"], whole["stop_reason"]);
  EXPECT_EQ(last["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  EXPECT_EQ(last["usage"]["input_tokens"], 1);  // all but one token were cached
  EXPECT_EQ(model.post("/v1/messages/count_tokens", body.dump()).json()["input_tokens"],
            whole["usage"]["input_tokens"]);
  const Json error = model.post("/v1/messages", "{}").json();
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
}

TEST(Dialects, ResponsesWholeAndStreamed) {
  ServedModel model;
  Json body = Json::parse(R"({"max_output_tokens":20,"temperature":1,"seed":3,"ignore_eos":true,"input":"hi"})");
  const Json whole = model.post("/v1/responses", body.dump()).json();
  ASSERT_EQ(whole["object"], "response") << whole.dump();
  EXPECT_EQ(whole["status"], "incomplete");
  body["stream"] = true;
  const auto events = named_events(model.post("/responses", body.dump()).body);
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].second["sequence_number"], i);
    if (events[i].first == "response.output_text.delta") text += events[i].second["delta"].get<std::string>();
  }
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(events.front().first, "response.created");
  EXPECT_EQ(events.back().first, "response.incomplete");
  EXPECT_EQ(events.back().second["response"]["output"][0]["content"], whole["output"][0]["content"]);
}

TEST(Dialects, Ollama) {
  ServedModel model;
  EXPECT_TRUE(model.get("/api/version").json().contains("version"));
  EXPECT_EQ(model.get("/api/tags").json()["models"][0]["name"], "tiny");
  EXPECT_EQ(model.get("/api/ps").json()["models"][0]["context_length"], 512);
  EXPECT_EQ(model.post("/api/show", R"({"model":"tiny"})").json()["model_info"]["general.architecture"], "llama");
  const std::string start = R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],)"
                            R"("options":{"temperature":1,"seed":3,"num_predict":20})";
  const Json whole = model.post("/api/chat", start + R"(,"stream":false})").json();
  ASSERT_EQ(whole["done"], true) << whole.dump();
  const HttpAnswer streamed = model.post("/api/chat", start + "}");
  EXPECT_EQ(streamed.headers.at("content-type"), "application/x-ndjson");
  std::string text;
  Json last;
  for (size_t at = 0; at < streamed.body.size();) {
    const size_t end = streamed.body.find('\n', at);
    last = Json::parse(streamed.body.substr(at, end - at));
    text += last["message"]["content"].get<std::string>();
    at = end + 1;
  }
  EXPECT_EQ(text, whole["message"]["content"]);
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["eval_count"], whole["eval_count"]);
  const Json generated =
      model.post("/api/generate", R"({"prompt":"hi","raw":true,"stream":false,"options":{"num_predict":3}})").json();
  EXPECT_TRUE(generated["response"].is_string());
  EXPECT_EQ(model.post("/api/chat", "{}").json().dump(), R"({"error":"'messages' is required"})");
}

TEST(Dialects, WhatIsNotThereSaysSo) {
  ServedModel model;
  for (const char* path : {"/v1/rerank", "/lora-adapters", "/v1/audio/speech", "/models/load", "/slots/0"}) {
    const HttpAnswer answer = model.post(path, "{}");
    EXPECT_EQ(answer.status, 501) << path;
    EXPECT_EQ(answer.json()["error"]["message"].get<std::string>().rfind("not supported by this build: ", 0), 0u);
  }
  const HttpAnswer infill = model.post("/infill", R"({"input_prefix":"a","input_suffix":"b"})");
  EXPECT_EQ(infill.status, 501);  // the tiny model has no tokens for it
  EXPECT_EQ(model.get("/slots").json().size(), 4u);
  EXPECT_EQ(model.get("/slots").json()[0]["is_processing"], false);
}

}  // namespace
}  // namespace loci::test
