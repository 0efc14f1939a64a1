#include "engine/constraint/number_range.h"

#include <gtest/gtest.h>

#include "tests/constraint/acceptor.h"

namespace loci {
namespace {

Grammar range(int64_t low, int64_t high, int n_decimals) {
  Grammar grammar;
  grammar.set_root(grammar.add_rule("r"));
  grammar.define(0, add_number_range(grammar, low, high, n_decimals));
  grammar.check();
  return grammar;
}

TEST(NumberRange, HoldsExactlyTheNumbersBetween) {
  LOCI_NEEDS_XGRAMMAR();
  const std::pair<int64_t, int64_t> bounds[] = {{0, 0},     {-3, 12}, {5, 5},    {-7, -7},   {0, 99},    {9, 10},
                                                {-120, -9}, {-1, 1},  {17, 203}, {100, 999}, {-5, 1000}, {89, 91}};
  for (const auto& [low, high] : bounds) {
    const test::Acceptor acceptor(range(low, high, 0));
    for (int64_t value = -1100; value <= 1100; ++value) {
      ASSERT_EQ(acceptor.takes(std::to_string(value)), low <= value && value <= high)
          << value << " in " << low << ".." << high;
    }
    for (const char* odd : {"", "-", "-0", "007", "+5", "5.0", "05", "-05"}) {
      EXPECT_FALSE(acceptor.takes(odd)) << odd << " in " << low << ".." << high;
    }
  }
}

TEST(NumberRange, HoldsExactlyTheDecimalsBetween) {
  LOCI_NEEDS_XGRAMMAR();
  const std::pair<int64_t, int64_t> bounds[] = {{-150, 75}, {5, 5}, {0, 100}, {101, 2000}, {-99, -1}};
  for (const auto& [low, high] : bounds) {
    const test::Acceptor acceptor(range(low, high, 2));
    for (int64_t value = -2100; value <= 2100; value += 1) {
      char text[32];
      const int64_t size = value < 0 ? -value : value;
      snprintf(text, sizeof text, "%s%lld.%02lld", value < 0 ? "-" : "", static_cast<long long>(size / 100),
               static_cast<long long>(size % 100));
      ASSERT_EQ(acceptor.takes(text), low <= value && value <= high) << text << " in " << low << ".." << high;
    }
  }
}

TEST(NumberRange, ReachesFifteenDigits) {
  LOCI_NEEDS_XGRAMMAR();
  const test::Acceptor acceptor(range(-kMaxRangeValue, kMaxRangeValue, 0));
  EXPECT_TRUE(acceptor.takes("999999999999999"));
  EXPECT_TRUE(acceptor.takes("-999999999999999"));
  EXPECT_FALSE(acceptor.takes("1000000000000000"));
}

TEST(Multiples, HoldExactlyTheMultiples) {
  LOCI_NEEDS_XGRAMMAR();
  for (const int64_t divisor : {1, 2, 7, 10, 13, 97}) {
    Grammar grammar;
    grammar.set_root(grammar.add_rule("r"));
    grammar.define(0, add_multiples(grammar, divisor));
    grammar.check();
    const test::Acceptor acceptor(grammar);
    for (int64_t value = -300; value <= 300; ++value) {
      ASSERT_EQ(acceptor.takes(std::to_string(value)), value % divisor == 0) << value << " by " << divisor;
    }
    EXPECT_FALSE(acceptor.takes("-0"));
    EXPECT_FALSE(acceptor.takes("014"));
    EXPECT_TRUE(acceptor.takes(std::to_string(999'999'999'999 / divisor * divisor)));
    EXPECT_FALSE(acceptor.takes(std::to_string(divisor) + "000000000000"));
  }
}

}  // namespace
}  // namespace loci
