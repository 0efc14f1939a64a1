// The choice of an instruction set, and the parts of the backend that do not depend on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/isa.h"
#include "kernels/error.h"

namespace loci::cpu {
namespace {

// Sets LOCI_ISA for one scope.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    if (const char* old = std::getenv("LOCI_ISA")) saved_ = old;
    setenv("LOCI_ISA", value, 1);
  }
  ~ForcedIsa() { saved_ ? setenv("LOCI_ISA", saved_->c_str(), 1) : unsetenv("LOCI_ISA"); }

 private:
  std::optional<std::string> saved_;
};

std::string message_for(const char* isa) {
  const ForcedIsa forced(isa);
  try {
    (void)make_cpu_backend({});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(IsaChoice, ForcedIsaIsTheActiveOne) {
  const auto available = available_isas();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(available.back(), "scalar");
  for (const std::string_view isa : available) {
    const ForcedIsa forced(std::string(isa).c_str());
    EXPECT_EQ(choose_kernels().name, isa);
    EXPECT_EQ(make_cpu_backend({.n_threads = 1})->describe(), "CPU " + std::string(isa) + ", 1 thread");
  }
}

TEST(IsaChoice, EmptyMeansTheBest) {
  const ForcedIsa forced("");
  EXPECT_EQ(choose_kernels().name, available_isas().front());
}

TEST(IsaChoice, UnknownIsRefused) {
  const std::string message = message_for("sse9");
  EXPECT_NE(message.find("LOCI_ISA"), std::string::npos) << message;
  EXPECT_NE(message.find("sse9"), std::string::npos) << message;
  EXPECT_NE(message.find("scalar"), std::string::npos) << message;
}

TEST(IsaChoice, LackingIsRefused) {
  const auto available = available_isas();
  for (const std::string isa : {"amx", "avx512vnni", "avx512", "avxvnni", "avx2"}) {
    if (std::find(available.begin(), available.end(), isa) != available.end()) continue;
    EXPECT_NE(message_for(isa.c_str()).find(isa), std::string::npos);
  }
}

TEST(ThreadCount, IsAtLeastOneAndCanBeSet) {
  EXPECT_GE(default_thread_count(), 1);
  const auto backend = make_cpu_backend({.n_threads = 2, .n_threads_batch = 3});
  EXPECT_NE(backend->describe().find("2 threads (3 for batches)"), std::string::npos) << backend->describe();
  backend->set_threads(1, 0);
  EXPECT_NE(backend->describe().find("1 thread"), std::string::npos);
  EXPECT_THROW(backend->set_threads(-1, 0), Error);
  EXPECT_THROW(backend->set_threads(1 << 20, 0), Error);
}

}  // namespace
}  // namespace loci::cpu
