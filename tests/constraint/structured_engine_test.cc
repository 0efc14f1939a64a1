// Answers under a grammar from whole engines: every finished one obeys, and drafts, samples and company change nothing.
#include <gtest/gtest.h>

#include "engine/constraint/gbnf.h"
#include "server/structured_output.h"
#include "tests/constraint/acceptor.h"
#include "tests/engine/engine_helpers.h"

namespace loci::test {
namespace {

const char* kSchema = R"({"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":99},
  "tags":{"type":"array","items":{"enum":["a","bc"]},"maxItems":3},"ok":{"type":"boolean"},
  "note":{"type":"string","maxLength":5}},"required":["id","ok"]})";

Request constrained(Engine& engine, const Grammar& grammar, int64_t seed, TokenSink& sink) {
  Request request;
  request.prompt =
      engine.tokenizer().encode("Say it: {\"id\": 1, \"ok\": true} {\"id\": 1, \"ok\": true}", false, false);
  request.sampling.temperature = 1;
  request.sampling.top_k = 0;
  request.sampling.top_p = 1;
  request.sampling.min_p = 0;
  request.sampling.seed = seed;
  request.max_tokens = 180;
  request.sink = &sink;
  request.constraint = engine.constraints().compile(grammar);
  return request;
}

TEST(StructuredEngine, EveryFinishedAnswerObeys) {
  LOCI_NEEDS_XGRAMMAR();
  const std::unique_ptr<Engine> engine = load_tiny({});
  const Grammar grammar = server::schema_text_grammar(kSchema, "schema");
  const Acceptor acceptor(grammar);
  int n_finished = 0;
  for (int64_t seed = 0; seed < 40; ++seed) {
    RecordingSink sink;
    engine->submit(constrained(*engine, grammar, seed, sink));
    engine->run_until_idle();
    ASSERT_NE(sink.stats.reason, FinishReason::kError) << sink.stats.error;
    if (sink.stats.reason != FinishReason::kEndToken) continue;
    ++n_finished;
    EXPECT_TRUE(acceptor.takes(sink.text)) << sink.text;
    EXPECT_GT(sink.stats.constraint.n_masks, 0);
  }
  EXPECT_GT(n_finished, 20);
}

TEST(StructuredEngine, DraftsAndSamplesChangeNothing) {
  LOCI_NEEDS_XGRAMMAR();
  const std::unique_ptr<Engine> engine = load_tiny({});
  const Grammar grammar = server::schema_text_grammar(kSchema, "schema");
  int64_t n_drafted = 0, n_accepted = 0;
  for (const int width : {1, 3}) {
    for (int64_t seed = 100; seed < 115; seed += 3) {
      std::vector<RecordingSink> alone(3), together(3), drafted(3);
      for (int i = 0; i < 3; ++i) {
        engine->submit(constrained(*engine, grammar, seed + i, alone[static_cast<size_t>(i)]));
        engine->run_until_idle();
      }
      for (std::vector<RecordingSink>* sinks : {&together, &drafted}) {
        Request request = constrained(*engine, grammar, seed, (*sinks)[0]);
        request.n = 3;
        for (RecordingSink& sink : *sinks) request.sinks.push_back(&sink);
        if (sinks == &drafted) {
          request.speculation = {.mode = SpeculationMode::kNgram, .max_tokens = 6, .width = width, .adaptive = false};
        }
        engine->submit(std::move(request));
        while (engine->step()) engine->check_invariants();
      }
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(together[i].tokens, alone[i].tokens);
        EXPECT_EQ(drafted[i].tokens, alone[i].tokens);
        n_drafted += drafted[i].stats.speculation.n_drafted;
        n_accepted += drafted[i].stats.speculation.n_accepted;
      }
    }
  }
  EXPECT_GT(n_drafted, 50);
  EXPECT_GT(n_accepted, 10);
}

// Short of pages, sequences are put back and computed again: their place in the grammar stays.
TEST(StructuredEngine, PreemptionChangesNothing) {
  LOCI_NEEDS_XGRAMMAR();
  EngineConfig config = tiny_config(tiny_model_file({}));
  config.max_sequences = 4;
  config.kv.page_size = 16;
  const std::unique_ptr<Engine> roomy = load_engine(config);
  limit_pool(config, 320);
  const std::unique_ptr<Engine> tight = load_engine(config);
  const Grammar grammar = parse_gbnf("root ::= ([a-z]{1,9} [ ,.])+ \"!\"");
  std::vector<RecordingSink> expected(4), found(4);
  for (size_t i = 0; i < 4; ++i) {
    for (auto& [engine, sinks] : {std::pair(roomy.get(), &expected), std::pair(tight.get(), &found)}) {
      Request request = constrained(*engine, grammar, static_cast<int64_t>(i), (*sinks)[i]);
      request.max_tokens = 120;
      engine->submit(std::move(request));
    }
  }
  roomy->run_until_idle();
  tight->run_until_idle();
  EXPECT_GT(tight->metrics().n_preempted_recompute + tight->metrics().n_preempted_swap, 0);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
}

TEST(StructuredEngine, GrammarsThatLeaveOneTextGiveIt) {
  LOCI_NEEDS_XGRAMMAR();
  const std::unique_ptr<Engine> engine = load_tiny({});
  struct Case {
    const char* gbnf;
    const char* text;
  };
  for (const Case& c : {Case{"root ::= \"{\"", "{"}, Case{"root ::= \"\"", ""},
                        Case{"root ::= \"\\u16a0\\u16a0\"", "ᚠᚠ"}, Case{"root ::= \"🦙\"{2}", "🦙🦙"}}) {
    for (const float temperature : {0.0f, 2.0f}) {
      for (const bool bans_end : {false, true}) {
        RecordingSink sink;
        Request request = constrained(*engine, parse_gbnf(c.gbnf), 1, sink);
        request.sampling.temperature = temperature;
        request.sampling.top_k = 1;
        request.sampling.ignore_eos = bans_end;
        engine->submit(std::move(request));
        engine->run_until_idle();
        EXPECT_EQ(sink.text, c.text);
        EXPECT_EQ(sink.stats.reason, FinishReason::kEndToken) << sink.stats.error;
      }
    }
  }
}

TEST(StructuredEngine, SettingsThatForbidAllThatMayComeFailAlone) {
  LOCI_NEEDS_XGRAMMAR();
  const std::unique_ptr<Engine> engine = load_tiny({});
  RecordingSink bad, good;
  Request request = constrained(*engine, parse_gbnf("root ::= \"a\""), 1, bad);
  for (int32_t token = 0; token < kTinyVocab; ++token) {
    if (engine->tokenizer().token_bytes(token) == "a") {
      request.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    }
  }
  engine->submit(std::move(request));
  engine->submit(constrained(*engine, parse_gbnf("root ::= \"b\""), 1, good));
  engine->run_until_idle();
  EXPECT_EQ(bad.stats.reason, FinishReason::kError);
  EXPECT_EQ(bad.stats.error, "the grammar leaves no token that the other settings allow");
  EXPECT_EQ(good.text, "b");
}

TEST(StructuredEngine, WithoutTheLibraryItIsRefused) {
  if (LOCI_HAS_XGRAMMAR) GTEST_SKIP() << "built with xgrammar";
  const std::unique_ptr<Engine> engine = load_tiny({});
  EXPECT_NE(error_of([&] { engine->constraints().compile(parse_gbnf("root ::= \"a\"")); }).find("not built in"),
            std::string::npos);
}

}  // namespace
}  // namespace loci::test
