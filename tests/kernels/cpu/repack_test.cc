// Panels and back: single rows come out of a panel byte for byte as they went in.
#include "kernels/cpu/repack.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cpu/cpu_weight.h"

namespace loci::cpu {
namespace {

TEST(RestoreRow, GivesBackEveryByte) {
  std::mt19937 random(7);
  for (const DType type :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kIQ4_NL, DType::kMXFP4,
        DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kF32, DType::kF16, DType::kBF16}) {
    const PanelType panel_type = panel_type_of(type).value();
    constexpr int64_t kElements = 1536;
    for (const int n_rows : {16, 5}) {
      std::vector<std::vector<uint8_t>> rows;
      std::vector<const uint8_t*> addresses;
      for (int r = 0; r < n_rows; ++r) {
        rows.emplace_back(static_cast<size_t>(row_bytes(type, kElements)));
        for (uint8_t& byte : rows.back()) byte = static_cast<uint8_t>(random());
      }
      for (const auto& row : rows) addresses.push_back(row.data());
      std::vector<uint8_t> panel(panel_bytes(panel_type, kElements));
      repack_panel(panel_type, addresses.data(), n_rows, kElements, panel.data());
      for (int r = 0; r < n_rows; ++r) {
        std::vector<uint8_t> back(rows[0].size(), 0xee);
        for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 1024}, {1024, 512}}) {
          restore_row(panel_type, panel.data(), r, first, n, back.data() + row_bytes(type, first));
        }
        ASSERT_EQ(back, rows[static_cast<size_t>(r)]) << name(type) << " lane " << r;
      }
    }
  }
}

TEST(RepackFullPanel, GivesTheSameBytesAsLaneByLane) {
  std::mt19937 random(8);
  int n_known = 0;
  for (int type = 0; type < kPanelTypeCount; ++type) {
    const auto panel_type = static_cast<PanelType>(type);
    constexpr int64_t kElements = 768;
    const size_t n_bytes = panel_bytes(panel_type, kElements);
    std::vector<std::vector<uint8_t>> rows(kPanelRows, std::vector<uint8_t>(n_bytes / kPanelRows));
    std::vector<const uint8_t*> addresses;
    for (std::vector<uint8_t>& row : rows) {
      for (uint8_t& byte : row) byte = static_cast<uint8_t>(random());
      addresses.push_back(row.data());
    }
    std::vector<uint8_t> full(n_bytes), by_lane(n_bytes);
    if (!repack_full_panel(panel_type, addresses.data(), kElements, full.data())) continue;
    ++n_known;
    repack_panel(panel_type, addresses.data(), kPanelRows, kElements, by_lane.data());
    EXPECT_EQ(full, by_lane) << "panel type " << type;
  }
  EXPECT_EQ(n_known, 11);
}

// All scales of MXFP4, the subnormal ones included.
TEST(RestoreRow, KeepsEveryMxfp4Scale) {
  for (int scale = 0; scale < 256; ++scale) {
    std::vector<uint8_t> row(17, 0x35);
    row[0] = static_cast<uint8_t>(scale);
    const uint8_t* address = row.data();
    std::vector<uint8_t> panel(panel_bytes(kPanelMXFP4, 32)), back(17);
    repack_panel(kPanelMXFP4, &address, 1, 32, panel.data());
    restore_row(kPanelMXFP4, panel.data(), 0, 0, 32, back.data());
    ASSERT_EQ(back, row);
  }
}

}  // namespace
}  // namespace loci::cpu
