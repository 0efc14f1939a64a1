// Memory that CpuBackend::attention keeps between calls: the plan, the states that go from level to level, and per
// thread the packed queries, the states of the chunk in progress and the stored states of a chunk that another thread
// began.
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

struct AttentionWorkspace {
  SplitPlan plan;
  std::vector<AttentionThread> threads;
  ScratchBuffer kept_buffer;
  float* kept = nullptr;  // [SplitPlan::n_kept, n_heads] SoftmaxStateLayout, between the levels of a plan
};

}  // namespace loci::cpu
