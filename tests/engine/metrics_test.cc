// Histograms against sorted values; the summary's lines.
#include "engine/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace loci {
namespace {

TEST(Histogram, PutsEachValueBetweenTheBoundsOfItsBucket) {
  for (int bucket = 0; bucket + 1 < Histogram::kBuckets; ++bucket) {
    Histogram at, below;
    at.add(Histogram::upper_bound(bucket));
    below.add(std::nextafter(Histogram::upper_bound(bucket), 0.0));
    EXPECT_EQ(at.counts[static_cast<size_t>(bucket + 1)], 1) << bucket;
    EXPECT_EQ(below.counts[static_cast<size_t>(bucket)], 1) << bucket;
  }
  Histogram ends;
  for (const double value : {0.0, 1e-30, 1e30}) ends.add(value);
  EXPECT_EQ(ends.counts.front(), 2);
  EXPECT_EQ(ends.counts.back(), 1);
}

TEST(Histogram, PercentilesAreCloseToThoseOfTheValues) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> draw(3, 1.5);
  Histogram histogram;
  std::vector<double> values(10000);
  for (double& value : values) histogram.add(value = draw(random));
  std::sort(values.begin(), values.end());
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9}) {
    const double exact = values[static_cast<size_t>(std::ceil(percent / 100 * 10000)) - 1];
    EXPECT_LE(std::abs(histogram.percentile(percent) - exact), exact * (std::exp2(0.25) - 1)) << percent;
  }
  EXPECT_EQ(histogram.percentile(100), values.back());
  EXPECT_EQ(histogram.n, 10000);
}

TEST(Histogram, WithoutValuesOrWithOne) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(50), 0);
  EXPECT_EQ(histogram.mean(), 0);
  histogram.add(7);
  for (const double percent : {0.0, 50.0, 100.0}) EXPECT_NEAR(histogram.percentile(percent), 7, 1.4) << percent;
  EXPECT_EQ(histogram.mean(), 7);
}

TEST(Metrics, SummaryTellsWhatHappenedAndLeavesOutWhatDidNot) {
  Metrics metrics;
  EXPECT_THAT(summary(metrics), testing::Not(testing::HasSubstr("preempted")));
  EXPECT_THAT(summary(metrics), testing::Not(testing::HasSubstr("drafts")));
  metrics.n_finished[static_cast<size_t>(FinishReason::kDeadline)] = 2;
  metrics.n_preempted_swap = 3;
  metrics.n_drafted = {100, 50};
  metrics.n_accepted = {80, 20};
  for (const auto& [allocated, used] : {std::pair(300, 295), std::pair(500, 480), std::pair(200, 200)}) {
    metrics.count_slots(allocated, used);
  }
  metrics.kv_bytes_read = 5 << 20;
  metrics.decode_kv_bytes_read = 4 << 20;
  metrics.n_decode_step_tokens = 1024;
  EXPECT_THAT(summary(metrics),
              testing::AllOf(testing::HasSubstr("2 deadline"), testing::HasSubstr("3 by swapping"),
                             testing::HasSubstr("80 40 %"),
                             testing::HasSubstr("2.5 % of the allocated slots wasted (at the peak 4.0 %)"),
                             testing::HasSubstr("5.0 MiB read, 4.0 KiB per generated token")));
}

}  // namespace
}  // namespace loci
