// How much memory loading takes: the peak of this process's resident memory, against the size of the file.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/engine_helpers.h"
#include "tests/support/heap.h"

namespace loci {
namespace {

// A field of /proc/self/status in bytes; -1 when there is none.
int64_t status_bytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  return -1;
}

// Forgets the peak so far. False where the system does not allow it.
bool reset_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5";
  out.flush();
  return out.good();
}

// The embedding is the larger part of the file.
test::TinyModel wide_model(bool tied) {
  test::TinyModel model;
  model.n_layers = 1;
  model.dim = 16384;
  model.n_heads = model.n_kv_heads = 1;
  model.ffn_dim = 32;
  model.tied = tied;
  return model;
}

class LoadingMemory : public testing::Test {
 protected:
  void SetUp() override {
#ifdef LOCI_SANITIZED
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
};

TEST_F(LoadingMemory, NeverHoldsTwoCopiesOfTheWeights) {
  for (const bool tied : {true, false}) {
    const std::string path = test::tiny_model_file(wide_model(tied));
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    for (const bool use_mmap : {true, false}) {
      EngineConfig config = test::tiny_config(path);
      config.n_ubatch = 16;
      config.n_threads = 2;
      config.use_mmap = use_mmap;
      if (!reset_peak()) GTEST_SKIP() << "the peak of resident memory cannot be reset here";
      const int64_t before = status_bytes("VmRSS");
      const auto engine = test::load_engine(config, "cpu");
      EXPECT_EQ(test::generate(*engine, {1, 2, 3}, 2).size(), 2u);
      const int64_t grown = status_bytes("VmHWM") - before;
      constexpr int64_t kBuffers = 8 << 20;  // activations, K/V, scratch, and two mebibytes of the file for each thread
      EXPECT_LE(grown, file_bytes + kBuffers)
          << (tied ? "tied" : "untied") << (use_mmap ? "" : ", --no-mmap") << ", file of " << file_bytes;
    }
  }
}

// A context costs what its tokens take, not what it could hold; nor does a micro-batch.
TEST_F(LoadingMemory, RoomForMoreTokensCostsNothing) {
  test::TinyModel model;
  model.n_ctx = 1 << 16;
  const std::string path = test::tiny_model_file(model);
  const auto grown_by = [&](int64_t n_ctx, int n_ubatch) {
    EngineConfig config = test::tiny_config(path);
    config.n_ctx = n_ctx;
    config.n_ubatch = n_ubatch;
    reset_peak();
    const int64_t before = status_bytes("VmRSS");
    const auto engine = test::load_engine(config, "cpu");
    EXPECT_EQ(test::generate(*engine, {1, 2, 3}, 2).size(), 2u);
    EXPECT_EQ(engine->info().kv_bytes, n_ctx * 512);
    return status_bytes("VmHWM") - before;
  };
  if (!reset_peak()) GTEST_SKIP() << "the peak of resident memory cannot be reset here";
  grown_by(256, 16);  // the heap grows once
  const int64_t little = grown_by(256, 16);
  EXPECT_LE(grown_by(1 << 16, 2048), little + (1 << 20)) << "room for 32 MiB of K/V and 2048 rows";
}

TEST_F(LoadingMemory, LocksWhatItComputesWith) {
  for (const bool tied : {true, false}) {
    EngineConfig config = test::tiny_config(test::tiny_model_file({.dim = 256, .tied = tied}));
    config.use_mlock = true;
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const int64_t before = status_bytes("VmLck");
    testing::internal::CaptureStderr();
    const auto engine = test::load_engine(config, "cpu");
    const std::string warning = testing::internal::GetCapturedStderr();
    if (!warning.empty()) {
      EXPECT_THAT(warning, testing::AllOf(testing::HasSubstr("cannot lock"), testing::HasSubstr("ulimit -l")));
      EXPECT_NE(limit.rlim_cur, RLIM_INFINITY);
      continue;
    }
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(config.model_path));
    EXPECT_GE(status_bytes("VmLck") - before, file_bytes * 9 / 10);
    EXPECT_EQ(test::generate(*engine, {1, 2, 3}, 4),
              test::generate(*test::load_engine(test::tiny_config(config.model_path), "cpu"), {1, 2, 3}, 4));
  }
}

}  // namespace
}  // namespace loci
