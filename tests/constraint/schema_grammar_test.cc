#include "server/schema_grammar.h"

#include <gtest/gtest.h>

#include <chrono>

#include "server/structured_output.h"
#include "tests/constraint/acceptor.h"

namespace loci::server {
namespace {

using test::Acceptor;

Grammar grammar_of(const std::string& schema) { return schema_text_grammar(schema, "schema"); }
std::string error(const std::string& schema) {
  return test::outcome_of([&] { grammar_of(schema); });
}

struct Case {
  const char* schema;
  std::vector<std::string> valid, invalid;
};

void check(const std::vector<Case>& cases) {
  LOCI_NEEDS_XGRAMMAR();
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    try {
      const Acceptor acceptor(grammar_of(c.schema));
      for (const std::string& text : c.valid) EXPECT_TRUE(acceptor.takes(text)) << text;
      for (const std::string& text : c.invalid) EXPECT_FALSE(acceptor.takes(text)) << text;
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(SchemaKeywords, Types) {
  check({
      {R"({"type":"null"})", {"null"}, {"true", ""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "True"}},
      {R"({"type":["integer","null"]})", {"-12", "0", "null"}, {"1.5", "01", "-0x"}},
      {R"({"type":"number"})", {"1", "-0.5", "2e10", "3.25E-7"}, {".5", "1.", "+1", "NaN"}},
      {R"({"type":"string"})", {R"("")", R"("a\"\\\n é 🦙")"}, {"\"\n\"", R"("\x")", "a"}},
      {R"({"type":"object"})", {"{}", R"({"a":1,"b":[{}]})", "{ }"}, {"[]", R"({a:1})"}},
      {R"({"type":"array"})", {"[]", R"([1, "x", null])"}, {"{}", "[1,]"}},
      {"{}", {"{}", "[]", "1", "\"x\"", "null"}, {"", "nul"}},
      {"true", {"1"}, {"x"}},
      {R"({"type":"string","nullable":true})", {"null", R"("x")"}, {"1"}},
      {R"({"title":"t","description":"d","default":3,"examples":[1],"$comment":"c","x-own":1,"type":"integer"})",
       {"3"},
       {"\"3\""}},
  });
}

TEST(SchemaKeywords, ConstantsAndLists) {
  check({
      {R"({"const":null})", {"null"}, {"1"}},
      {R"({"const":{"a":[1,"x"]}})", {R"({"a":[1,"x"]})", R"({ "a": [1, "x"] })"}, {R"({"a":[1]})"}},
      {R"({"enum":["a\"b","😀","x\ny",1,null,true]})",
       {R"("a\"b")", R"("😀")", R"("x\ny")", "1", "null", "true"},
       {"2", "\"x\ny\""}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
  });
  EXPECT_EQ(error(R"({"type":"integer","enum":["a"]})"),
            "schema #: no value is valid: none of 'const' or 'enum' has the type");
  EXPECT_EQ(error(R"({"enum":[]})"), "schema #: 'enum': expected a list that is not empty, found []");
  EXPECT_EQ(error(R"({"enum":["a"],"minLength":3})"),
            "schema #: 'minLength' beside 'const' or 'enum' is not supported");
}

TEST(SchemaKeywords, Numbers) {
  check({
      {R"({"type":"integer","minimum":-3,"maximum":12})", {"-3", "0", "12"}, {"-4", "13", "1.0"}},
      {R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":3})", {"1", "2"}, {"0", "3"}},
      {R"({"type":"integer","minimum":1.5})", {"2", "10"}, {"1", "0", "-5"}},
      {R"({"type":"number","minimum":0,"maximum":1})", {"0", "1", "0.50", "1.00"}, {"1.01", "-0.50", "2"}},
      {R"({"type":"number","exclusiveMinimum":0.25,"maximum":0.3})", {"0.26", "0.30"}, {"0.25", "0.31", "0", "1"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":0.001})", {"0.0001", "0.0009"}, {"0", "0.0010"}},
      {R"({"type":"number","exclusiveMaximum":0})", {"-1", "-0.01"}, {"0", "0.00", "1"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "14", "-21"}, {"8"}},
      {R"({"type":"integer","multipleOf":5,"minimum":-7,"maximum":12})", {"-5", "0", "10"}, {"-10", "7", "15"}},
      {R"({"minimum":2,"maximum":2})", {"2", "2.00"}, {"3"}},
      {R"({"type":"string","minimum":5})", {R"("x")"}, {"6"}},
  });
  EXPECT_EQ(error(R"({"type":"integer","minimum":3,"maximum":2})"),
            "schema #: no value is valid: no number lies between the bounds");
  EXPECT_EQ(error(R"({"type":"number","multipleOf":0.01})"), "schema #: 'multipleOf' 0.01 is not supported");
  EXPECT_EQ(error(R"({"type":"integer","multipleOf":0})"), "schema #: 'multipleOf': expected a number > 0, found 0");
  EXPECT_EQ(error(R"({"type":"number","minimum":true})"), "schema #: 'minimum': expected a number, found true");
  EXPECT_EQ(error(R"({"type":"number","minimum":0.00000001})"),
            "schema #: 'minimum' with more than 6 decimals is not supported");
  EXPECT_EQ(error(R"({"type":"integer","multipleOf":1000})"),
            "schema #: 'multipleOf' above 100 without bounds is not supported");
}

TEST(SchemaKeywords, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", R"("é🦙 ")"}, {R"("a")", R"("abcd")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^[A-Z]{2}-[0-9]+$"})", {R"("AB-12")"}, {R"("AB-")", R"("xAB-1")"}},
      {R"({"type":"string","pattern":"b+"})", {R"("abc")"}, {R"("ac")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-12-31")", R"("1999-02-28")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-12-31T23:59:59Z")", R"("2024-01-01T00:00:00.5+02:00")"},
       {R"("2024-12-31")"}},
      {R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"type":"string","format":"ipv4"})", {R"("192.168.0.255")"}, {R"("256.1.1.1")", R"("1.2.3")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@example.org")"}, {R"("@x.de")"}},
  });
  EXPECT_EQ(error(R"~({"properties":{"a":{"type":"string","pattern":"^(?=x)"}}})~"),
            "schema #/properties/a: 'pattern' \"^(?=x)\": position 1: look-around is not supported");
  EXPECT_EQ(error(R"({"type":"string","pattern":"^[a-z]+$","maxLength":5})"),
            "schema #: 'minLength' or 'maxLength' together with 'pattern' is not supported");
  EXPECT_NE(error(R"({"type":"string","format":"color"})").find("'format' \"color\" (known are date, time,"),
            std::string::npos);
  EXPECT_EQ(error(R"({"type":"string","minLength":5,"maxLength":4})"),
            "schema #: no value is valid: minLength 5 is above maxLength 4");
  EXPECT_EQ(error(R"({"type":"string","minLength":-1})"),
            "schema #: 'minLength': expected a whole number >= 0, found -1");
}

TEST(SchemaKeywords, Arrays) {
  check({
      {R"({"type":"array","items":{"type":"integer"},"maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1, 2, 3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":1})", {"[true]", "[true,false]"}, {"[]", "[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2})",
       {R"(["a",1])"},
       {R"(["a"])", R"(["a",1,2])"}},
      {R"({"prefixItems":[{"const":1}],"items":{"const":2},"maxItems":3})", {"[1]", "[1,2,2]"}, {"[2]", "[1,2,2,2]"}},
      {R"({"items":[{"const":1}],"additionalItems":{"const":2}})", {"[1]", "[1,2]"}, {"[1,1]"}},
      {R"({"type":"array","items":{"const":0},"uniqueItems":true,"maxItems":1})", {"[0]", "[]"}, {"[0,0]"}},
      {R"({"type":"array","items":{"type":"array","items":{"const":1},"minItems":1}})",
       {"[]", "[[1],[1,1]]"},
       {"[[]]"}},
  });
  EXPECT_EQ(error(R"({"type":"array","uniqueItems":true})"), "schema #: 'uniqueItems' is not supported");
  EXPECT_EQ(error(R"({"type":"array","items":false,"minItems":1})"),
            "schema #: no value is valid: minItems 1 is above the 0 items there may be");
  EXPECT_EQ(error(R"({"items":{"items":{"contains":{}}}})"), "schema #/items/items: 'contains' is not supported");
}

TEST(SchemaKeywords, Objects) {
  check({
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({ "a": 1, "b": 2, "c": 3 })"},
       {"{}", R"({"a":1})", R"({"b":2,"a":1})", R"({"b":2,})", R"({"b":2,"d":4})", R"({,"b":2})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}}})",
       {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {R"({"a":1"b":2})"}},
      {R"({"properties":{"a":{"const":1}},"additionalProperties":{"const":0}})",
       {"{}", R"({"a":1})", R"({"a":1,"x":0})", R"({"ab":0,"":0})"},
       {R"({"a":0})", R"({"x":1})", R"({"\u0061":0})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1})", {R"({"k":1})"}, {"{}"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"k":1})"}},
      {R"({"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"minProperties":2})",
       {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
       {R"({"a":1})", "{}"}},
      {R"({"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,"maxProperties":1})",
       {"{}", R"({"b":1})"},
       {R"({"a":1,"b":1})"}},
      {R"({"required":["x"],"additionalProperties":{"const":1}})", {R"({"x":1})", R"({"x":1,"y":1})"}, {"{}"}},
      {R"({"properties":{"a\"é/~":{"const":1}},"required":["a\"é/~"]})", {R"({"a\"é/~":1})"}, {"{}"}},
      {R"({"properties":{"a":false,"b":{"const":1}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"const":1}},"unevaluatedProperties":false})", {R"({"a":1})"}, {R"({"b":1})"}},
  });
  EXPECT_EQ(error(R"({"properties":{"a":false},"required":["a"]})"),
            "schema #: no value is valid: 'a' is required and false");
  EXPECT_EQ(error(R"({"additionalProperties":false,"required":["a"]})"),
            "schema #: no value is valid: 'a' is required and not among the properties");
  EXPECT_EQ(error(R"({"additionalProperties":{},"minProperties":3})"),
            "schema #: 'minProperties' above 1 here is not supported");
}

TEST(SchemaKeywords, References) {
  check({
      {R"({"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"const":1}}})", {"1"}, {"2"}},
      {R"({"type":"object","properties":{"v":{"const":1},"next":{"$ref":"#"}},"required":["v"]})",
       {R"({"v":1})", R"({"v":1,"next":{"v":1,"next":{"v":1}}})"},
       {R"({"v":1,"next":{}})"}},
      {R"({"definitions":{"t":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/definitions/t"}}]}},
          "$ref":"#/definitions/t"})",
       {"null", "[null,[[]]]"},
       {"1"}},
      {R"({"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n","minimum":5,"maximum":6})", {"5", "6"}, {"4", "7"}},
  });
  EXPECT_EQ(error(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})"),
            "schema: rule '#' can never be completed: no text matches it");
  EXPECT_EQ(error(R"({"$ref":"#/$defs/none"})"), "schema #: '$ref' \"#/$defs/none\": there is no '$defs' in #");
  EXPECT_NE(error(R"({"$ref":"http://example.org/x.json"})").find("to another document, is not supported"),
            std::string::npos);
  EXPECT_NE(
      error(R"({"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]})").find("never be completed"),
      std::string::npos);
}

TEST(SchemaKeywords, Combinations) {
  check({
      {R"({"anyOf":[{"type":"null"},{"type":"boolean"}]})", {"null", "true"}, {"1"}},
      {R"({"type":"object","properties":{"k":{"const":1}},"required":["k"],"anyOf":[{"properties":{"a":{"const":1}},
          "required":["a"]},{"properties":{"b":{"const":2}},"required":["b"]}]})",
       {R"({"k":1,"a":1})", R"({"k":1,"b":2})"},
       {R"({"k":1})", R"({"a":1})"}},
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {R"("x")", "1"}, {"null"}},
      {R"({"oneOf":[{"properties":{"t":{"const":"a"},"x":{"const":1}},"required":["t","x"],"type":"object"},
          {"properties":{"t":{"const":"b"}},"required":["t"],"type":"object"}]})",
       {R"({"t":"a","x":1})", R"({"t":"b"})"},
       {R"({"t":"a"})"}},
      {R"({"allOf":[{"properties":{"a":{"const":1}},"required":["a"]},
          {"properties":{"b":{"const":2}},"required":["b"]}]})",
       {R"({"a":1,"b":2})"},
       {R"({"a":1})", R"({"b":2})"}},
      {R"({"allOf":[{"type":"integer","minimum":1},{"type":"number","maximum":9},{"minimum":3}]})",
       {"3", "9"},
       {"2", "10", "3.5"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}]})", {"2", "3"}, {"1", "4"}},
      {R"({"allOf":[{"$ref":"#/$defs/base"}],"properties":{"b":{"const":2}},"required":["b"],
          "$defs":{"base":{"type":"object","properties":{"a":{"const":1}},"required":["a"]}}})",
       {R"({"a":1,"b":2})"},
       {R"({"b":2})"}},
  });
  EXPECT_NE(
      error(R"({"oneOf":[{"type":"number"},{"type":"integer"}]})").find("'oneOf' whose options 0 and 1 may both hold"),
      std::string::npos);
  EXPECT_EQ(error(R"({"allOf":[{"type":"string","pattern":"a"},{"type":"string","pattern":"b"}]})"),
            "schema #: two values of 'pattern' that must both hold is not supported");
  EXPECT_EQ(error(R"({"allOf":[{"type":"string"},{"type":"integer"}]})"),
            "schema #: no value is valid: no type is left");
}

TEST(SchemaKeywords, WhatIsNotHonouredIsRefusedByName) {
  for (const char* keyword : {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
                              "patternProperties", "propertyNames", "contains", "minContains", "maxContains",
                              "$dynamicRef", "$anchor", "$recursiveRef", "madeUp"}) {
    EXPECT_EQ(error(str(R"({"properties":{"a/b":{"type":"object",")", keyword, R"(":{}}}})")),
              str("schema #/properties/a~1b: '", keyword, "' is not supported"));
  }
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    EXPECT_EQ(error(str(R"({"type":"object",")", keyword, R"(":{"type":"string"}})")),
              str("schema #: '", keyword, "' is not supported"));
  }
  EXPECT_EQ(error("false"), "schema #: no value is valid (false)");
  EXPECT_EQ(error("3"), "schema #: expected a schema (an object, true or false), found 3");
  EXPECT_NE(error(R"({"type":"text"})").find("'type': expected object, array,"), std::string::npos);
  EXPECT_NE(error("{\"type\":").find("schema"), std::string::npos);
}

// Refused or converted and compiled, in a bound that is generous for a busy machine; no crash.
TEST(SchemaLimits, HostileSchemasAreBounded) {
  const auto nested = [](const std::string& open, const std::string& inside, const std::string& close, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += open;
    out += inside;
    for (int i = 0; i < n; ++i) out += close;
    return out;
  };
  std::string wide = R"({"type":"object","properties":{)", big_enum = R"({"enum":[)",
              doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 300; ++i) wide += str(i ? "," : "", "\"p", i, R"(":{"type":"string"})");
  for (int i = 0; i < 9000; ++i) big_enum += str(i ? "," : "", "\"", i, "\"");
  for (int i = 0; i < 40; ++i) {
    doubling += str("\"d", i, R"(":{"allOf":[{"$ref":"#/$defs/d)", i + 1, R"("},{"$ref":"#/$defs/d)", i + 1, "\"}]},");
  }
  const std::pair<std::string, const char*> cases[] = {
      {nested(R"({"type":"array","items":)", R"({"type":"string"})", "}", 5000), "nested more than"},
      {nested(R"({"type":"array","items":)", R"({"type":"string"})", "}", 60), "no error"},
      {nested(R"({"type":"array","items":)", R"({"type":"string"})", "}", 70), "at most 64 deep"},
      {nested(R"({"type":"array","minItems":1000,"maxItems":1000,"items":)", R"({"type":"string"})", "}", 5),
       "no error"},
      {wide + "}}", "no error"},
      {big_enum + "]}", "no error"},
      {doubling + R"("d40":{"type":"object"}}})", "found more"},
      {R"({"type":"string","minLength":10,"maxLength":2000})", "no error"},
      {R"({"type":"array","items":{"type":"integer"},"minItems":10,"maxItems":1000})", "no error"},
      {R"({"$ref":"#","properties":{"a":{}}})", "deep"},
      {R"({"type":"string","pattern":")" + nested("(", "a", ")", 50000) + "\"}", "at most"},
  };
  for (const auto& [schema, expected] : cases) {
    const auto start = std::chrono::steady_clock::now();
    const std::string found = test::outcome_of([&] {
      const Grammar grammar = grammar_of(schema);
      if (!LOCI_HAS_XGRAMMAR) return;
      const Acceptor acceptor(grammar);
      const std::unique_ptr<Matcher> matcher = acceptor.start();
      std::vector<uint32_t> mask(9);
      matcher->fill_mask(mask);
    });
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_NE(found.find(expected), std::string::npos) << schema.substr(0, 80) << ": " << found.substr(0, 200);
    EXPECT_LT(s, 20 * test::kPatience) << schema.substr(0, 80);
    if (std::getenv("LOCI_SHOW_TIMES") != nullptr) printf("%8.3f s  %s\n", s, schema.substr(0, 60).c_str());
  }
}

TEST(StructuredFields, AllSpellingsAreRead) {
  LOCI_NEEDS_XGRAMMAR();
  const auto takes = [](const char* body, const std::string& text) {
    const Json json = Json::parse(body);
    const std::optional<Grammar> grammar = read_structured_output(BodyFields(json));
    return grammar && Acceptor(*grammar).takes(text);
  };
  const std::string schema = R"({"const":7})";
  for (const char* body :
       {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"const":7}}}})",
        R"({"response_format":{"type":"json_schema","schema":{"const":7}}})",
        R"({"response_format":{"type":"json_object","schema":{"const":7}}})", R"({"json_schema":{"const":7}})",
        R"({"guided_json":"{\"const\":7}"})", R"({"grammar":"root ::= \"7\""})",
        R"({"guided_grammar":"root ::= \"7\""})", R"({"guided_regex":"7"})", R"({"guided_choice":["7","8"]})",
        R"({"structured_outputs":{"json":{"const":7}}})", R"({"structured_outputs":{"regex":"^7$"}})",
        R"({"structured_outputs":{"choice":["7"]}})", R"({"structured_outputs":{"grammar":"root ::= \"7\""}})"}) {
    EXPECT_TRUE(takes(body, "7")) << body;
    EXPECT_FALSE(takes(body, "77")) << body;
  }
  EXPECT_TRUE(takes(R"({"response_format":{"type":"json_object"}})", R"({"a":1})"));
  EXPECT_FALSE(takes(R"({"response_format":{"type":"json_object"}})", "[1]"));
  for (const char* free :
       {"{}", R"({"response_format":{"type":"text"}})", R"({"grammar":""})", R"({"grammar":null})"}) {
    const Json json = Json::parse(free);
    EXPECT_FALSE(read_structured_output(BodyFields(json))) << free;
  }
}

TEST(StructuredFields, ErrorsNameFieldAndPlace) {
  const auto message = [](const char* body) {
    const Json json = Json::parse(body);
    return test::outcome_of([&] { read_structured_output(BodyFields(json)); });
  };
  EXPECT_EQ(
      message(R"({"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":{}}}}}}})"),
      "Field 'response_format': schema #/properties/a: 'not' is not supported");
  EXPECT_EQ(message(R"({"grammar":"root ::= ["})"),
            "Field 'grammar': line 1, column 10: expected a closing ']' on the same line, found none");
  EXPECT_EQ(message(R"({"grammar":7})"), "Field 'grammar': expected a string, found 7");
  EXPECT_EQ(message(R"({"guided_regex":"(a"})"), "Field 'guided_regex': position 2: expected ')', found the end");
  EXPECT_EQ(message(R"({"guided_regex":"a","grammar":"root ::= \"a\""})"),
            "Field 'guided_regex': expected one description of the answer's form, found 'grammar' beside it");
  EXPECT_EQ(message(R"({"response_format":{"type":"xml"}})"),
            "Field 'response_format': expected type text, json_object or json_schema, found 'xml'");
  EXPECT_EQ(message(R"({"structured_outputs":{"structural_tag":"x"}})"),
            "Field 'structured_outputs.structural_tag': not supported by this build: known are json, json_object, "
            "regex, choice and grammar");
}

}  // namespace
}  // namespace loci::server
