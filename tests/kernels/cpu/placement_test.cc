// Which CPU each thread gets, on machines made up of a few files.
#include "kernels/cpu/placement.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "kernels/error.h"

namespace loci::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Machine kTwoNodes = {
    .usable = {0, 1, 2, 3, 4, 5, 6, 7}, .nodes = {{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}}, .current_cpu = 5};
const Machine kOneNode = {.usable = {0, 1}, .nodes = {{0, {0, 1}}}, .current_cpu = 0};

std::string error_of(const ThreadPlacement& placement, const Machine& machine, const std::string& suffix = "") {
  try {
    (void)plan_placement(placement, machine, 2, suffix);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.what();
  }
  return "no error";
}

TEST(CpuList, ReadsAndWritesTheKernelsNotation) {
  EXPECT_THAT(parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(parse_cpu_list("4,2-3,2"), ElementsAre(2, 3, 4));
  for (const char* bad : {"", "x", "1-", "3-1", "-2", "1,,2", "1 2", "0-99999999", "99999999999"}) {
    EXPECT_THAT(parse_cpu_list(bad), IsEmpty()) << bad;
  }
  EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(cpu_list_text({}), "");
}

TEST(Machine, ReadsTheNodesOfAFakeSystem) {
  const std::filesystem::path sys = std::filesystem::path(testing::TempDir()) / "loci_placement_sys";
  std::filesystem::remove_all(sys);
  const auto put = [&](const std::string& node, const std::string& list) {
    std::filesystem::create_directories(sys / "devices/system/node" / node);
    std::ofstream(sys / "devices/system/node" / node / "cpulist") << list << '\n';
  };
  put("node1", "2-3,6-7");
  put("node0", "0-1,4-5");
  put("node2", "");  // memory without CPUs
  put("power", "0");
  put("nodeX", "0");
  const Machine machine = read_machine(sys.string());
  ASSERT_EQ(machine.nodes.size(), 2u);
  EXPECT_EQ(machine.nodes[0].id, 0);
  EXPECT_THAT(machine.nodes[0].cpus, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(machine.nodes[1].id, 1);
  EXPECT_THAT(machine.nodes[1].cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_FALSE(machine.usable.empty());
  std::filesystem::remove_all(sys);
  EXPECT_THAT(read_machine(sys.string()).nodes, IsEmpty());
}

TEST(Plan, BindsNothingByDefault) {
  const PlacementPlan plan = plan_placement({}, kTwoNodes, 16);
  EXPECT_EQ(plan.mode, PoolMode{});
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(Plan, AMaskHoldsForEveryThread) {
  const PlacementPlan plan = plan_placement({.cpus = {1, 2, 6}, .priority = 1, .poll = 20}, kTwoNodes, 2);
  EXPECT_THAT(plan.mode.cpus, ElementsAre(ElementsAre(1, 2, 6), ElementsAre(1, 2, 6)));
  EXPECT_EQ(plan.mode.priority, 1);
  EXPECT_EQ(plan.mode.spin_us, 20);
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST(Plan, StrictGivesEachThreadOneCpuInTurn) {
  EXPECT_THAT(plan_placement({.cpus = {1, 6}, .strict = true}, kTwoNodes, 3).mode.cpus,
              ElementsAre(ElementsAre(1), ElementsAre(6), ElementsAre(1)));
  EXPECT_THAT(plan_placement({.cpus = {}, .strict = true}, kOneNode, 2).mode.cpus,
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(Plan, CpusThatAreNotThereAreToldOrRefused) {
  const PlacementPlan some = plan_placement({.cpus = {1, 2, 3}}, kOneNode, 1);
  EXPECT_THAT(some.mode.cpus, ElementsAre(ElementsAre(1)));
  EXPECT_THAT(some.warnings, ElementsAre(HasSubstr("CPUs 2-3 are not among the CPUs 0-1")));
  EXPECT_THAT(
      error_of({.cpus = {4, 5}}, kOneNode),
      testing::AllOf(HasSubstr("--cpu-mask, --cpu-range: expected some of the CPUs 0-1"), HasSubstr("found 4-5")));
  EXPECT_THAT(error_of({.cpus = {4}}, kOneNode, "-batch"), HasSubstr("--cpu-mask-batch, --cpu-range-batch:"));
}

TEST(Plan, MoreThreadsThanCpusAreToldOf) {
  EXPECT_THAT(plan_placement({.cpus = {1}}, kOneNode, 2).warnings,
              ElementsAre(HasSubstr("2 threads share the 1 CPU 1")));
}

TEST(Plan, DistributesOverNodes) {
  const ThreadPlacement distribute = {.cpus = {}, .numa = NumaMode::kDistribute};
  const PlacementPlan plan = plan_placement(distribute, kTwoNodes, 3);
  EXPECT_THAT(plan.mode.cpus, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(plan.warnings, IsEmpty());
  // Within a mask; a node that it leaves no CPU of takes no part.
  EXPECT_THAT(
      plan_placement({.cpus = {3, 4, 5}, .strict = true, .numa = NumaMode::kDistribute}, kTwoNodes, 4).mode.cpus,
      ElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(3), ElementsAre(5)));
  EXPECT_THAT(plan_placement({.cpus = {4, 5}, .numa = NumaMode::kDistribute}, kTwoNodes, 2).mode.cpus,
              ElementsAre(ElementsAre(4, 5), ElementsAre(4, 5)));
}

TEST(Plan, IsolatesOnTheNodeItStartedOn) {
  const ThreadPlacement isolate = {.cpus = {}, .numa = NumaMode::kIsolate};
  EXPECT_THAT(placement_cpus(isolate, kTwoNodes), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(plan_placement(isolate, kTwoNodes, 2).mode.cpus,
              ElementsAre(ElementsAre(4, 5, 6, 7), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(error_of({.cpus = {0, 1}, .numa = NumaMode::kIsolate}, kTwoNodes),
              HasSubstr("--numa isolate: expected some of the CPUs 4-7 of node 1"));
}

TEST(Plan, NumactlKeepsTheCpusThatWereGiven) {
  EXPECT_THAT(plan_placement({.cpus = {}, .numa = NumaMode::kNumactl}, kTwoNodes, 1).mode.cpus,
              ElementsAre(kTwoNodes.usable));
}

TEST(Plan, SaysThatOneNodeIsNothingToPlaceOn) {
  for (const NumaMode mode : {NumaMode::kDistribute, NumaMode::kIsolate}) {
    const PlacementPlan plan = plan_placement({.cpus = {}, .numa = mode}, kOneNode, 2);
    EXPECT_THAT(plan.mode.cpus, IsEmpty());
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("this machine has one memory node; it changes nothing")));
  }
}

}  // namespace
}  // namespace loci::cpu
