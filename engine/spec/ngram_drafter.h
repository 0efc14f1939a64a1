// NgramDrafter: continues like the last time these tokens stood together, in the request itself or, where it allows,
// in what other requests have said.
#pragma once
#include <map>

#include "engine/spec/drafter.h"
#include "engine/spec/ngram_index.h"

namespace loci {

class NgramDrafter : public Drafter {
 public:
  std::string_view name() const override { return "n-gram"; }
  bool serves(SpeculationMode mode) const override {
    return mode == SpeculationMode::kNgram || mode == SpeculationMode::kAuto;
  }
  void propose(std::span<DraftJob*> jobs) override;
  double first_draft_ms(const DraftJob&) const override { return 0; }
  double next_draft_ms() const override { return 0; }
  bool is_free() const override { return true; }
  void forget(int64_t key, std::span<const int32_t> tokens) override;

 private:
  void propose(DraftJob& job);

  static constexpr size_t kSharedTokens = size_t{1} << 17;

  std::map<int64_t, NgramIndex> own_;
  std::map<int64_t, bool> shares_;
  NgramIndex shared_{kSharedTokens};
};

}  // namespace loci
