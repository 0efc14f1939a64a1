// Saved caches: what was saved is reused; anything damaged, foreign or too large is refused whole.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

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
    test::RecordingSink sink;
    other->submit(test::greedy(longer, 6, sink));
    other->run_until_idle();
    EXPECT_EQ(sink.stats.n_cached, n + 3);
    EXPECT_EQ(sink.tokens, test::generate(*engine, longer, 6));
    other->check_invariants();
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
  EXPECT_THAT(test::load_engine(config_)->load_cache(path_), HasSubstr("expected version 2, found 1"));
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
