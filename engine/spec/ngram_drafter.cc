#include "engine/spec/ngram_drafter.h"

#include <algorithm>

namespace loci {
namespace {

// The longer the tokens that agree, the likelier the next one does: odds of length : 1, before anything is learned.
float confidence(int length) { return static_cast<float>(length) / static_cast<float>(length + 1); }

struct Source {
  const NgramIndex* index;
  NgramIndex::Match match;
};

}  // namespace

void NgramDrafter::propose(std::span<DraftJob*> jobs) {
  for (DraftJob* job : jobs) propose(*job);
}

void NgramDrafter::propose(DraftJob& job) {
  NgramIndex& own = own_[job.key];
  for (size_t i = own.tokens().size(); i < job.tokens.size(); ++i) own.append(job.tokens[i]);
  shares_[job.key] = job.params->shared_ngrams;

  const int width = std::max(job.params->width, 1);
  std::vector<Source> sources;
  for (const NgramIndex::Match& match : own.find(job.tokens, width)) sources.push_back({&own, match});
  if (job.params->shared_ngrams) {
    for (const NgramIndex::Match& match : shared_.find(job.tokens, width)) sources.push_back({&shared_, match});
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const Source& a, const Source& b) { return a.match.length > b.match.length; });
  int n_branches = 0;
  float left = 1;  // probability that none of the branches before is right
  for (const Source& source : sources) {
    if (n_branches == width) break;
    const std::span<const int32_t> known = source.index->continuation(source.match, job.max_depth);
    if (known.empty() || job.tree.child(-1, known.front()) >= 0) continue;
    int32_t parent = -1;
    // A text that repeats itself is followed past its end, on to the drafts.
    const int n = source.index == &own ? job.max_depth : static_cast<int>(known.size());
    std::vector<int32_t> drafts(known.begin(), known.end());
    for (auto i = static_cast<int>(drafts.size()); i < n; ++i)
      drafts.push_back(drafts[static_cast<size_t>(i) - known.size()]);
    for (int i = 0; i < n; ++i) {
      const float probability = confidence(source.match.length + i) * (i == 0 ? left : 1.0f);
      job.tree.add(drafts[static_cast<size_t>(i)], parent, probability);
      parent = job.tree.size() - 1;
    }
    left -= confidence(source.match.length) * left;
    ++n_branches;
  }
}

void NgramDrafter::forget(int64_t key, std::span<const int32_t> tokens) {
  own_.erase(key);
  const auto shares = shares_.find(key);
  if (shares == shares_.end()) return;
  if (shares->second) {
    shared_.append_border();
    for (const int32_t token : tokens) shared_.append(token);
  }
  shares_.erase(shares);
}

}  // namespace loci
