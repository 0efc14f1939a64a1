// Speculation in the engine, on tiny models: the same tokens with and without drafts, pages given back to the last one,
// limits inside accepted drafts.
#include <gmock/gmock.h>

#include <set>

#include "tests/engine/spec/speculation_helpers.h"

namespace loci {
namespace {

using test::alike;
using test::fixed;
using test::load_pair;
using test::ModelPair;
using test::random_tokens;
using test::request_for;
using test::Result;
using test::unlike;
using testing::HasSubstr;

constexpr SpeculationMode kModes[] = {SpeculationMode::kNgram, SpeculationMode::kDraft, SpeculationMode::kAuto};

// A text that repeats itself, so that n-grams have something to find.
std::vector<int32_t> repeating(int n) {
  const std::vector<int32_t> motif = random_tokens(9, 3);
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(motif[static_cast<size_t>(i) % motif.size()]);
  return tokens;
}

// Runs it alone; after each step the accounting of pages must hold, and the sequence must hold the pages of its
// computed tokens and no more.
Result run(Engine& engine, Request request) {
  Result result;
  request.sink = &result;
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t page_size = engine.config().kv.page_size;
  engine.submit(std::move(request));
  bool more = true;
  while (more) {
    more = engine.step();
    engine.check_invariants();
    const Metrics metrics = engine.metrics();
    const int64_t n_computed = n_prompt + static_cast<int64_t>(result.tokens.size()) - 1;
    if (result.finished) {
      EXPECT_EQ(metrics.pages_used, 0);
    } else if (!result.tokens.empty()) {
      EXPECT_EQ(metrics.pages_used, (n_computed + page_size - 1) / page_size);
    }
  }
  return result;
}

void expect_same(const Result& found, const Result& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.logprobs, expected.logprobs);
  EXPECT_EQ(found.stats.reason, expected.stats.reason);
  EXPECT_EQ(found.stats.n_predicted, expected.stats.n_predicted);
}

SamplingParams sampled(int64_t seed) {
  SamplingParams params;
  params.seed = seed;
  params.temperature = 1.2f;
  params.repeat_penalty = 1.3f;
  params.presence_penalty = 0.2f;
  return params;
}

class SpeculationTest : public testing::TestWithParam<int> {};

// Greedy and seeded, chains and trees of several sizes, every drafter, drafts mostly wrong and mostly right.
TEST_P(SpeculationTest, TokensAndLogprobsAreThoseOfPlainDecoding) {
  const ModelPair pair = GetParam() == 0 ? unlike() : alike();
  const auto engine = load_pair(pair);
  for (const bool is_sampled : {false, true}) {
    for (const int n_prompt : {2, 40, 63}) {
      Result unused;
      const auto ask = [&](const Speculation& speculation) {
        Request request = request_for(repeating(n_prompt), 40, unused, speculation);
        if (is_sampled) request.sampling = sampled(11);
        request.cache_prompt = false;
        return run(*engine, std::move(request));
      };
      const Result plain = ask({});
      EXPECT_EQ(plain.stats.speculation.n_drafted, 0);
      for (const SpeculationMode mode : kModes) {
        for (const int width : {1, 2, 4}) {
          for (const int max_tokens : {1, 5, 16}) expect_same(ask(fixed(mode, max_tokens, width)), plain);
        }
        Speculation adaptive;
        adaptive.mode = mode;
        expect_same(ask(adaptive), plain);
      }
    }
  }
}

TEST_P(SpeculationTest, CompanyAndPreemptionChangeNothing) {
  const ModelPair pair = GetParam() == 0 ? unlike() : alike();
  const auto alone = load_pair(pair);
  // 12 pages: each of the five requests comes to want 9.
  const auto crowded = load_pair(pair, [&](EngineConfig& config) {
    config.max_sequences = 4;
    config.n_ctx = 160;
    config.kv.budget_bytes = alone->info().kv_bytes * 12 / (256 / 16);
  });
  std::vector<Result> together(5);
  for (size_t i = 0; i < together.size(); ++i) {
    Request request = request_for(random_tokens(20 + static_cast<int>(i), static_cast<uint32_t>(i)), 110, together[i],
                                  fixed(kModes[i % 3], 6, 1 + static_cast<int>(i % 2)));
    request.sampling = sampled(static_cast<int64_t>(i));
    crowded->submit(std::move(request));
  }
  do {
    crowded->check_invariants();
  } while (crowded->step());
  EXPECT_EQ(crowded->metrics().pages_used, 0);
  EXPECT_GT(crowded->metrics().n_preempted_recompute + crowded->metrics().n_preempted_swap, 0);
  for (size_t i = 0; i < together.size(); ++i) {
    Result unused;
    Request request =
        request_for(random_tokens(20 + static_cast<int>(i), static_cast<uint32_t>(i)), 110, unused, Speculation());
    request.sampling = sampled(static_cast<int64_t>(i));
    expect_same(together[i], run(*alone, std::move(request)));
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, SpeculationTest, testing::Values(0, 1),
                         [](const auto& which) { return std::string(which.param == 0 ? "Unlike" : "Alike"); });

TEST(Speculation, TheTargetAsItsOwnDraftIsAlwaysRight) {
  const auto engine = load_pair({});
  for (const bool is_sampled : {false, true}) {
    Result unused;
    Request request = request_for(random_tokens(30, 5), 41, unused, fixed(SpeculationMode::kDraft, 4));
    if (is_sampled) request.sampling = sampled(3);
    const Result result = run(*engine, std::move(request));
    const SpeculationStats& stats = result.stats.speculation;
    EXPECT_EQ(stats.n_drafted, 32);  // 8 steps give 5 tokens each, and the prompt's gives one
    EXPECT_EQ(stats.n_accepted, stats.n_drafted);
    EXPECT_EQ(stats.n_rounds, 8);
    EXPECT_EQ(stats.drafted_at, (std::vector<int64_t>{8, 8, 8, 8}));
    EXPECT_EQ(stats.accepted_at, stats.drafted_at);
  }
}

// The same model, but it drafts the first ids and those of the text only: right there, never elsewhere, and the tokens
// stay.
TEST(Speculation, DraftsFrequentIdsAndThoseOfTheText) {
  ModelPair pair;
  const auto plain = load_pair(pair);
  const int n_half = static_cast<int>(plain->tokenizer().vocab_size() / 2);
  const auto engine = load_pair(pair, [&](EngineConfig& config) { config.draft_vocab = n_half; });
  Result unused;
  for (uint32_t seed = 1; seed < 5; ++seed) {
    Request request = request_for(random_tokens(30, seed), 60, unused, {});
    request.sampling = sampled(seed);
    const Result expected = run(*plain, request);
    request.speculation = fixed(SpeculationMode::kDraft, 1);
    const Result found = run(*engine, request);
    expect_same(found, expected);
    std::set<int32_t> known;  // groups of ids
    for (int32_t id = 0; id < n_half; id += kOutputGroup) known.insert(id / kOutputGroup);
    for (const int32_t token : request.prompt) known.insert(token / kOutputGroup);
    int64_t n_known = 0;
    for (const int32_t token : expected.tokens) n_known += known.insert(token / kOutputGroup).second ? 0 : 1;
    EXPECT_GT(found.stats.speculation.n_accepted, 0);
    EXPECT_LE(found.stats.speculation.n_accepted, n_known);
    EXPECT_LT(found.stats.speculation.n_accepted, found.stats.speculation.n_drafted);
  }
}

TEST(Speculation, NgramsServeARepeatingText) {
  const auto engine = load_pair({});
  Result unused;
  Request request = request_for(repeating(60), 60, unused, fixed(SpeculationMode::kNgram, 8));
  request.sampling.logit_bias = {{5, 1000.0f}};  // an answer of one token over and over
  const Result result = run(*engine, std::move(request));
  EXPECT_EQ(result.tokens, std::vector<int32_t>(60, 5));
  EXPECT_GT(result.stats.speculation.n_accepted, 40);
}

// A prefix that one request left behind is drafted from by another; a longer turn finds the draft model's K/V too.
TEST(Speculation, CachedPrefixesServeBothModels) {
  const auto engine = load_pair({});
  Result unused;
  std::vector<int32_t> tokens = random_tokens(50, 1);
  const Result first = run(*engine, request_for(tokens, 20, unused, fixed(SpeculationMode::kDraft, 5)));
  tokens.insert(tokens.end(), first.tokens.begin(), first.tokens.end());
  const Result second = run(*engine, request_for(tokens, 20, unused, fixed(SpeculationMode::kDraft, 5)));
  EXPECT_GT(second.stats.n_cached, 60);
  EXPECT_EQ(second.stats.speculation.n_accepted, second.stats.speculation.n_drafted);
  Request cold = request_for(tokens, 20, unused, {});
  cold.cache_prompt = false;
  expect_same(second, run(*engine, std::move(cold)));
}

TEST(Speculation, LimitsCutAcceptedDrafts) {
  const auto engine = load_pair({});
  Result unused;
  const Result whole = run(*engine, request_for(random_tokens(20, 2), 60, unused, {}));
  for (const int64_t max_tokens : {1, 2, 15, 16, 17}) {
    for (const int width : {1, 3}) {
      const Speculation params = fixed(SpeculationMode::kDraft, 16, width);
      const Result cut = run(*engine, request_for(random_tokens(20, 2), max_tokens, unused, params));
      EXPECT_EQ(cut.tokens, std::vector<int32_t>(whole.tokens.begin(), whole.tokens.begin() + max_tokens));
      EXPECT_EQ(cut.stats.reason, FinishReason::kLimit);
    }
  }
}

TEST(Speculation, StopsAndEndTokensCutAcceptedDrafts) {
  const auto engine = load_pair({});
  const auto ask = [&](const std::function<void(Request&)>& change, const Speculation& speculation) {
    Result unused;
    Request request = request_for(random_tokens(20, 2), 60, unused, speculation);
    change(request);
    return run(*engine, std::move(request));
  };
  const Result whole = ask([](Request&) {}, {});
  const auto ascii = std::find_if(whole.text.begin() + 10, whole.text.end(), [](char c) { return c > 0; });
  ASSERT_NE(ascii, whole.text.end());
  const auto stop = [&](Request& request) { request.stops = {std::string(1, *ascii)}; };
  // An end token in the middle: the model is made to say it at a place that many drafts reach over.
  const auto end = [&](Request& request) {
    request.stop_at_end = true;
    request.sampling.temperature = 1.5f;
    request.sampling.seed = 1;
    request.sampling.logit_bias = {{test::kTinyImEnd, 2.0f}};
    request.max_tokens = 200;
  };
  for (const int width : {1, 2}) {
    const Speculation params = fixed(SpeculationMode::kDraft, 16, width);
    const Result stopped = ask(stop, params);
    EXPECT_EQ(stopped.stats.reason, FinishReason::kStopString);
    expect_same(stopped, ask(stop, {}));
    const Result ended = ask(end, params);
    EXPECT_EQ(ended.stats.reason, FinishReason::kEndToken);
    EXPECT_GT(ended.tokens.size(), 3u);
    expect_same(ended, ask(end, {}));
    // The next turn goes on from what was answered, and from nothing behind it.
    std::vector<int32_t> next_turn = random_tokens(20, 2);
    next_turn.insert(next_turn.end(), ended.tokens.begin(), ended.tokens.end());
    next_turn.push_back(7);
    Result unused;
    const Result warm = run(*engine, request_for(next_turn, 10, unused, params));
    EXPECT_GT(warm.stats.n_cached, 16);
    Request cold = request_for(next_turn, 10, unused, {});
    cold.cache_prompt = false;
    expect_same(warm, run(*engine, std::move(cold)));
  }
}

TEST(Speculation, EndsWithTheContext) {
  const auto engine = load_pair({}, [](EngineConfig& config) { config.n_ctx = 64; });
  for (const SpeculationMode mode : kModes) {
    for (const int n_prompt : {1, 47, 60, 63, 64}) {
      for (const int width : {1, 4}) {
        Result unused;
        const Result result = run(*engine, request_for(repeating(n_prompt), -1, unused, fixed(mode, 16, width)));
        EXPECT_EQ(result.stats.reason, FinishReason::kContextFull);
        EXPECT_EQ(result.stats.n_predicted, 64 - n_prompt + 1);
      }
    }
  }
}

TEST(Speculation, GoesOnWithoutADraftModelPastItsContext) {
  ModelPair pair;
  pair.draft.n_ctx = 64;
  const auto engine = load_pair(pair);
  for (const int n_prompt : {40, 63, 64, 65, 150}) {
    Result unused;
    const Result plain = run(*engine, request_for(random_tokens(n_prompt, 1), 40, unused, {}));
    const Result drafted =
        run(*engine, request_for(random_tokens(n_prompt, 1), 40, unused, fixed(SpeculationMode::kDraft, 8)));
    expect_same(drafted, plain);
    EXPECT_EQ(drafted.stats.speculation.n_drafted > 0, n_prompt < 64) << n_prompt;
  }
}

TEST(Speculation, CancelledInTheMiddle) {
  const auto engine = load_pair({}, [](EngineConfig& config) { config.max_sequences = 2; });
  Result first, second;
  const RequestId id =
      engine->submit(request_for(random_tokens(20, 2), 60, first, fixed(SpeculationMode::kDraft, 6, 2)));
  engine->submit(request_for(random_tokens(20, 3), 30, second, fixed(SpeculationMode::kNgram, 6)));
  for (int i = 0; i < 4; ++i) engine->step();
  engine->cancel(id);
  engine->run_until_idle();
  engine->check_invariants();
  EXPECT_EQ(first.stats.reason, FinishReason::kCancelled);
  EXPECT_EQ(second.stats.n_predicted, 30);
  EXPECT_EQ(engine->metrics().pages_used, 0);
}

TEST(Speculation, SharedNgramsComeFromOtherRequests) {
  const auto engine = load_pair({});
  Speculation params = fixed(SpeculationMode::kNgram, 8);
  params.shared_ngrams = true;
  Result unused;
  const Result first = run(*engine, request_for(random_tokens(20, 2), 40, unused, params));
  const Result again = run(*engine, request_for(random_tokens(20, 2), 40, unused, params));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_GT(again.stats.speculation.n_accepted, 30);
  params.shared_ngrams = false;
  EXPECT_LT(run(*engine, request_for(random_tokens(20, 2), 40, unused, params)).stats.speculation.n_accepted,
            again.stats.speculation.n_accepted);
}

TEST(Speculation, RefusesAnotherVocabulary) {
  ModelPair pair;
  pair.draft.keys = [](gguf::Writer& writer) {
    std::vector<std::string> tokens;
    for (int i = 0; i < test::kTinyVocab; ++i) tokens.push_back(std::to_string(i));
    writer.set_strings("tokenizer.ggml.tokens", tokens);
  };
  EXPECT_THAT(test::error_of([&] { load_pair(pair); }),
              testing::AllOf(HasSubstr("vocabularies differ"), HasSubstr("token 0")));
}

TEST(Speculation, RefusesWhatIsNotThere) {
  const auto engine = test::load_tiny({});
  Result result;
  EXPECT_THAT(test::error_of([&] { engine->submit(request_for({1}, 1, result, fixed(SpeculationMode::kDraft, 4))); }),
              HasSubstr("draft model"));
  EXPECT_THAT(test::error_of([&] { engine->submit(request_for({1}, 1, result, fixed(SpeculationMode::kNgram, 999))); }),
              HasSubstr("999"));
}

}  // namespace
}  // namespace loci
