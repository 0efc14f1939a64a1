// Templates that mean harm: bounded in time, memory and stack, always an Error, never a crash or a leak.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "engine/text/jinja/template.h"
#include "kernels/error.h"
#include "tests/template/template_support.h"

namespace loci {
namespace {

using ::testing::HasSubstr;

std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// The error of a template, "" when it renders. Fails when it takes long.
std::string outcome(const std::string& source) {
  const std::clock_t begin = std::clock();
  std::string message;
  try {
    (void)jinja::Template::parse(source).render({}, kNow);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 60) << source.substr(0, 200);
  return message;
}

TEST(Hostile, LoopsEnd) {
  EXPECT_THAT(outcome("{% for a in range(100000) %}{% for b in range(100000) %}{{ a * b }}{% endfor %}{% endfor %}"),
              HasSubstr("line 1"));
  EXPECT_THAT(outcome("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
              HasSubstr("line 1"));
  EXPECT_THAT(outcome("{{ range(1000000000) }}"), HasSubstr("Range too big"));
  EXPECT_THAT(outcome("{{ range(-9223372036854775807, 9223372036854775807) }}"), HasSubstr("Range too big"));
  EXPECT_EQ(outcome("{{ range(9223372036854775806, 9223372036854775807, 2) | list }}"), "");
  EXPECT_THAT(outcome("{% set l = range(100000) | list %}{% for a in l %}{% if l == l %}{% endif %}{% endfor %}"),
              HasSubstr("steps"));
}

TEST(Hostile, RecursionEnds) {
  EXPECT_THAT(outcome("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"), HasSubstr("nested more than"));
  EXPECT_THAT(outcome("{% macro f() %}{% for x in [1] %}{% if true %}{% with a = f() %}{% endwith %}{% endif %}"
                      "{% endfor %}{% endmacro %}{{ f() }}"),
              HasSubstr("nested more than"));
  EXPECT_THAT(outcome("{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}{% endmacro %}{{ f() }}"),
              HasSubstr("nested more than"));
  EXPECT_THAT(outcome("{% macro f(a=f()) %}{% endmacro %}{{ f() }}"), HasSubstr("nested more than"));
  EXPECT_THAT(outcome("{% set ns = namespace() %}{% macro f() %}{{ ns.g() }}{% endmacro %}{% set ns.g = f %}{{ f() }}"),
              HasSubstr("nested more than"));
  EXPECT_THAT(outcome("{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}"), HasSubstr("nested more than"));
  EXPECT_THAT(
      outcome("{% macro f(x) %}{{ [x] | map('upper') | map('string') | join(f(x)) }}{% endmacro %}{{ f('a') }}"),
      HasSubstr("nested more than"));
}

TEST(Hostile, NestingInTheSourceIsBounded) {
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                                                    {"[", "]"},
                                                                                    {"{1:", "}"},
                                                                                    {"-", ""},
                                                                                    {"not ", ""},
                                                                                    {"x if ", " else 1"},
                                                                                    {"f(", ")"},
                                                                                    {"x[", "]"},
                                                                                    {"1 + (", ")"},
                                                                                    {"1 if x else ", ""}}) {
    EXPECT_THAT(outcome("{{ " + repeat(open, 100000) + "1" + repeat(close, 100000) + " }}"), HasSubstr("line 1"));
  }
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"{% if 1 %}", "{% endif %}"},
                                                        {"{% for x in [1] %}", "{% endfor %}"},
                                                        {"{% with %}", "{% endwith %}"},
                                                        {"{% macro m() %}", "{% endmacro %}"},
                                                        {"{% filter upper %}", "{% endfilter %}"},
                                                        {"{% set x %}", "{% endset %}"},
                                                        {"{% generation %}", "{% endgeneration %}"}}) {
    EXPECT_THAT(outcome(repeat(open, 20000) + repeat(close, 20000)), HasSubstr("nested more than"));
  }
  for (const char* chain : {" + 1", " ~ 1", ".a", "[0]", " | upper", " and 1", " is odd", "()", " < 1"}) {
    outcome("{{ 1" + repeat(chain, 100000) + " }}");  // an error or a text, but an end
  }
  outcome("{% if 1 %}" + repeat("{% elif 0 %}", 50000) + "{% endif %}");
  outcome("{% if 0 %}" + repeat("{% elif 0 %}", 50000) + "{% endif %}");
  EXPECT_THAT(outcome("{% set " + repeat("(", 100000) + "a" + repeat(")", 100000) + " = 1 %}"), HasSubstr("line 1"));
}

TEST(Hostile, TextIsBounded) {
  EXPECT_THAT(outcome("{{ 'x' * 10000000000 }}"), HasSubstr("line 1"));
  EXPECT_THAT(outcome("{{ 'xx' * 9223372036854775807 }}"), HasSubstr("line 1"));
  EXPECT_THAT(outcome("{{ [1] * 10000000000 }}"), HasSubstr("line 1"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
      HasSubstr("MiB"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      HasSubstr("MiB"));
  EXPECT_THAT(outcome("{% set x = 'a' * 1000000 %}{{ x.replace('a', x) }}"), HasSubstr("MiB"));
  EXPECT_THAT(outcome("{% set x = 'a' * 1000000 %}{{ x.join(x) }}"), HasSubstr("line 1"));
  EXPECT_THAT(outcome("{% set x = 'a' * 10000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"), HasSubstr("MiB"));
  EXPECT_THAT(outcome("{{ 'x'.center(9223372036854775807) }}"), HasSubstr("MiB"));
  EXPECT_THAT(outcome("{{ 'x'.zfill(9223372036854775807) }}"), HasSubstr("MiB"));
  EXPECT_THAT(outcome("{{ '%999999999999d' % 1 }}"), HasSubstr("width"));
  EXPECT_THAT(outcome("{{ '{:999999999999}'.format(1) }}"), HasSubstr("width"));
  EXPECT_THAT(outcome("{{ '%.999999999f' % 1.5 }}"), HasSubstr("precision"));
  EXPECT_THAT(outcome("{{ 'a' | indent(999999999) }}"), HasSubstr("indent"));
  EXPECT_THAT(outcome("{{ [1] | batch(99999999, 'x') | list }}"), HasSubstr("batch"));
  EXPECT_THAT(outcome("{{ '\t' .expandtabs(9223372036854775807) | length }}"), ::testing::AnyOf("", HasSubstr("MiB")));
  outcome("{% set x = 'a' * 10000000 %}{{ x.find('a' * 5000000 + 'b') }}");
  outcome("{% set x = 'a' * 10000000 %}{{ x.rfind('b' + 'a' * 5000000) }}");
  outcome("{% set x = 'a' * 10000000 %}{{ x.count('a' * 5000000 + 'b') }}{{ 'b' + x in x + x }}");
  outcome("{% set x = 'a' * 10000000 %}{{ x.rsplit('b' + 'a' * 5000000) | length }}");
}

TEST(Hostile, SharedListsDoNotExplode) {
  // 2^n entries when written out, n lists in memory.
  const std::string doubled =
      "{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  EXPECT_THAT(outcome(doubled), HasSubstr("too large"));
  EXPECT_THAT(outcome("{% set ns = namespace(x=[1]) %}{% for i in range(18) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
                      "{% for i in range(100000) %}{% if ns.x == [] or ns.x in [ns.x] %}{% endif %}{{ ns.x | tojson }}"
                      "{% endfor %}"),
              HasSubstr("line 1"));
  EXPECT_THAT(outcome("{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
              HasSubstr("levels deep"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x={}) %}{% for i in range(1000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}"),
      HasSubstr("levels deep"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = cycler(ns.x) %}{% endfor %}"),
      HasSubstr("levels deep"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = joiner(ns.x) %}{% endfor %}"),
      HasSubstr("levels deep"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% for y in [ns.x] %}{% set ns.x = loop %}"
              "{% endfor %}{% endfor %}"),
      HasSubstr("levels deep"));
  EXPECT_THAT(
      outcome("{% set ns = namespace(x='') %}{% for i in range(1000) %}{% set ns.x = [ns.x].index %}{% endfor %}"),
      HasSubstr("levels deep"));
}

// Cycles go through namespaces alone; they are taken apart at the end (LeakSanitizer watches).
TEST(Hostile, CyclesDoNotLeakOrLoop) {
  EXPECT_THAT(outcome("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"), HasSubstr("holds itself"));
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns == ns }}{{ ns.me == ns.me }}"), "");
  EXPECT_THAT(outcome("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me | tojson }}"),
              HasSubstr("serializable"));
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"), "");
  EXPECT_EQ(outcome("{% for i in range(9) %}{% macro m() %}{{ m }}{% endmacro %}{{ m() }}{% endfor %}"), "");
  EXPECT_EQ(
      outcome("{% set ns = namespace() %}{% for x in [1] %}{% set ns.l = loop %}{{ loop.changed(loop) }}{% endfor %}"
              "{{ ns.l.index }}"),
      "");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% for x in [1] %}{% set ns.c = loop.cycle %}{% endfor %}"), "");
  EXPECT_THAT(
      outcome("{% set ns = namespace() %}{% for x in [1] %}{% set ns.c = loop.cycle %}{% endfor %}{{ ns.c(1) }}"),
      HasSubstr("ended"));
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.c = cycler(ns) %}{{ ns.c.next().c is defined }}"), "");
  EXPECT_THAT(outcome("{% macro m() %}{% set ns.c = caller %}{{ 1 / 0 }}{% endmacro %}{% set ns = namespace() %}"
                      "{% call m() %}{{ ns }}{% endcall %}"),
              HasSubstr("division"));
}

TEST(Hostile, SourcesCutAnywhere) {
  const std::string source =
      "{# c #}{% macro m(a, b='x') -%}{{ a ~ b|upper }}{%- endmacro %}{% for x in [1, 2.5, 'é\\n'] if x %}{{ m(x, "
      "*[1]) }}"
      "{% set y = {'a': x}.get('a')[::-1] %}{% else %}{% raw %}{{{% endraw %}{% endfor %}{% call(q) m(1) %}{% endcall "
      "%}"
      "{% if a is not divisibleby 3 and b in c %}{% elif d %}{% else %}{% endif %}";
  for (size_t n = 0; n <= source.size(); ++n) outcome(source.substr(0, n));
  for (size_t n = 0; n < source.size(); ++n) outcome(source.substr(0, n) + source.substr(n + 1));
}

// Random mutations of templates: whatever comes of it, it comes to an end. (LeakSanitizer and UBSan watch.)
TEST(Hostile, MutatedSources) {
  const Json cases = read_json(LOCI_TEST_DATA "/template/cases.json");
  std::mt19937 random(7);
  const std::vector<std::string> scraps{"{{",   "}}",          "{%",    "%}", "-",    "(",    ")",        "[",   "]",
                                        "|",    "~",           "'",     "\\", " is ", " in ", "*",        "**",  "//",
                                        "0",    "99999999999", "1e308", ".",  ",",    ":",    "loop",     "x",   "not ",
                                        "\xff", "\xc3",        "é",     "\n", "{#",   "#}",   "range(9)", "none"};
  for (int round = 0; round < 6000; ++round) {
    const Json& c = cases[random() % cases.size()];
    std::string source = c["template"];
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0 && !source.empty(); --edits) {
      const size_t at = random() % source.size();
      switch (random() % 4) {
        case 0:
          source.erase(at, 1 + random() % 5);
          break;
        case 1:
          source.insert(at, scraps[random() % scraps.size()]);
          break;
        case 2:
          source[at] = static_cast<char>(random());
          break;
        default:
          source.insert(at, source.substr(random() % source.size(), random() % 12));
          break;
      }
    }
    jinja::Limits limits;
    limits.max_steps = 20000;
    limits.max_bytes = 4 << 20;
    try {
      const Json variables = c.contains("variables") ? c["variables"] : Json::object();
      (void)jinja::Template::parse(source).render(to_variables(variables), kNow, limits);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("chat template line ")) << source;
    }
  }
}

}  // namespace
}  // namespace loci
