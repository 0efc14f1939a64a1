// Parts of loci batch: lines of any length and end, the order of work, ids that stay.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "main/batch_input.h"
#include "main/batch_ledger.h"
#include "main/batch_queue.h"
#include "tests/support/tiny_model.h"

namespace loci::cli {
namespace {

std::vector<InputLine> read_all(const std::string& text) {
  const std::string path = test::temporary_path("lines.txt");
  std::ofstream(path, std::ios::binary) << text;
  LineReader reader(path);
  std::vector<InputLine> lines;
  InputLine line;
  while (reader.next(line, -1) == LineReader::Status::kLine) lines.push_back(line);
  EXPECT_EQ(reader.n_read_bytes(), static_cast<int64_t>(text.size()));
  EXPECT_EQ(reader.n_lines(), count_lines(path));
  return lines;
}

TEST(BatchInput, LineEndsMeetTheBordersOfReads) {
  for (const size_t n : {65530u, 65535u, 65536u, 65537u, 131072u}) {
    for (const char* end : {"\n", "\r\n", "\r"}) {
      const std::string first(n, 'a');
      const std::vector<InputLine> lines = read_all(first + end + "b" + end + end + "c");
      ASSERT_EQ(lines.size(), 3u);
      EXPECT_EQ(lines[0].text, first);
      EXPECT_EQ(lines[1].text, "b");
      EXPECT_EQ(lines[1].number, 2);
      EXPECT_EQ(lines[2].text, "c");
      EXPECT_EQ(lines[2].number, 4);
      EXPECT_EQ(lines[2].ordinal, 3);
    }
  }
}

TEST(BatchInput, MarksAndBlankLinesAreNoPrompts) {
  EXPECT_TRUE(read_all("").empty());
  EXPECT_TRUE(read_all("\n\r\n \t\r").empty());
  ASSERT_EQ(read_all("\xef\xbb\xbfx").size(), 1u);
  EXPECT_EQ(read_all("\xef\xbb\xbfx")[0].text, "x");
  EXPECT_EQ(read_all(std::string("a\0b\n", 4))[0].text, std::string("a\0b", 3));
}

BatchJob job(const std::string& name, std::vector<int32_t> tokens) {
  BatchJob out;
  out.custom_id = name;
  out.request.prompts.push_back({std::move(tokens), ""});
  return out;
}

TEST(BatchQueue, NeighboursShareTheLongestBeginning) {
  PrefixQueue queue;
  queue.add(job("b2", {2, 1, 5}));
  queue.add(job("a2", {1, 9}));
  queue.add(job("b1", {2, 1}));
  queue.add(job("a1", {1, 3, 3}));
  queue.add(job("b1 again", {2, 1}));
  std::string order;
  for (int i = 0; i < 2; ++i) order += queue.take().custom_id + " ";
  // Behind the walk: it comes round again. Before it: taken on the way.
  queue.add(job("a0", {1}));
  queue.add(job("b0", {2}));
  while (!queue.empty()) order += queue.take().custom_id + " ";
  EXPECT_EQ(order, "a1 a2 b0 b1 b1 again b2 a0 ");
  EXPECT_EQ(queue.n_bytes(), 0);
}

TEST(BatchQueue, HigherPriorityGoesFirst) {
  PrefixQueue queue;
  const auto add = [&](const char* id, std::vector<int32_t> tokens, int priority) {
    BatchJob added = job(id, std::move(tokens));
    added.request.priority = priority;
    queue.add(std::move(added));
  };
  add("a", {1}, 0);
  add("c", {3}, 0);
  add("low", {2}, -1);
  add("e", {5}, 0);
  add("high2", {9}, 5);
  add("high1", {2}, 5);
  std::string order;
  for (int i = 0; i < 4; ++i) order += queue.take().custom_id + " ";
  add("late", {7}, 5);
  while (!queue.empty()) order += queue.take().custom_id + " ";
  EXPECT_EQ(order, "high1 high2 a c late e low ");
}

TEST(BatchLedger, IdsStayAndDuplicatesAreCounted) {
  EXPECT_EQ(stable_id({"ab", "c"}).size(), 32u);
  EXPECT_NE(stable_id({"ab", "c"}), stable_id({"a", "bc"}));
  BatchLedger first;
  const BatchLedger::Answer a = first.look_up("x", "one");
  EXPECT_EQ(a.verdict, BatchLedger::Verdict::kNew);
  const BatchLedger::Answer again = first.look_up("x", "one");
  EXPECT_EQ(again.verdict, BatchLedger::Verdict::kDuplicate);
  EXPECT_NE(a.request_id, again.request_id);

  BatchLedger second;
  second.add_result("x", a.request_id, false);
  second.add_duplicate(again.request_id);
  second.add_result("y", "batch_req_other", true);
  EXPECT_EQ(second.n_done(), 1);
  EXPECT_EQ(second.n_failed(), 2);
  const BatchLedger::Answer done = second.look_up("x", "one");
  EXPECT_EQ(done.verdict, BatchLedger::Verdict::kDone);
  EXPECT_FALSE(done.changed);
  EXPECT_EQ(second.look_up("x", "one").verdict, BatchLedger::Verdict::kDuplicateTold);
  const BatchLedger::Answer failed = second.look_up("y", "two");
  EXPECT_EQ(failed.verdict, BatchLedger::Verdict::kFailed);
  EXPECT_TRUE(failed.changed);
}

}  // namespace
}  // namespace loci::cli
