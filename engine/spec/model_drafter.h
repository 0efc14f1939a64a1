// ModelDrafter: a smaller model of the same vocabulary drafts what the target will say. Its K/V are layers of their
// own behind the target's, on the same pages: one page id addresses both, so that prefix reuse, forks and rollback
// serve both. They are filled only as far as drafting needs them.
//
// A draft is what the request's own sampler would choose from the draft model's logits, with the random numbers of
// that place: at any temperature it tends to be the choice that the same numbers make from the target's logits.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/spec/cost_curve.h"
#include "engine/spec/draft_model.h"
#include "engine/spec/drafter.h"

namespace loci {

class ModelDrafter : public Drafter {
 public:
  // The layers of `kv` from first_layer on are the draft model's. All references outlive the drafter.
  //   draft_vocab    > 0: only the first so many token ids are drafted, and those that the text holds already. Ids of
  //                  merged vocabularies begin with the frequent tokens, and the head is a large part of a small
  //                  model (FR-Spec: Zhao et al. 2025, arXiv:2502.14856)
  //   relative_cost  of a row of the draft model to one of the target, until passes have been measured
  ModelDrafter(std::unique_ptr<DraftModel> model, const KvManager& kv, size_t first_layer, Backend& backend,
               int max_rows, int64_t target_vocab_size, int64_t draft_vocab, double relative_cost);

  std::string_view name() const override { return "draft model"; }
  bool serves(SpeculationMode mode) const override {
    return mode == SpeculationMode::kDraft || mode == SpeculationMode::kAuto;
  }
  void propose(std::span<DraftJob*> jobs) override;
  double first_draft_ms(const DraftJob& job) const override;
  double next_draft_ms() const override { return cost_.ms(1); }
  void target_row_takes(double ms) override { cost_.assume(ms * relative_cost_); }
  void page_copied(int32_t src, int32_t dst) override;
  void forget(int64_t key, std::span<const int32_t> tokens) override;

 private:
  // What is known of a sequence.
  struct Known {
    std::vector<uint64_t> hashes;      // [n]: of the first n + 1 tokens
    std::vector<int32_t> rare_groups;  // of token ids past draft_vocab that its first n_seen tokens hold, ascending
    size_t n_seen = 0;
  };
  // A job in progress.
  struct Round;

  uint64_t prefix_hash(int64_t key, std::span<const int32_t> tokens, size_t n) const;
  void missing_positions(const DraftJob& job, std::vector<int32_t>& positions) const;
  bool can_draft(const DraftJob& job);
  void forward(std::span<Round* const> rounds);
  void note_rare_tokens(const DraftJob& job);
  std::span<const int32_t> logit_groups(std::span<Round* const> rounds);
  void take_logits(Round& round, std::span<const float> logits);

  std::unique_ptr<DraftModel> model_;
  const KvManager& kv_;
  Decoder decoder_;
  int max_rows_;
  int64_t target_vocab_size_;
  double relative_cost_;
  CostCurve cost_;
  bool told_limit_ = false;
  // The token prefix whose draft K/V a slot holds; 0: none. What pages hold changes without notice, so that a slot is
  // trusted only when this agrees. A collision costs a bad draft, nothing else.
  std::vector<uint64_t> slot_prefix_;       // [n_pages * page_size]
  mutable std::map<int64_t, Known> known_;  // by job key
  std::vector<int32_t> groups_;             // frequent ones, then those of the pass in hand
  size_t n_frequent_groups_ = 0;            // 0: all logits
};

}  // namespace loci
