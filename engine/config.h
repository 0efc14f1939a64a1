// Plain configuration of the engine: defaults and units. Filled by main/, checked once, const from then on.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kv_format/kv_layer.h"
#include "kernels/thread_placement.h"

namespace loci {

// bytes done, bytes in all, what is being loaded. Returning false abandons the load (Error "interrupted").
using LoadProgress = std::function<bool(int64_t done, int64_t total, std::string_view what)>;

struct KvConfig {
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  int page_size = 16;        // tokens; a multiple of 16
  bool swa_full = false;     // layers with a sliding window keep all their tokens, like the others
  int64_t budget_bytes = 0;  // of the pool; 0: from n_ctx, max_sequences and the memory left (pool_size.h)
  // Most host memory for sequences that were swapped out; -1: as much as the pages, at most a quarter of what is free.
  int64_t swap_bytes = -1;
};

struct RopeOverrides {       // 0 / empty: from the model
  std::string scaling_type;  // none, linear, yarn
  double scale = 0;          // context is stretched by this factor
  double freq_base = 0, freq_scale = 0;
  double yarn_ext_factor = -1, yarn_attn_factor = -1, yarn_beta_fast = -1, yarn_beta_slow = -1;
  int64_t yarn_orig_ctx = 0;
};

// How a sequence makes way when pages are short: its K/V are computed again later, or copied to a host buffer.
enum class Preemption { kAuto, kRecompute, kSwap };  // kAuto: what is estimated to take less time

struct EngineConfig {
  std::string model_path;
  int64_t n_ctx = 0;        // tokens; 0: the model's trained length
  int n_batch = 2048;       // logical batch: most prompt tokens taken from one request at a time
  int n_ubatch = 512;       // most rows of one forward pass
  int n_threads = 0;        // 0: auto
  int n_threads_batch = 0;  // 0: as n_threads
  ThreadPlacement placement = {};
  BatchPlacement placement_batch = {};
  bool precise = false;  // f32 activations; main/ then asks for f32 K/V too, unless told otherwise
  bool use_mmap = true;
  bool use_mlock = false;
  int max_sequences = 1;  // sequences that may be live at once, each of at most n_ctx tokens
  int max_queue = 0;      // requests that may wait for admission; 0: any number
  // While others decode, a step takes only as many prompt rows as it can compute in this time (and at least
  // Scheduler::kMinPrefillRows): a long prompt delays a token by no more. 0: no such limit.
  double max_stall_ms = 200;
  double ageing_ms = 10000;  // time without service that lifts a request by one priority class
  Preemption preemption = Preemption::kAuto;
  std::string draft_model_path;  // a smaller model of the same vocabulary for Speculation; empty: none
  int draft_vocab = 32768;       // it drafts the first so many token ids only; 0: all
  bool share_prefixes = true;    // attention reads the pages that sequences share once per step; never changes a result
  KvConfig kv;
  RopeOverrides rope;
  std::vector<std::pair<std::string, std::string>> override_kv;  // key, "TYPE:VALUE"
};

}  // namespace loci
