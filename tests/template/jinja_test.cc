// The template engine against texts that Python's Jinja2 made: tests/data/template/cases.json (our own; written by
// scripts/make_template_cases.py) and, where present, the reference data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/template/template_support.h"

namespace loci {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& source, const Json& variables = Json::object()) {
  try {
    return "no error, but: " + render(source, variables).substr(0, 200);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Jinja, OwnCasesMatchPython) {
  const Json cases = read_json(LOCI_TEST_DATA "/template/cases.json");
  ASSERT_GT(cases.size(), 200u);
  for (const Json& c : cases) {
    const std::string source = c["template"];
    const Json variables = c.contains("variables") ? c["variables"] : Json::object();
    if (c.contains("expected")) {
      try {
        EXPECT_EQ(render(source, variables), c["expected"].get<std::string>()) << source;
      } catch (const Error& error) {
        ADD_FAILURE() << source << "\n  " << error.what();
      }
    } else {
      EXPECT_THAT(error_of(source, variables), HasSubstr("chat template line ")) << source << "\n  " << c["error"];
    }
  }
}

TEST(Jinja, SharedCasesMatch) {
  const auto path = shared_dir() / "cases/gen/templates.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const Json data = read_json(path);
  for (const Json& c : data["templates"]) {
    const std::string source = c["template"];
    if (c.contains("expected")) {
      EXPECT_EQ(render(source, data["context"]), c["expected"].get<std::string>()) << c["name"];
    } else {
      EXPECT_THAT(error_of(source, data["context"]), HasSubstr(c["expected_error"].get<std::string>())) << c["name"];
    }
  }
}

// Every published template with every conversation: the same text, also in pieces; errors as errors.
TEST(Jinja, ReferenceTemplatesMatch) {
  const auto folder = shared_dir() / "reference/templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  int n_cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json data = read_json(entry.path());
    const jinja::Template parsed = jinja::Template::parse(data["template"]);
    for (const Json& c : data["cases"]) {
      SCOPED_TRACE(entry.path().filename().string() + " " + c["id"].get<std::string>());
      ++n_cases;
      const Json& expected = c["expected"];
      try {
        const jinja::Text text = parsed.render(to_variables(c["variables"]), data["now"]);
        ASSERT_TRUE(expected.contains("output")) << "expected " << expected;
        EXPECT_EQ(text.bytes(), expected["output"].get<std::string>());
        std::string joined;
        text.for_each_run([&](std::string_view run, jinja::Origin) { joined += run; });
        EXPECT_EQ(joined, text.bytes());
      } catch (const Error& error) {
        ASSERT_TRUE(expected.contains("error")) << error.what();
        if (expected["error"] == "raise_exception") {
          EXPECT_THAT(error.what(), HasSubstr(expected["message"].get<std::string>()));
        }
      }
    }
  }
  EXPECT_GT(n_cases, 1000);
}

TEST(Jinja, ErrorsNameLineAndCause) {
  EXPECT_EQ(error_of("a\n\n{{ 'x' + 1 }}"), "chat template line 3: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(error_of("{{ raise_exception('roles must alternate') }}"), "chat template line 1: roles must alternate");
  EXPECT_EQ(error_of("\n{% macro m(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ m({}) }}"),
            "chat template line 3: 'dict object' has no attribute 'y'");
  EXPECT_EQ(error_of("{{ foo.bar }}"), "chat template line 1: 'foo' is undefined");
  EXPECT_EQ(error_of("{% for x in y %}\n{% if true %}"),
            "chat template line 2: the tag 'if' of line 2 is never closed");
  EXPECT_EQ(error_of("\n{% foo %}"), "chat template line 2: unknown tag 'foo'");
  EXPECT_THAT(error_of("{% include 'x' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(error_of("{{ 'a' | nope }}"), HasSubstr("No filter named 'nope' found."));
  EXPECT_THAT(error_of("{{ 99999999999999999999 }}"), HasSubstr("expected an integer below 2^63"));
  EXPECT_THAT(error_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(error_of("{{ 10 ** 100 }}"), HasSubstr("too large"));
}

TEST(Jinja, TheClockIsUsedWhenNoTimeIsGiven) {
  const std::string year = jinja::Template::parse("{{ strftime_now('%Y') }}").render({}, "").bytes();
  EXPECT_EQ(year.size(), 4u);
  EXPECT_GE(std::stoi(year), 2024);
  EXPECT_THROW(jinja::Template::parse("{{ strftime_now('%Y') }}").render({}, "yesterday"), Error);
}

TEST(Jinja, ParsedTemplateCanBeRenderedAgain) {
  const jinja::Template parsed =
      jinja::Template::parse("{% set ns = namespace(n=x) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed.render({{"x", jinja::Value::integer(i)}}).bytes(), std::to_string(i + 1));
  }
}

}  // namespace
}  // namespace loci
