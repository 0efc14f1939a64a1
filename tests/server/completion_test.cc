// Bodies to requests, results to bodies, with the vocabulary of a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "gguf/gguf.h"
#include "server/completion_request.h"
#include "server/completion_response.h"
#include "tests/support/tiny_model.h"

namespace loci::server {
namespace {

class Completion : public ::testing::Test {
 protected:
  Completion() {
    const gguf::File file = gguf::File::open(test::tiny_model_file({}));
    tokenizer_ = Tokenizer::from_metadata(file.metadata());
    chat_template_ = std::make_unique<ChatTemplate>(ChatTemplate::builtin("chatml"));
    defaults_.tokenizer = tokenizer_.get();
    defaults_.chat_template = chat_template_.get();
    defaults_.n_ctx = 64;
  }

  CompletionRequest parse(const std::string& body, Endpoint endpoint = Endpoint::kCompletions) const {
    return parse_completion(endpoint, Json::parse(body), defaults_);
  }
  std::string error(const std::string& body, Endpoint endpoint = Endpoint::kCompletions) const {
    try {
      parse(body, endpoint);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  std::vector<int32_t> ids(const std::string& text) const { return tokenizer_->encode(text, false, true); }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  RequestDefaults defaults_;
};

TEST_F(Completion, DefaultsServeWhatTheBodyLeavesOut) {
  defaults_.sampling.temperature = 0.25f;
  defaults_.max_tokens = 7;
  defaults_.stops = {"END"};
  const CompletionRequest plain = parse(R"({"prompt":"x","temperature":null})");
  EXPECT_EQ(plain.sampling.temperature, 0.25f);
  EXPECT_EQ(plain.max_tokens, 7);
  EXPECT_EQ(plain.stops, std::vector<std::string>{"END"});
  const CompletionRequest own = parse(R"({"prompt":"x","temperature":1,"n_predict":2,"stop":["a","b"]})");
  EXPECT_EQ(own.sampling.temperature, 1.0f);
  EXPECT_EQ(own.max_tokens, 2);
  EXPECT_EQ(own.stops, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Completion, EverySamplingFieldIsRead) {
  const CompletionRequest request = parse(R"({"prompt":"x","temperature":0.5,"dynatemp_range":0.1,
    "dynatemp_exponent":2,"top_k":3,"top_p":0.4,"min_p":0.3,"typical_p":0.9,"top_n_sigma":1.5,"xtc_probability":0.2,
    "xtc_threshold":0.3,"repeat_last_n":9,"repeat_penalty":1.1,"presence_penalty":0.6,"frequency_penalty":0.7,
    "dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":4,"dry_penalty_last_n":5,"dry_sequence_breakers":["x"],
    "mirostat":2,"mirostat_tau":4,"mirostat_eta":0.2,"adaptive_target":0.5,"adaptive_decay":0.8,"min_keep":2,"seed":12,
    "ignore_eos":true,"logit_bias":[[5,1.5],["ab",false]],"samplers":["top_k","temperature"]})");
  const SamplingParams& p = request.sampling;
  EXPECT_EQ(p.temperature, 0.5f);
  EXPECT_EQ(p.dynatemp_range, 0.1f);
  EXPECT_EQ(p.dynatemp_exponent, 2.0f);
  EXPECT_EQ(p.top_k, 3);
  EXPECT_EQ(p.top_p, 0.4f);
  EXPECT_EQ(p.min_p, 0.3f);
  EXPECT_EQ(p.typical_p, 0.9f);
  EXPECT_EQ(p.top_n_sigma, 1.5f);
  EXPECT_EQ(p.xtc_probability, 0.2f);
  EXPECT_EQ(p.xtc_threshold, 0.3f);
  EXPECT_EQ(p.repeat_last_n, 9);
  EXPECT_EQ(p.repeat_penalty, 1.1f);
  EXPECT_EQ(p.presence_penalty, 0.6f);
  EXPECT_EQ(p.frequency_penalty, 0.7f);
  EXPECT_EQ(p.dry_multiplier, 0.8f);
  EXPECT_EQ(p.dry_base, 2.0f);
  EXPECT_EQ(p.dry_allowed_length, 4);
  EXPECT_EQ(p.dry_penalty_last_n, 5);
  EXPECT_EQ(p.dry_sequence_breakers, std::vector<std::string>{"x"});
  EXPECT_EQ(p.mirostat, 2);
  EXPECT_EQ(p.mirostat_tau, 4.0f);
  EXPECT_EQ(p.mirostat_eta, 0.2f);
  EXPECT_EQ(p.adaptive_target, 0.5f);
  EXPECT_EQ(p.adaptive_decay, 0.8f);
  EXPECT_EQ(p.min_keep, 2);
  EXPECT_EQ(p.seed, 12);
  EXPECT_TRUE(p.ignore_eos);
  ASSERT_EQ(p.logit_bias.size(), 1 + ids("ab").size());
  EXPECT_EQ(p.logit_bias[0], (std::pair<int32_t, float>{5, 1.5f}));
  EXPECT_EQ(p.logit_bias[1].second, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(p.samplers, (std::vector<std::string>{"top_k", "temperature"}));
  EXPECT_EQ(parse(R"({"prompt":"x","samplers":"kt"})").sampling.samplers, p.samplers);
  EXPECT_EQ(parse(R"({"prompt":"x","top_k":-1})").sampling.top_k, 0);  // customary ways to say "off"
  EXPECT_EQ(parse(R"({"prompt":"x","temperature":-1})").sampling.temperature, 0.0f);
}

TEST_F(Completion, SchedulingFieldsReachTheEngine) {
  defaults_.timeout_ms = 9000;
  defaults_.speculation.mode = SpeculationMode::kNgram;
  defaults_.speculation.max_tokens = 8;
  defaults_.speculation.min_tokens = 5;
  const Request plain = engine_request(parse(R"({"prompt":"x","priority":null,"timeout":null})"), 0, {nullptr});
  EXPECT_EQ(plain.priority, 0);
  EXPECT_EQ(plain.timeout_ms, 9000);
  EXPECT_EQ(plain.speculation.mode, SpeculationMode::kNgram);
  EXPECT_EQ(plain.speculation.max_tokens, 8);
  const Request own = engine_request(parse(R"({"prompt":"x","priority":-3,"timeout":1.5,"speculative.type":"auto",
    "speculative.n_max":4,"speculative.p_min":0.5,"speculative.tree":2,"speculative.adaptive":false,
    "speculative.shared":true,"speculative.unheard_of":1})"),
                                     0, {nullptr});
  EXPECT_EQ(own.priority, -3);
  EXPECT_EQ(own.timeout_ms, 1500);
  EXPECT_EQ(own.speculation.mode, SpeculationMode::kAuto);
  EXPECT_EQ(own.speculation.max_tokens, 4);
  EXPECT_EQ(own.speculation.min_tokens, 4);  // the default gives way to the body's n_max
  EXPECT_EQ(own.speculation.p_min, 0.5f);
  EXPECT_EQ(own.speculation.width, 2);
  EXPECT_FALSE(own.speculation.adaptive);
  EXPECT_TRUE(own.speculation.shared_ngrams);
  EXPECT_EQ(parse(R"({"prompt":"x","speculative.type":"none"})").speculation.mode, SpeculationMode::kNone);
}

TEST_F(Completion, SchedulingFieldsWithWrongValuesAreNamed) {
  EXPECT_EQ(error(R"({"prompt":"x","priority":1.5})"), "Field 'priority': expected a whole number, found 1.5");
  EXPECT_EQ(error(R"({"prompt":"x","timeout":0})"),
            "Field 'timeout': expected seconds above 0, at most 1000000, found 0");
  EXPECT_EQ(error(R"({"prompt":"x","speculative.type":"fast"})"),
            "Field 'speculative.type': expected none, ngram, draft or auto, found 'fast'");
  EXPECT_EQ(error(R"({"prompt":"x","speculative.type":"draft"})"),
            "Field 'speculative.type': draft: expected a draft model to be loaded, found none");
  EXPECT_EQ(error(R"({"prompt":"x","speculative.type":"draft-eagle3"})"),
            "Field 'speculative.type': not supported by this build: draft-eagle3, only n-grams or a whole model draft");
  EXPECT_EQ(error(R"({"prompt":"x","speculative.n_max":2,"speculative.n_min":3})"),
            "Field 'speculative.n_min': expected at most speculative.n_max, 2, found 3");
  EXPECT_EQ(error(R"({"prompt":"x","speculative.p_min":2})"),
            "Field 'speculative.p_min': expected a number from 0 to 1, found 2");
  defaults_.has_draft_model = true;
  EXPECT_EQ(parse(R"({"prompt":"x","speculative.type":"draft"})").speculation.mode, SpeculationMode::kDraft);
}

TEST_F(Completion, PromptsComeInFourShapes) {
  EXPECT_EQ(parse(R"({"prompt":"abc"})").prompts.at(0).tokens, ids("abc"));
  EXPECT_EQ(parse(R"({"prompt":[1,2,3]})").prompts.at(0).tokens, (std::vector<int32_t>{1, 2, 3}));
  const CompletionRequest several = parse(R"({"prompt":["ab",[7,8],"c"],"n":2})");
  ASSERT_EQ(several.prompts.size(), 3u);
  EXPECT_EQ(several.prompts[1].tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(several.n_choices(), 6u);
  std::vector<int32_t> mixed = ids("ab");
  mixed.push_back(7);
  EXPECT_EQ(parse(R"({"prompt":["ab",7]})").prompts.at(0).tokens, mixed);
  for (const char* bad : {R"({"prompt":[]})", R"({"prompt":""})", R"({"prompt":[[]]})", R"({"prompt":[-1]})",
                          R"({"prompt":[265]})", R"({"prompt":[1.5]})", R"({"prompt":{}})", R"({"prompt":true})"}) {
    EXPECT_EQ(error(bad).rfind("Field 'prompt': ", 0), 0u) << bad << ": " << error(bad);
  }
}

TEST_F(Completion, APromptAndItsAnswersAreOneRequest) {
  const CompletionRequest request = parse(R"({"prompt":["a","b"],"n":2,"seed":5})");
  ChoiceRecorder one(request, *tokenizer_), two(request, *tokenizer_);
  const Request second = engine_request(request, 1, {&one, &two});
  EXPECT_EQ(second.prompt, ids("b"));
  EXPECT_EQ(second.n, 2);
  EXPECT_EQ(second.sinks, (std::vector<TokenSink*>{&one, &two}));
  EXPECT_EQ(second.sampling.seed, 5);
  EXPECT_EQ(engine_request(parse(R"({"prompt":"a"})"), 0, {&one}).sink, &one);
  EXPECT_EQ(error(R"({"prompt":"a","n":2,"seed":9223372036854775806})"),
            "Field 'seed': expected at most 9223372036854775805, found 9223372036854775806");
}

TEST_F(Completion, ErrorsNameTheField) {
  EXPECT_EQ(error(R"({"prompt":"x","top_k":"many"})"), "Field 'top_k': expected a whole number, found \"many\"");
  EXPECT_EQ(error(R"({"prompt":"x","top_p":1.5})"), "Field 'top_p': expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(error(R"({"prompt":"x","n":129})"), "Field 'n': expected a whole number from 1 to 128, found 129");
  EXPECT_EQ(error(R"({"prompt":"x","seed":18446744073709551615})"),
            "Field 'seed': expected a number below 2^63, found 18446744073709551615");
  EXPECT_EQ(error("[]"), "expected a JSON object, found array");
  EXPECT_EQ(error("{}"), "'prompt' is required");
  EXPECT_EQ(error("{}", Endpoint::kChatCompletions), "'messages' is required");
}

TEST_F(Completion, APromptBeyondTheContextIsTold) {
  const CompletionRequest request = parse(R"({"prompt":")" + std::string(65, 'x') + R"("})");
  const std::optional<ApiError> found = check_context(request, 64);
  ASSERT_TRUE(found);
  EXPECT_EQ(error_body(*found).dump(),
            R"({"error":{"code":400,"message":"request (65 tokens) exceeds the available context size (64 tokens), )"
            R"(try increasing it","type":"exceed_context_size_error","n_prompt_tokens":65,"n_ctx":64}})");
  EXPECT_FALSE(check_context(request, 65));
}

TEST_F(Completion, ThinkingIsSetApart) {
  defaults_.separate_reasoning = true;
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  const auto message = [&](const std::string& text, const std::string& more) {
    const CompletionRequest request = parse(body + more + "}", Endpoint::kChatCompletions);
    ChoiceRecorder choice(request, *tokenizer_);
    choice.on_finish(text, {});
    const ChoiceRecorder* const choices[] = {&choice};
    return completion_json(request, choices, *tokenizer_, {})["choices"][0]["message"];
  };
  const Json apart = message("<think>so</think>yes", "");
  EXPECT_EQ(apart["content"], "yes");
  EXPECT_EQ(apart["reasoning_content"], "so");
  EXPECT_EQ(message("<think>so</think>yes", R"(,"reasoning_format":"none")")["content"], "<think>so</think>yes");
  EXPECT_FALSE(message("yes", "").contains("reasoning_content"));
}

TEST_F(Completion, ToolCallsAreSetApart) {
  chat_template_ = std::make_unique<ChatTemplate>(ChatTemplate::from_source(
      "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{{ messages[-1].content }}"));
  defaults_.chat_template = chat_template_.get();
  defaults_.dialect = find_dialect("hermes");
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":
    {"name":"f","parameters":{"type":"object"}}}])";
  const std::string text = "See:\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
  const auto answer = [&](const std::string& more, const std::string& written, FinishReason reason) {
    const CompletionRequest request = parse(body + more + "}", Endpoint::kChatCompletions);
    ChoiceRecorder choice(request, *tokenizer_);
    RequestStats stats;
    stats.reason = reason;
    choice.on_finish(written, stats);
    const ChoiceRecorder* const choices[] = {&choice};
    ResponseStamp stamp;
    stamp.id = "chatcmpl-1";
    return completion_json(request, choices, *tokenizer_, stamp)["choices"][0];
  };
  const Json choice = answer("", text, FinishReason::kEndToken);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "See:");
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "f");
  EXPECT_EQ(call["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(call["id"].get<std::string>().substr(0, 5), "call_");
  EXPECT_EQ(answer("", text, FinishReason::kEndToken)["message"]["tool_calls"][0]["id"], call["id"]);
  EXPECT_TRUE(answer("", text.substr(5), FinishReason::kEndToken)["message"]["content"].is_null());
  EXPECT_EQ(answer("", text, FinishReason::kLimit)["finish_reason"], "length");
  // What is no whole call is text.
  const Json broken = answer("", text.substr(0, text.size() - 15), FinishReason::kEndToken);
  EXPECT_EQ(broken["message"]["content"], text.substr(0, text.size() - 15));
  EXPECT_EQ(broken["finish_reason"], "stop");
  const Json none = answer(R"(,"tool_choice":"none")", text, FinishReason::kEndToken);
  EXPECT_EQ(none["message"]["content"], text);
  EXPECT_FALSE(none["message"].contains("tool_calls"));
  // The model sees the tools, or does not.
  const auto prompt = [&](const std::string& more) {
    return tokenizer_->decode(parse(body + more + "}", Endpoint::kChatCompletions).prompts[0].tokens);
  };
  EXPECT_EQ(prompt(""), "f;hi");
  EXPECT_EQ(prompt(R"(,"tool_choice":"none")"), "hi");
}

TEST_F(Completion, FieldsOfToolsAreChecked) {
  using ::testing::HasSubstr;
  defaults_.dialect = find_dialect("hermes");
  const auto fault = [&](const std::string& fields) {
    return error(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}", Endpoint::kChatCompletions);
  };
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(fault(tools), "no error");
  EXPECT_THAT(fault(R"("tools":{})"), HasSubstr("expected a list"));
  EXPECT_THAT(fault(R"("tools":[1])"), HasSubstr("Field 'tools[0]'"));
  EXPECT_THAT(fault(R"("tools":[{"type":"function"}])"), HasSubstr("'function'"));
  EXPECT_THAT(fault(R"("tools":[{"type":"custom"}])"), HasSubstr("only 'function'"));
  EXPECT_THAT(fault(R"("tools":[{"function":{"name":""}}])"), HasSubstr("tools[0].function.name"));
  EXPECT_THAT(fault(R"("tools":[{"function":{"name":"f","parameters":[]}}])"), HasSubstr("expected a JSON schema"));
  EXPECT_THAT(fault(tools + R"(,"tool_choice":"required")"), HasSubstr("cannot be forced"));
  EXPECT_THAT(fault(tools + R"(,"tool_choice":"must")"), HasSubstr("Field 'tool_choice'"));
  EXPECT_THAT(fault(tools + R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"),
              HasSubstr("one of the tools"));
  EXPECT_THAT(fault(tools + R"(,"parallel_tool_calls":1)"), HasSubstr("parallel_tool_calls"));
  defaults_.dialect = nullptr;
  EXPECT_THAT(fault(tools), HasSubstr("--tool-dialect"));
  EXPECT_EQ(fault(tools + R"(,"tool_choice":"none")"), "no error");
}

TEST_F(Completion, LogProbabilitiesFollowTheText) {
  const CompletionRequest request = parse(R"({"prompt":"x","logprobs":1,"stop":"cd"})");
  EXPECT_EQ(engine_request(request, 0, {nullptr}).n_top_logprobs, 1);
  ChoiceRecorder choice(request, *tokenizer_);
  const float never = -std::numeric_limits<float>::infinity();
  for (const char letter : std::string("abcd")) {
    const int32_t id = ids(std::string(1, letter)).at(0);
    const TokenProb top[] = {{1, -0.5f}, {id, letter == 'b' ? never : -1.0f}};
    choice.on_token(id, letter < 'c' ? std::string(1, letter) : "", top);
  }
  RequestStats stats;
  stats.reason = FinishReason::kStopString;
  stats.n_predicted = 4;
  choice.on_finish("", stats);
  const ChoiceRecorder* const choices[] = {&choice};
  const Json body = completion_json(request, choices, *tokenizer_, {});
  EXPECT_EQ(body["choices"][0]["text"], "ab");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  const Json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);  // the stop text's tokens are no part of the answer
  EXPECT_EQ(content[0]["token"], "a");
  EXPECT_EQ(content[0]["bytes"], Json::parse("[97]"));
  EXPECT_EQ(content[0]["logprob"], -1.0f);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 1u);
  EXPECT_EQ(content[1]["logprob"], std::numeric_limits<float>::lowest());  // JSON knows no infinity
}

}  // namespace
}  // namespace loci::server
