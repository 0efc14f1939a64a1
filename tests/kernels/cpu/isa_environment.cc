// Linked into every test binary that is registered once per instruction set: skips all tests where the CPU lacks the
// one that LOCI_ISA forces, and shows which one is at work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kernels/cpu/isa.h"

namespace loci::cpu {
namespace {

class IsaEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* forced = std::getenv("LOCI_ISA");
    if (forced == nullptr || *forced == '\0') return;
    const auto available = available_isas();
    if (std::find(available.begin(), available.end(), forced) == available.end()) {
      GTEST_SKIP() << "this CPU lacks " << forced;
    }
    ASSERT_EQ(choose_kernels().name, std::string(forced));
  }
};

const auto* const g_environment = ::testing::AddGlobalTestEnvironment(new IsaEnvironment);

}  // namespace
}  // namespace loci::cpu
