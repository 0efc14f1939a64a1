#include "engine/spec/draft_tree.h"

#include <gtest/gtest.h>

namespace loci {
namespace {

//        -1
//     10      20
//   11   12    21
//   13
DraftTree example() {
  DraftTree tree;
  tree.add(10, -1, 0.5f);
  tree.add(11, 0, 0.5f);
  tree.add(13, 1, 0.5f);
  tree.add(12, 0, 0.25f);
  tree.add(20, -1, 0.25f);
  tree.add(21, 4, 0.5f);
  tree.check_invariants();
  return tree;
}

TEST(DraftTree, BranchesOwnersDepths) {
  const DraftTree tree = example();
  EXPECT_EQ(tree.n_branches(), 3);
  EXPECT_EQ(tree.owners(), (std::vector<int32_t>{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(tree.branch(0), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tree.branch(1), (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(tree.branch(2), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(tree.depth(-1), 0);
  EXPECT_EQ(tree.depth(2), 3);
  EXPECT_EQ(tree.depth(3), 2);
  EXPECT_EQ(tree.max_depth(), 3);
  EXPECT_EQ(tree.child(-1, 20), 4);
  EXPECT_EQ(tree.child(0, 12), 3);
  EXPECT_EQ(tree.child(0, 21), -1);
  EXPECT_EQ(DraftTree{}.n_branches(), 0);
}

TEST(DraftTree, KeepRenumbers) {
  DraftTree tree = example();
  tree.keep({0, 3, 4});
  tree.check_invariants();
  EXPECT_EQ(tree.tokens, (std::vector<int32_t>{10, 12, 20}));
  EXPECT_EQ(tree.parents, (std::vector<int32_t>{-1, 0, -1}));
  EXPECT_EQ(tree.n_branches(), 2);
  tree.keep({});
  EXPECT_TRUE(tree.empty());
}

TEST(DraftTreeDeathTest, RefusesDisorder) {
  DraftTree repeated;
  repeated.add(1, -1, 1);
  repeated.add(1, -1, 1);
  EXPECT_DEATH(repeated.check_invariants(), "repeats a sibling");
  DraftTree crossed;
  crossed.add(1, -1, 1);
  crossed.add(2, -1, 1);
  crossed.add(3, 0, 1);
  EXPECT_DEATH(crossed.check_invariants(), "depth-first");
  DraftTree tree = example();
  EXPECT_DEATH(tree.keep({1}), "without its parent");
}

}  // namespace
}  // namespace loci
