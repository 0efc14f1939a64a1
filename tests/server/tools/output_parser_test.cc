// OutputParser: each dialect, whole and in pieces; what is broken stays text.
#include "server/tools/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/server/tools/parser_support.h"

namespace loci::server {
namespace {

using ::testing::HasSubstr;
using Calls = std::vector<std::array<std::string, 2>>;  // name, arguments

struct Expected {
  std::string content;
  Calls calls;
  std::string reasoning;
};

void expect_output(const char* dialect_name, const std::string& text, const Expected& expected,
                   const OutputOptions& given = test_options()) {
  SCOPED_TRACE(std::string(dialect_name) + ": " + text);
  const Dialect* dialect = find_dialect(dialect_name);
  ASSERT_NE(dialect, nullptr);
  for (const bool streams : {false, true}) {
    OutputOptions options = given;
    options.stream_arguments = streams;
    const ParsedOutput output = parse_all_ways(dialect, options, text);
    EXPECT_EQ(output.content, expected.content);
    EXPECT_EQ(output.reasoning, expected.reasoning);
    Calls calls;
    for (const ParsedCall& call : output.calls) calls.push_back({call.name, call.arguments});
    EXPECT_EQ(calls, expected.calls);
  }
}

// As above where calls break: stream_arguments would show a part of them.
void expect_text(const char* dialect_name, const std::string& text, const std::string& content,
                 const Calls& expected_calls = {}) {
  SCOPED_TRACE(std::string(dialect_name) + ": " + text);
  const ParsedOutput output = parse_all_ways(find_dialect(dialect_name), test_options(), text);
  EXPECT_EQ(output.content, content);
  Calls calls;
  for (const ParsedCall& call : output.calls) calls.push_back({call.name, call.arguments});
  EXPECT_EQ(calls, expected_calls);
  OutputOptions streaming = test_options();
  streaming.stream_arguments = true;
  (void)parse_all_ways(find_dialect(dialect_name), streaming, text);
}

TEST(OutputParser, Hermes) {
  expect_output("hermes",
                "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Paris\"}}\n</tool_call>",
                {"", {{"get_weather", R"({"location": "Paris"})"}}, ""});
  expect_output("hermes",
                "Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":{\"b\":[1,{\"c\":\"}\\\"]\"}]}}}"
                "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n",
                {"Let me see.", {{"f", R"({"a":{"b":[1,{"c":"}\"]"}]}})"}, {"g", "{}"}}, ""});
  expect_output("hermes", "<tool_call>{\"arguments\": {\"x\": 1}, \"name\": \"f\"}</tool_call> Done.",
                {" Done.", {{"f", R"({"x": 1})"}}, ""});
  expect_output("hermes", "<tool_call>[{\"name\":\"f\",\"arguments\":{}}, {\"name\":\"g\"}]</tool_call>",
                {"", {{"f", "{}"}, {"g", "{}"}}, ""});
  expect_output("hermes", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}</tool_call>",
                {"", {{"f", R"({"x": 1})"}}, ""});
  expect_output("hermes",
                "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}</tool_call>",
                {"", {{"f", R"({"x":1})"}}, ""});
  expect_output("hermes", "<tool_call>{\"name\":\"写\",\"arguments\":{\"ключ\":\"żółw 🐢\"}}</tool_call>",
                {"", {{"写", R"({"ключ":"żółw 🐢"})"}}, ""});
}

TEST(OutputParser, FaultsOfJsonThatAreCommonAreMended) {
  expect_output("hermes",
                "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\tz\",\"b\":True,\"c\":\"\\d\"}}</tool_call>",
                {"", {{"f", R"({"a":"x\ny\tz","b":true,"c":"\\d"})"}}, ""});
  expect_output("hermes", R"(<tool_call>{"name":"f","arguments":{"a":"\ud83d\ude00 \ud83d \ude00"}}</tool_call>)",
                {"", {{"f", R"({"a":"\ud83d\ude00 \ufffd \ufffd"})"}}, ""});
}

TEST(OutputParser, QwenCoder) {
  const std::string call =
      "<tool_call>\n<function=calculate>\n<parameter=expression>\n2+3\n</parameter>\n<parameter=precision>\n0\n"
      "</parameter>\n<parameter=flags>\n[\"a\", 'b']\n</parameter>\n<parameter=verbose>\nTrue\n</parameter>\n"
      "</function>\n</tool_call>";
  const std::string arguments = R"({"expression": "2+3", "precision": 0, "flags": ["a","b"], "verbose": true})";
  expect_output("qwen3-coder", "So:\n" + call, {"So:", {{"calculate", arguments}}, ""});
  expect_output("qwen3-coder", call + "\n" + call, {"", {{"calculate", arguments}, {"calculate", arguments}}, ""});
  // Without the outer tag, as some quantized models write.
  expect_output("qwen3-coder",
                "<function=f>\n<parameter=text>\n\n  a < b </para\n\n</parameter>\n</function>\n</tool_call>",
                {"", {{"f", R"({"text": "\n  a < b </para\n"})"}}, ""});
  expect_output("qwen3-coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>", {"", {{"f", "{}"}}, ""});
  expect_output("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</tool_call>",
                {"", {{"f", R"({"a": 1})"}}, ""});
  expect_output("qwen3-coder", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", {"", {{"f", "{}"}}, ""});
  // A text stays a text, whatever it spells.
  expect_output("qwen3-coder",
                "<tool_call><function=get_weather><parameter=location>42</parameter></function></tool_call>",
                {"", {{"get_weather", R"({"location": "42"})"}}, ""});
}

TEST(OutputParser, Llama3) {
  expect_output("llama3", R"({"name": "get_weather", "parameters": {"location": "Paris"}})",
                {"", {{"get_weather", R"({"location": "Paris"})"}}, ""});
  expect_output("llama3", R"(<|python_tag|>{"name": "anything", "parameters": {}})", {"", {{"anything", "{}"}}, ""});
  expect_output("llama3",
                R"({"type": "function", "name": "get_weather", "parameters": {}}; )"
                R"({"name": "calculate", "parameters": {"expression": "1"}})",
                {"", {{"get_weather", "{}"}, {"calculate", R"({"expression": "1"})"}}, ""});
  expect_output("llama3", "<|python_tag|>brave_search.call(query=\"it's \\\"x\\\"\", n=3)",
                {"", {{"brave_search", R"({"query":"it's \"x\"","n":3})"}}, ""});
  // Without a marker, only tools that there are.
  expect_output("llama3", R"({"name": "Alice", "parameters": {"age": 3}})",
                {R"({"name": "Alice", "parameters": {"age": 3}})", {}, ""});
  expect_output("llama3", R"({"city": "Paris"})", {R"({"city": "Paris"})", {}, ""});
  expect_output("llama3", R"(Look: {"name": "get_weather", "parameters": {}})",
                {R"(Look: {"name": "get_weather", "parameters": {}})", {}, ""});
  expect_text("llama3", "<|python_tag|>print(1)", "<|python_tag|>print(1)");
}

TEST(OutputParser, Mistral) {
  const Dialect* mistral = find_dialect("mistral");
  const ParsedOutput list = parse_all_ways(
      mistral, test_options(),
      R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "aB3456789"}, {"name": "g", "arguments": {}}])");
  ASSERT_EQ(list.calls.size(), 2u);
  EXPECT_EQ(list.calls[0], (ParsedCall{"aB3456789", "f", R"({"a": 1})"}));
  EXPECT_EQ(list.calls[1].name, "g");
  EXPECT_EQ(list.calls[1].id.size(), 9u);
  EXPECT_EQ(list.calls[1].id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            std::string::npos);
  expect_output("mistral", R"(Hm. [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]call00002[ARGS]{"b": {}})",
                {"Hm.", {{"f", R"({"a": 1})"}, {"g", R"({"b": {}})"}}, ""});
  const ParsedOutput named = parse_all_ways(mistral, test_options(), "[TOOL_CALLS]g[CALL_ID]call00002[ARGS]{}");
  ASSERT_EQ(named.calls.size(), 1u);
  EXPECT_EQ(named.calls[0].id, "call00002");
  expect_output("mistral", "[THINK]why[/THINK][TOOL_CALLS]f[ARGS]{}", {"", {{"f", "{}"}}, "why"});
}

TEST(OutputParser, DeepSeek) {
  const std::string end = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  expect_output("deepseek",
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```" + end,
                {"", {{"f", R"({"a": 1})"}}, ""});
  expect_output("deepseek",
                "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
                "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}" +
                    end,
                {"Hm.", {{"f", R"({"a": 1})"}, {"g", "{}"}}, ""});
  expect_output(
      "deepseek-v3.2",
      "Hm.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">1"
      "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">[1, 2]</｜DSML｜parameter>\n"
      "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
      {"Hm.", {{"f", R"({"a": "1", "b": [1, 2]})"}, {"g", "{}"}}, ""});
}

TEST(OutputParser, Glm) {
  expect_output("glm",
                "<think>t</think>\nHm.\n<tool_call>calculate\n<arg_key>expression</arg_key>\n<arg_value>2</arg_value>\n"
                "<arg_key>precision</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>g</tool_call>",
                {"Hm.", {{"calculate", R"({"expression": "2", "precision": 2})"}, {"g", "{}"}}, "t"});
}

TEST(OutputParser, GptOss) {
  expect_output("gpt-oss",
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi <b>.",
                {"Hi <b>.", {}, "Hm."});
  expect_output("gpt-oss",
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
                "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
                {"", {{"f", R"({"a": 1})"}}, "Hm."});
  expect_output("gpt-oss", " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}",
                {"", {{"f", R"({"a": 1})"}}, ""});
  expect_output("gpt-oss",
                "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>"
                "commentary<|message|>{}<|call|>",
                {"I look.", {{"f", "{}"}}, ""});
  expect_output("gpt-oss", "Plain.", {"Plain.", {}, ""});
  expect_text("gpt-oss", "<|channel|>commentary to=functions.f<|message|>{oops",
              "<|channel|>commentary to=functions.f<|message|>{oops");
}

TEST(OutputParser, OtherDialects) {
  expect_output("kimi-k2",
                "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
                "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                "<|tool_calls_section_end|>",
                {"Hm.", {{"f", R"({"a": 1})"}, {"g", "{}"}}, ""});
  const ParsedOutput kimi =
      parse_all_ways(find_dialect("kimi-k2"), test_options(),
                     "<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}<|tool_call_end|>");
  ASSERT_EQ(kimi.calls.size(), 1u);
  EXPECT_EQ(kimi.calls[0].id, "functions.f:7");
  expect_output("minimax-m2",
                "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">[\"x\"]</parameter>\n</invoke>\n"
                "<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
                {"", {{"f", R"({"a": ["x"]})"}, {"g", "{}"}}, ""});
  expect_output(
      "minicpm",
      "<function name=\"f\"><param name=\"a\"><![CDATA[<b>\n</param>]]></param><param name=\"b\">1</param></function>",
      {"", {{"f", R"({"a": "<b>\n</param>", "b": 1})"}}, ""});
  expect_output("gemma4", "<|tool_call>call:f{a:<|\"|>x, {y}<tool_call|><|\"|>,b:[1,true],c:{d:null}}<tool_call|>",
                {"", {{"f", R"({"a":"x, {y}<tool_call|>","b":[1,true],"c":{"d":null}})"}}, ""});
  expect_output("functiongemma", "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>",
                {"", {{"f", R"({"a":"x"})"}}, ""});
  expect_output("gemma4", "<|channel>thought\nHm.<channel|>Yes.", {"Yes.", {}, "Hm."});
  expect_output("lfm2", "<|tool_call_start|>[f(a='x]', b=[1, 2.5]), g()]<|tool_call_end|>Wait.",
                {"Wait.", {{"f", R"({"a":"x]","b":[1,2.5]})"}, {"g", "{}"}}, ""});
  expect_output("apertus", R"(<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>)",
                {"", {{"f", R"({"a": 1})"}, {"g", "{}"}}, ""});
  expect_output("cohere",
                "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
                "\"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
                {"", {{"f", R"({"a": 1})"}}, "Hm."});
  expect_output("cohere", "<|START_TEXT|>Hi.<|END_TEXT|>", {"Hi.", {}, ""});
  expect_output("firefunction", R"(Hm. functools[{"name": "f", "arguments": {}}])", {"Hm.", {{"f", "{}"}}, ""});
  expect_output("functionary-v3.1", R"(<function=f>{"a": 1}</function><function=g>{}</function>)",
                {"", {{"f", R"({"a": 1})"}, {"g", "{}"}}, ""});
  expect_output("functionary-v3.2", "all\nHi >>> there.>>>get_weather\n{\"location\": \"Paris\"}",
                {"Hi >>> there.", {{"get_weather", R"({"location": "Paris"})"}}, ""});
  expect_output(
      "kimi-k3",
      "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|>"
      "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"string\""
      "<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
      {"Hi.", {{"f", R"({"a": "1"})"}}, "Hm."});
  expect_output("muse", " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hi.<|eot|>",
                {"Hi.", {}, "Hm."});
}

TEST(OutputParser, WhatIsNoCallIsText) {
  for (const char* text :
       {"<tool_call>", "<tool_call>\n{\"name\": \"f\", \"argum", "<tool_call>{\"name\": 5}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "<tool_call>not json</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 01}}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", "<tool_call>[]</tool_call>", "a <tool_cal",
        "<tool_call><function=f><parameter=a>1", "</tool_call>", "<tool_call>{}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"no object\"}</tool_call>"}) {
    expect_text("hermes", text, text);
  }
  expect_text("hermes", "<tool_call>{oops}</tool_call> <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
              "<tool_call>{oops}</tool_call>", {{"f", "{}"}});
  expect_text("hermes", "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "<tool_call>",
              {{"f", "{}"}});
  expect_text("mistral", "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}, {\"na", ", {\"na", {{"f", "{}"}});
  expect_text("qwen3-coder", "<function=f>\n<parameter=a>\n1\n</parameter>\nbut no end",
              "<function=f>\n<parameter=a>\n1\n</parameter>\nbut no end");
}

TEST(OutputParser, WithoutToolsACallIsText) {
  OutputOptions options = test_options();
  options.tools = ToolSet();
  const std::string text = " <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> ";
  expect_output("hermes", text, {text, {}, ""}, options);
  expect_output("functionary-v3.2", "all\nHi.", {"Hi.", {}, ""}, options);
}

TEST(OutputParser, ThinkingMayStayInTheContent) {
  OutputOptions options = test_options();
  options.split_reasoning = false;
  expect_output("hermes", "<think>a <tool_call>{}</think>\n\nb", {"<think>a <tool_call>{}</think>\n\nb", {}, ""},
                options);
  options.opened_reasoning = "<think>";
  expect_output("hermes", "plan</think>42", {"<think>plan</think>42", {}, ""}, options);
  options.split_reasoning = true;
  expect_output("hermes", "plan</think>42", {"42", {}, "plan"}, options);
}

TEST(OutputParser, ArgumentsStreamAsTheyAreWritten) {
  OutputOptions options = test_options();
  options.stream_arguments = true;
  OutputParser parser(find_dialect("hermes"), options);
  EXPECT_TRUE(parser.feed("<tool_call>{\"name\": \"f\", \"argu").empty());
  std::vector<OutputDelta> deltas = parser.feed("ments\": {\"a\": \"long");
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_EQ(deltas[0].name, "f");
  EXPECT_THAT(deltas[0].id, ::testing::StartsWith("call_"));
  EXPECT_EQ(deltas[1].text, "{\"a\": \"long");
  EXPECT_EQ(deltas[1].name + deltas[1].id, "");
  deltas = parser.feed("er\"}");
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, "er\"}");
  EXPECT_EQ(parser.n_calls(), 0);
  EXPECT_TRUE(parser.feed("}</tool_call>").empty());
  EXPECT_EQ(parser.n_calls(), 1);
  EXPECT_FALSE(parser.has_broken());

  OutputParser values(find_dialect("qwen3-coder"), options);
  deltas = values.feed("<tool_call><function=get_weather><parameter=location>New");
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_EQ(deltas[1].text, "{\"location\": \"New");
}

TEST(OutputParser, AStreamedCallThatBreaksOffEndsThere) {
  OutputOptions options = test_options();
  options.stream_arguments = true;
  const ParsedOutput output =
      parse_all_ways(find_dialect("hermes"), options, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ]}}");
  ASSERT_EQ(output.calls.size(), 1u);
  EXPECT_EQ(output.calls[0].arguments, "{\"a\": ");
  EXPECT_EQ(output.content, "]}}");
  OutputParser parser(find_dialect("hermes"), options);
  (void)parser.feed("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"");
  (void)parser.finish();
  EXPECT_TRUE(parser.has_broken());
  EXPECT_EQ(parser.n_calls(), 0);
}

TEST(OutputParser, OneCallWhereOneIsWanted) {
  OutputOptions options = test_options();
  options.parallel_calls = false;
  expect_output("hermes", "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call> more",
                {"", {{"f", "{}"}}, ""}, options);
  expect_output("mistral", R"([TOOL_CALLS][{"name":"f","arguments":{}},{"name":"g","arguments":{}}])",
                {"", {{"f", "{}"}}, ""}, options);
}

TEST(OutputParser, TextIsHeldBackOnlyWhileItMayBecomeAMarker) {
  OutputParser parser(find_dialect("hermes"), test_options());
  const auto text = [](const std::vector<OutputDelta>& deltas) {
    std::string all;
    for (const OutputDelta& delta : deltas) all += delta.text;
    return all;
  };
  EXPECT_EQ(text(parser.feed("a <tool")), "a");
  EXPECT_EQ(text(parser.feed("box> ")), " <toolbox>");
  EXPECT_EQ(text(parser.feed("b \xE2\x82")), " b");
  EXPECT_EQ(text(parser.feed("\xAC.")), " \xE2\x82\xAC.");
  EXPECT_EQ(text(parser.feed(" <")), "");
  EXPECT_EQ(text(parser.finish()), " <");
}

TEST(OutputParser, BytesThatAreNoTextAreReplaced) {
  const ParsedOutput output = parse_all_ways(find_dialect("hermes"), test_options(), "a\xFF\xC3(\xE2\x82 b\xF0\x9F");
  EXPECT_EQ(output.content, "a\uFFFD\uFFFD(\uFFFD b\uFFFD");
}

TEST(OutputParser, IdsAreStableAndDiffer) {
  const std::string text = "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
  const ParsedOutput first = parse_cut(find_dialect("hermes"), test_options(), text, {});
  OutputOptions other = test_options();
  other.id_seed = "other";
  const ParsedOutput second = parse_cut(find_dialect("hermes"), other, text, {});
  ASSERT_EQ(first.calls.size(), 2u);
  EXPECT_NE(first.calls[0].id, first.calls[1].id);
  EXPECT_NE(first.calls[0].id, second.calls[0].id);
  EXPECT_EQ(first.calls[0].id, parse_cut(find_dialect("hermes"), test_options(), text, {}).calls[0].id);
}

// Any mutation of well-formed calls: nothing throws, every way of cutting gives the same, finished calls hold JSON.
TEST(OutputParser, MutatedCalls) {
  const std::vector<std::pair<const char*, std::string>> seeds{
      {"hermes", "Hm. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x\\n\"]}}\n</tool_call>"},
      {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
      {"mistral",
       "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}, \"id\": \"123456789\"}]"},
      {"deepseek",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"glm", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
      {"gpt-oss",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.f<|channel|>c<|message|>{}<|call|>"},
      {"lfm2", "<|tool_call_start|>[f(a='x', b=[1])]<|tool_call_end|>"},
      {"gemma4", "<|tool_call>call:f{a:<|\"|>x<|\"|>,b:[1]}<tool_call|>"},
      {"functionary-v3.2", "all\nHi.>>>get_weather\n{\"location\": \"P\"}"},
      {"llama3", "{\"name\": \"get_weather\", \"parameters\": {\"location\": \"P\"}}"}};
  std::mt19937 random(3);
  const std::vector<std::string> scraps{"\"", "{", "}",  "[",   "]", "<", ">",    "\n",
                                        ":",  ",", "\\", "\\u", "1", "'", "\xC3", "é"};
  for (int round = 0; round < 400; ++round) {
    const auto& [name, seed] = seeds[random() % seeds.size()];
    std::string text = seed;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 4);
          break;
        case 1:
          text.insert(at, scraps[random() % scraps.size()]);
          break;
        default:
          text.insert(at, seed.substr(random() % seed.size(), random() % 30));
          break;
      }
      if (text.empty()) text = "x";
    }
    for (const bool streams : {false, true}) {
      OutputOptions options = test_options();
      options.stream_arguments = streams;
      const ParsedOutput output = parse_all_ways(find_dialect(name), options, text);
      if (streams) continue;
      for (const ParsedCall& call : output.calls) {
        EXPECT_TRUE(nlohmann::ordered_json::parse(call.arguments, nullptr, false).is_object()) << text;
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace loci::server
