// Saved caches: what was saved is reused; anything damaged, foreign or too large is refused whole.
#include <gmock/gmock.h>

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/engine/engine_helpers.h"

namespace loci {
namespace {

using testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class CacheFile : public testing::Test {
 protected:
  CacheFile() : config_(test::tiny_config(test::tiny_model_file({}))) {
    const auto engine = test::load_engine(config_);
    expected_ = test::generate(*engine, prompt_, 10);
    engine->save_cache(path_);
  }
  // The next request on `engine` answers as a fresh one does. Returns how many prompt tokens came from the cache.
  int64_t cached_tokens(Engine& engine) {
    test::RecordingSink sink;
    engine.submit(test::greedy(prompt_, 10, sink));
    engine.run_until_idle();
    EXPECT_EQ(sink.tokens, expected_);
    return sink.stats.n_cached;
  }
  void expect_refused(const EngineConfig& config, const std::string& reason) {
    const auto engine = test::load_engine(config);
    EXPECT_THAT(engine->load_cache(path_), HasSubstr(reason));
    engine->check_invariants();
    if (config.model_path == config_.model_path) {
      EXPECT_EQ(cached_tokens(*engine), 0);
    }
  }

  std::vector<int32_t> prompt_ = test::random_tokens(70, 4);
  std::string path_ = test::temporary_path("saved.kv");
  EngineConfig config_;
  std::vector<int32_t> expected_;
};

TEST_F(CacheFile, IsReused) {
  const auto engine = test::load_engine(config_);
  EXPECT_EQ(engine->load_cache(path_), "");
  EXPECT_EQ(cached_tokens(*engine), 69);  // all but the last one of the prompt
}

TEST_F(CacheFile, DamageAnywhereIsRefused) {
  const std::string bytes = read_file(path_);
  const auto engine = test::load_engine(config_);
  for (size_t at = 0; at < bytes.size(); at += at < 600 ? 7 : 1571) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_file(path_, damaged);
    EXPECT_NE(engine->load_cache(path_), "") << "byte " << at;
  }
  for (const size_t size : {size_t{0}, size_t{10}, size_t{143}, size_t{144}, size_t{500}, bytes.size() - 1}) {
    write_file(path_, bytes.substr(0, size));
    EXPECT_NE(engine->load_cache(path_), "") << "cut to " << size;
  }
  write_file(path_, bytes + "x");
  EXPECT_NE(engine->load_cache(path_), "");
  engine->check_invariants();
  EXPECT_EQ(cached_tokens(*engine), 0);
  write_file(path_, bytes);
  EXPECT_EQ(engine->load_cache(path_), "");
}

TEST_F(CacheFile, ForeignFilesAreRefusedWithTheReason) {
  EngineConfig other = config_;
  other.model_path = test::tiny_model_file({.seed = 2});
  expect_refused(other, "another model");
  other = config_;
  other.kv.k_format = KvFormat::kF16;
  expect_refused(other, "K/V formats");
  other = config_;
  other.rope.freq_base = 20000;
  {
    const auto engine = test::load_engine(other);
    EXPECT_THAT(engine->load_cache(path_), HasSubstr("rope settings"));
  }
  other = config_;
  other.kv.page_size = 32;
  expect_refused(other, "page size 32, found 16");
  other = config_;
  other.n_ctx = 16;
  {
    const auto engine = test::load_engine(other);
    EXPECT_THAT(engine->load_cache(path_), HasSubstr("the context has room for"));
  }
  const auto engine = test::load_engine(config_);
  EXPECT_THAT(engine->load_cache("/nonexistent/file"), HasSubstr("No such file"));
  EXPECT_THAT(engine->load_cache("/tmp"), HasSubstr("not a regular file"));
}

TEST_F(CacheFile, SavingNeedsSomethingToSave) {
  const auto engine = test::load_engine(config_);
  EXPECT_THAT(test::error_of([&] { engine->save_cache(path_); }), HasSubstr("nothing to save"));
  EXPECT_THAT(test::error_of([&] {
                test::generate(*engine, {1, 2, 3}, 2);
                engine->save_cache("/nonexistent/folder/file");
              }),
              HasSubstr("No such file"));
}

// `restored` finds n_cached tokens of `tokens` and goes on as `engine` does. Returns what it says.
std::vector<int32_t> goes_on_alike(Engine& restored, Engine& engine, const std::vector<int32_t>& tokens,
                                   int64_t n_cached) {
  test::RecordingSink sink;
  restored.submit(test::greedy(tokens, 6, sink));
  restored.run_until_idle();
  EXPECT_EQ(sink.stats.n_cached, n_cached);
  EXPECT_EQ(sink.tokens, test::generate(engine, tokens, 6));
  restored.check_invariants();
  return sink.tokens;
}

TEST_F(CacheFile, KeepsEveryToken) {
  for (const int n : {1, 2, 15, 16, 17, 32, 33}) {
    const std::vector<int32_t> prompt = test::random_tokens(n, 9);
    const auto engine = test::load_engine(config_);
    const std::vector<int32_t> answer = test::generate(*engine, prompt, 4);
    engine->save_cache(path_);
    const auto other = test::load_engine(config_);
    EXPECT_EQ(other->load_cache(path_), "");
    // The last token of the answer has no K/V yet.
    std::vector<int32_t> longer = prompt;
    longer.insert(longer.end(), answer.begin(), answer.end());
    longer.push_back(5);
    goes_on_alike(*other, *engine, longer, n + 3);
  }
}

TEST_F(CacheFile, ASessionHasATextAndMayLackTokens) {
  const std::string words("what was said\n\0 and answered", 27);
  const auto engine = test::load_engine(config_);
  engine->save_session(path_, words, false);
  std::string text;
  EXPECT_EQ(test::load_engine(config_)->load_session(path_, text), "");
  EXPECT_EQ(text, words);
  test::generate(*engine, prompt_, 10);
  engine->save_session(path_, words, true);
  const auto other = test::load_engine(config_);
  text.clear();
  EXPECT_EQ(other->load_session(path_, text), "");
  EXPECT_EQ(text, words);
  EXPECT_EQ(cached_tokens(*other), 69);
  // What was loaded can be saved again.
  const auto third = test::load_engine(config_);
  EXPECT_EQ(third->load_session(path_, text), "");
  const std::string bytes = read_file(path_);
  third->save_session(path_, words, true);
  EXPECT_EQ(read_file(path_).size(), bytes.size());
  std::string damaged = bytes;
  damaged[150] ^= 1;  // in the text
  write_file(path_, damaged);
  EXPECT_THAT(third->load_session(path_, text), HasSubstr("checksum"));
}

TEST_F(CacheFile, AnotherVersionIsRefused) {
  std::string bytes = read_file(path_);
  bytes[8] = 1;
  write_file(path_, bytes);
  EXPECT_THAT(test::load_engine(config_)->load_cache(path_), HasSubstr("expected version 2 or 3, found 1"));
}

// Version 2: header, text, tokens, pages, digest.
TEST_F(CacheFile, FilesOfTheVersionBeforeAreRead) {
  constexpr size_t kHeader = 144, kRecord = 48, kDigest = 8;
  const std::string bytes = read_file(path_);
  std::string header = bytes.substr(0, kHeader);
  const auto put = [&](size_t at, auto value) { std::memcpy(header.data() + at, &value, sizeof value); };
  uint64_t n_tokens = 0;
  std::memcpy(&n_tokens, bytes.data() + kHeader + kDigest + 32, sizeof n_tokens);
  const std::string text = "what was said";
  put(8, uint32_t{2});
  put(24, n_tokens);
  put(44, static_cast<uint32_t>(text.size()));
  std::string old = header + text + bytes.substr(kHeader + kDigest + kRecord);
  old.resize(old.size() - kDigest);
  const uint64_t digest = XXH3_64bits(old.data(), old.size());
  old.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  write_file(path_, old);
  const auto engine = test::load_engine(config_);
  std::string found;
  ASSERT_EQ(engine->load_session(path_, found), "");
  EXPECT_EQ(found, text);
  EXPECT_EQ(cached_tokens(*engine), 69);
  // The next save makes it a file of today.
  engine->save_session(path_, text + " and answered", false);
  EXPECT_EQ(read_file(path_)[8], 3);
  EXPECT_EQ(test::load_engine(config_)->load_session(path_, found), "");
  EXPECT_EQ(found, text + " and answered");
  for (size_t at = 0; at < old.size(); at += at < 300 ? 1 : 997) {
    std::string damaged = old;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    write_file(path_, damaged);
    EXPECT_NE(engine->load_session(path_, found), "") << "byte " << at;
  }
}

// A conversation in three saves, as a chat makes them.
class Session : public CacheFile {
 protected:
  Session() {
    engine_ = test::load_engine(config_);
    std::vector<int32_t> tokens = prompt_;
    for (int turn = 0; turn < 3; ++turn) {
      const std::vector<int32_t> answer = test::generate(*engine_, tokens, 10);
      tokens.insert(tokens.end(), answer.begin(), answer.end());
      texts_.push_back(str("said ", turn, " times and more\n"));
      engine_->save_session(path_, texts_.back(), false);
      states_.push_back(read_file(path_));
      n_tokens_.push_back(static_cast<int64_t>(tokens.size()) - 1);
      const std::vector<int32_t> question = test::random_tokens(3 + turn, static_cast<uint32_t>(50 + turn));
      tokens.insert(tokens.end(), question.begin(), question.end());
    }
  }
  // Which of the three states a file holds; -1: none of them.
  int state_of(const std::string& bytes) {
    write_file(path_, bytes);
    std::string text;
    const std::string why_not = reader_->load_session(path_, text);
    reader_->check_invariants();
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (why_not.empty() && text == texts_[i]) return static_cast<int>(i);
    }
    return -1;
  }

  std::unique_ptr<Engine> engine_, reader_ = test::load_engine(config_);
  std::vector<std::string> texts_, states_;
  std::vector<int64_t> n_tokens_;
};

TEST_F(Session, ASaveAppendsWhatIsNew) {
  for (size_t i = 1; i < states_.size(); ++i) {
    EXPECT_EQ(states_[i].substr(0, states_[i - 1].size()), states_[i - 1]);
    // At most two pages: the half-filled one again, and the next.
    const int64_t page_bytes =
        kv_bytes_per_page(kv_layer_shapes(read_arch(gguf::File::open(config_.model_path).metadata()), config_.kv), 16);
    EXPECT_LT(static_cast<int64_t>(states_[i].size() - states_[i - 1].size()), 2 * page_bytes + 400);
  }
  // Saved again without anything new: nothing is written.
  engine_->save_session(path_, texts_.back(), true);
  EXPECT_EQ(read_file(path_), states_.back());
  for (size_t i = 0; i < states_.size(); ++i) {
    EXPECT_EQ(state_of(states_[i]), static_cast<int>(i));
    const auto other = test::load_engine(config_);
    std::string text;
    ASSERT_EQ(other->load_session(path_, text), "");
    EXPECT_EQ(cached_tokens(*other), 69);
  }
}

TEST_F(Session, KilledAtAnyMomentItHoldsTheOldStateOrTheNewOne) {
  const std::string& all = states_.back();
  std::vector<size_t> cuts;
  for (size_t i = 1; i < states_.size(); ++i) {
    const size_t begin = states_[i - 1].size(), end = states_[i].size();
    for (size_t at = begin; at < end; at += at < begin + 70 || at + 20 > end ? 1 : 511) cuts.push_back(at);
  }
  for (const size_t cut : cuts) {
    const int expected = cut < states_[1].size() ? 0 : 1;
    EXPECT_EQ(state_of(all.substr(0, cut)), expected) << "cut to " << cut;
  }
  for (size_t cut = 0; cut < states_[0].size(); cut += cut < 210 ? 1 : 1571)
    EXPECT_EQ(state_of(all.substr(0, cut)), -1);
  for (size_t at = 0; at < all.size(); at += 313) {
    std::string damaged = all;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x04);
    EXPECT_EQ(state_of(damaged), -1) << "byte " << at;
  }
  EXPECT_EQ(state_of(all + "x"), -1);
  // A record counts in its place alone.
  const std::string second = all.substr(states_[0].size(), states_[1].size() - states_[0].size());
  EXPECT_EQ(state_of(all + second), -1);
  EXPECT_EQ(state_of(states_[0] + all.substr(states_[1].size())), -1);
}

TEST_F(Session, GoesOnBehindASaveThatWasCutOff) {
  EXPECT_EQ(state_of(states_[2].substr(0, states_[2].size() - 9)), 1);
  const auto engine = test::load_engine(config_);
  std::string text;
  ASSERT_EQ(engine->load_session(path_, text), "");
  engine->save_session(path_, texts_[2], false);
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes.substr(0, states_[1].size()), states_[1]);
  EXPECT_EQ(state_of(bytes), 2);
}

TEST_F(Session, IsWrittenAnewWhenMuchOfItIsOutdatedOrItIsNotOurs) {
  for (int i = 0; i < 8; ++i) {  // each forgets the one before
    test::generate(*engine_, test::random_tokens(40, static_cast<uint32_t>(100 + i)), 5);
    engine_->save_session(path_, "another", false);
    EXPECT_EQ(state_of(read_file(path_)), -1);
    EXPECT_LT(read_file(path_).size(), states_[0].size());
  }
  // Somebody else has written there: what is appended to it would not fit.
  test::generate(*engine_, prompt_, 10);
  engine_->save_session(path_, texts_[0], false);
  write_file(path_, states_[1]);
  engine_->save_session(path_, texts_[2], false);
  EXPECT_EQ(state_of(read_file(path_)), 2);
}

TEST_F(Session, AWriteThatFailsLeavesTheOldState) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limited{states_[2].size() + 100, before.rlim_max};
  std::vector<int32_t> tokens = prompt_;
  tokens.push_back(7);
  test::generate(*engine_, tokens, 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  EXPECT_THAT(test::error_of([&] { engine_->save_session(path_, texts_[2] + "more", false); }),
              HasSubstr("cannot write the cache file"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(read_file(path_), states_[2]);
  engine_->save_session(path_, texts_[1], false);
  EXPECT_EQ(state_of(read_file(path_)), 1);
}

// Of layers with a window the file has what the next token sees; it goes on as the engine that wrote it.
TEST_F(CacheFile, KeepsTheWindowsAlone) {
  EngineConfig config = test::tiny_config(test::tiny_model_file({.arch = "gemma3", .n_layers = 6, .window = 24}));
  EngineConfig full = config;
  full.kv.swa_full = true;
  for (const int n : {1, 20, 24, 40, 41, 160}) {
    const std::vector<int32_t> prompt = test::random_tokens(n, 9);
    const auto engine = test::load_engine(config);
    std::vector<int32_t> longer = prompt;
    const std::vector<int32_t> answer = test::generate(*engine, prompt, 4);
    longer.insert(longer.end(), answer.begin(), answer.end());
    engine->save_cache(path_);
    const auto size = std::filesystem::file_size(path_);
    const auto other = test::load_engine(config);
    EXPECT_EQ(other->load_cache(path_), "");
    other->check_invariants();
    const std::vector<int32_t> after = goes_on_alike(*other, *engine, longer, n + 3);
    const auto keeps_all = test::load_engine(full);
    EXPECT_THAT(keeps_all->load_cache(path_), HasSubstr("expected all their tokens, found those of the window"));
    EXPECT_EQ(test::generate(*keeps_all, longer, 6), after);
    keeps_all->save_cache(path_);
    EXPECT_THAT(other->load_cache(path_), HasSubstr("expected those of the window, found all (--swa-full)"));
    if (n > 100) {
      EXPECT_LT(size, std::filesystem::file_size(path_) / 2);
    }
  }
}

// A long chat saved turn by turn: records bring the window pages of their own tokens, and those before lie in the file.
TEST_F(CacheFile, WindowsAreAppended) {
  EngineConfig config = test::tiny_config(test::tiny_model_file({.arch = "gemma3", .n_layers = 6, .window = 24}));
  const auto engine = test::load_engine(config);
  std::vector<int32_t> chat = test::random_tokens(60, 9);
  for (uint32_t turn = 0; turn < 6; ++turn) {
    const std::vector<int32_t> answer = test::generate(*engine, chat, 5);
    chat.insert(chat.end(), answer.begin(), answer.end());
    engine->save_session(path_, "turn", false);
    const auto other = test::load_engine(config);
    std::string text;
    ASSERT_EQ(other->load_session(path_, text), "") << turn;
    test::RecordingSink sink;
    other->submit(test::greedy(chat, 4, sink));
    other->run_until_idle();
    EXPECT_EQ(sink.stats.n_cached, static_cast<int64_t>(chat.size()) - 1) << turn;
    EXPECT_EQ(sink.tokens, test::generate(*test::load_engine(config), chat, 4)) << turn;
    const std::vector<int32_t> next = test::random_tokens(turn == 3 ? 2 : 15, turn);
    chat.insert(chat.end(), next.begin(), next.end());
  }
  chat.resize(70);  // another way from an early place
  test::generate(*engine, chat, 5);
  engine->save_session(path_, "turn", false);
  const auto other = test::load_engine(config);
  std::string text;
  EXPECT_EQ(other->load_session(path_, text), "");
  other->check_invariants();
}

TEST_F(CacheFile, DamagedWindowsAreRefused) {
  const auto engine =
      test::load_engine(test::tiny_config(test::tiny_model_file({.arch = "gemma3", .n_layers = 6, .window = 24})));
  test::generate(*engine, prompt_, 4);
  engine->save_cache(path_);
  const std::string bytes = read_file(path_);
  for (const size_t cut : {size_t{1}, size_t{9}, size_t{2000}}) {
    write_file(path_, bytes.substr(0, bytes.size() - cut));
    EXPECT_THAT(engine->load_cache(path_), HasSubstr("damaged")) << cut;
    std::string damaged = bytes;
    damaged[bytes.size() - cut] ^= 4;
    write_file(path_, damaged);
    EXPECT_THAT(engine->load_cache(path_), HasSubstr("checksum")) << cut;
  }
  engine->check_invariants();
}

TEST_F(CacheFile, AFailedWriteLeavesTheOldFile) {
  const auto engine = test::load_engine(config_);
  test::generate(*engine, prompt_, 2);
  const std::string folder = std::filesystem::path(path_).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

}  // namespace
}  // namespace loci
