// Calls as the reference templates print them come back as the calls that went in: dialects are recognized from the
// template, and read what models were trained to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/error.h"
#include "tests/server/tools/parser_support.h"
#include "tests/template/template_support.h"

namespace loci::server {
namespace {

using Json = nlohmann::ordered_json;

// What ends an assistant's turn: the model's end token, or what the template adds behind it.
constexpr std::string_view kEnds[] = {"<|im_end|>",
                                      "<|eot_id|>",
                                      "<|eom_id|>",
                                      "</s>",
                                      "<｜end▁of▁sentence｜>",
                                      "<|message_sep|>",
                                      "<seed:eos>",
                                      "<|END_OF_TURN_TOKEN|>",
                                      "<|observation|>",
                                      "<end_of_sentence>",
                                      "[e~[",
                                      "<SPECIAL_12>",
                                      "<|role_end|>",
                                      "</assistant>",
                                      "<turn|>",
                                      "<|tool_response>",
                                      "<｜hy_eos:opensource｜>",
                                      "\n<|end|>"};

std::string rendered(const ChatTemplate& chat_template, Json variables, size_t n_messages, bool asks,
                     const std::string& now) {
  Json messages = variables["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n_messages), messages.end());
  variables["messages"] = messages;
  variables["add_generation_prompt"] = asks;
  return join(chat_template.render(loci::to_variables(variables), now));
}

// What the model wrote of `whole` behind a prompt that ends with `prompt`.
std::string written(std::string prompt, const std::string& whole) {
  // Prompts that open thinking are followed by turns without any.
  while (!prompt.empty() && whole.compare(0, prompt.size(), prompt) != 0) prompt.pop_back();
  const size_t marker = prompt.rfind('<');
  if (marker != std::string::npos && prompt.find('>', marker) == std::string::npos) prompt.resize(marker);
  std::string text = whole.substr(prompt.size());
  // A prompt may hold the tools in its last message alone, so that it is no beginning of what follows.
  constexpr std::string_view kAsked = "[/INST]";
  if (const size_t at = text.find(kAsked); at != std::string::npos) text.erase(0, at + kAsked.size());
  for (const std::string_view end : kEnds) text.resize(std::min(text.size(), text.find(end)));
  return text;
}

TEST(GoldenCalls, OfAllReferenceTemplates) {
  const auto folder = shared_dir() / "reference/templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  std::map<std::string, int> seen;  // by dialect
  int n_seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json data = read_json(entry.path());
    const ChatTemplate chat_template = ChatTemplate::from_source(data["template"]);
    const Dialect* dialect = dialect_of(chat_template);
    for (const Json& c : data["cases"]) {
      const Json& messages = c["variables"]["messages"];
      const auto with_calls = std::find_if(messages.begin(), messages.end(), [](const Json& m) {
        return m.contains("tool_calls") && !m["tool_calls"].is_null();
      });
      if (with_calls == messages.end() || !c["expected"].contains("output")) continue;
      const auto n_before = static_cast<size_t>(with_calls - messages.begin());
      std::string prompt, whole;
      try {
        prompt = rendered(chat_template, c["variables"], n_before, true, data["now"]);
        whole = rendered(chat_template, c["variables"], n_before + 1, false, data["now"]);
      } catch (const Error&) {
        continue;  // templates that want the answer of a tool behind its call
      }
      const std::string text = written(prompt, whole);
      const std::string first_name = (*with_calls)["tool_calls"][0]["function"]["name"];
      if (text.find(first_name) == std::string::npos) continue;      // the template prints no calls
      if (text.find("<|open|>json") != std::string::npos) continue;  // arguments that are no object
      SCOPED_TRACE(entry.path().filename().string() + " " + c["id"].get<std::string>() + ": " + text);
      ASSERT_NE(dialect, nullptr);
      OutputOptions options;
      options.tools = ToolSet(c["variables"]["tools"]);
      const std::string_view opened = opened_reasoning(prompt);
      if (!opened.empty() && trimmed(text).find(closing_marker(opened)) == 0) options.opened_reasoning = opened;
      const ParsedOutput output = parse_all_ways(dialect, options, text);
      options.stream_arguments = true;
      const ParsedOutput streamed = parse_all_ways(dialect, options, text);
      const Json& calls = (*with_calls)["tool_calls"];
      // Some templates print the first call alone, others none of the arguments that are no object.
      const bool prints_all = text.find(calls.back()["function"]["name"].get<std::string>()) != std::string::npos;
      const size_t n_calls = prints_all ? calls.size() : 1;
      ASSERT_EQ(output.calls.size(), n_calls);
      ASSERT_EQ(streamed.calls.size(), n_calls);
      for (size_t i = 0; i < n_calls; ++i) {
        const Json& function = calls[i]["function"];
        EXPECT_EQ(output.calls[i].name, function["name"]);
        const Json& given = function["arguments"];
        const Json expected = given.is_string() ? Json::parse(given.get<std::string>()) : given;
        const nlohmann::json unordered = expected;
        EXPECT_EQ(nlohmann::json::parse(output.calls[i].arguments), unordered);
        EXPECT_EQ(nlohmann::json::parse(streamed.calls[i].arguments), unordered);
      }
      const std::string content = (*with_calls)["content"].is_string() ? (*with_calls)["content"] : "";
      EXPECT_TRUE(output.content.empty() || trimmed(output.content) == content) << output.content;
      EXPECT_EQ(streamed.content, output.content);
      // gpt-oss prints what stands before a call as thinking.
      EXPECT_TRUE(output.reasoning.empty() || output.reasoning == content) << output.reasoning;
      ++seen[std::string(dialect->name)];
      ++n_seen;
    }
  }
  EXPECT_GE(n_seen, 90);
  EXPECT_GE(seen.size(), 20u);
  for (const auto& [name, n] : seen) std::cout << name << ": " << n << "\n";
}

}  // namespace
}  // namespace loci::server
