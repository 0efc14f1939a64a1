// Memory that CpuBackend::attention keeps between calls: the plans of a batch, the states that go from level to level,
// and per thread the packed queries, the states of the chunk in progress and the stored states of a chunk that another
// thread began.
#pragma once
#include <vector>

#include "kernels/attention/mask.h"
#include "kernels/attention/split_plan.h"
#include "kernels/cpu/huge_memory.h"

namespace loci::cpu {

struct alignas(128) AttentionThread {
  ScratchBuffer q_buffer, states_buffer, scratch_buffer, expanded_buffer, stored_buffer;
  float* q = nullptr;         // [chunk rows, head_dim] in row blocks, see AttendSplit::q
  float* states = nullptr;    // [chunk rows] SoftmaxStateLayout
  float* scratch = nullptr;   // AttendSplit::scratch
  float* expanded = nullptr;  // AttendSplit::expanded
  float* stored = nullptr;    // [stored_splits][chunk rows] SoftmaxStateLayout
  int stored_splits = 0;
  std::vector<KeyRange> row_keys;    // [chunk rows] keys that the row sees
  std::vector<KeyRange> split_keys;  // [chunk rows] the same within the split in progress
};

// What a plan follows from, beside what the lists of its batch hold. All layers with the same window have one plan.
struct PlanKey {
  const int32_t* page_indices = nullptr;
  size_t n_rows = 0, n_page_lists = 0;
  int n_kv_heads = 0, group = 0, window = 0, n_threads = 0, page_size = 0;
  bool operator==(const PlanKey&) const = default;
};

struct KeptPlan {
  PlanKey key;
  SplitPlan plan;
};

struct AttentionWorkspace {
  uint64_t batch_id = 0;  // of the plans
  std::vector<KeptPlan> plans;
  size_t n_plans = 0;      // those of `plans` that are in use; the others keep their memory
  int64_t plans_made = 0;  // since the start
  std::vector<AttentionThread> threads;
  ScratchBuffer kept_buffer;
  float* kept = nullptr;  // [SplitPlan::n_kept, n_heads] SoftmaxStateLayout, between the levels of a plan
};

}  // namespace loci::cpu
