#include "engine/spec/model_drafter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/sampling/rng.h"
#include "kernels/check.h"
#include "kernels/log.h"

namespace loci {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kConfidenceTokens = 10;  // the softmax for a draft's confidence goes over that many of the best logits
constexpr double kRowSlope = 0.1;      // cost of a further row of a pass, before it has been measured

uint64_t extend_hash(uint64_t hash, int32_t token) {
  return mix64(hash + 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(static_cast<uint32_t>(token))) | 1;  // never 0
}

}  // namespace

struct ModelDrafter::Round {
  DraftJob* job;
  Sampler sampler;                 // goes on from the request's own
  std::vector<int32_t> tokens;     // of the rows that wait for a pass
  std::vector<int32_t> positions;  // of those rows
  uint64_t hash = 0;               // of the sequence and the drafts, up to the last draft
  int32_t last_node = -1;
  bool done = false;
  // Second choices: leaves that hang beside the chain, {parent, token, confidence}.
  struct Leaf {
    int32_t parent, token;
    float confidence;
  };
  std::vector<Leaf> leaves;
};

ModelDrafter::ModelDrafter(std::unique_ptr<DraftModel> model, const KvManager& kv, size_t first_layer, Backend& backend,
                           int max_rows, int64_t target_vocab_size, int64_t draft_vocab, double relative_cost)
    : model_(std::move(model)),
      kv_(kv),
      decoder_(model_->arch, model_->weights, kv, backend, max_rows, first_layer),
      max_rows_(max_rows),
      target_vocab_size_(target_vocab_size),
      relative_cost_(relative_cost),
      cost_(kRowSlope),
      slot_prefix_(static_cast<size_t>(kv.n_pages()) * static_cast<size_t>(kv.page_size()), 0) {
  if (draft_vocab > 0 && draft_vocab < model_->arch.vocab_size) {
    n_frequent_groups_ = static_cast<size_t>((draft_vocab + kOutputGroup - 1) / kOutputGroup);
    groups_.resize(n_frequent_groups_);
    std::iota(groups_.begin(), groups_.end(), 0);
  }
}

// Of the first n tokens, n >= 1.
uint64_t ModelDrafter::prefix_hash(int64_t key, std::span<const int32_t> tokens, size_t n) const {
  std::vector<uint64_t>& hashes = known_[key].hashes;
  while (hashes.size() < n) hashes.push_back(extend_hash(hashes.empty() ? 0 : hashes.back(), tokens[hashes.size()]));
  return hashes[n - 1];
}

// Positions whose draft K/V are missing, and in any case the last token's.
void ModelDrafter::missing_positions(const DraftJob& job, std::vector<int32_t>& positions) const {
  const auto page_size = static_cast<size_t>(kv_.page_size());
  const size_t n = job.tokens.size();
  positions.clear();
  for (size_t begin = 0; begin < n; begin += page_size) {
    const size_t end = std::min(begin + page_size, n);
    const size_t slot = static_cast<size_t>(job.kv->pages[begin / page_size]) * page_size;
    if (slot_prefix_[slot + (end - begin) - 1] == prefix_hash(job.key, job.tokens, end) && end < n) continue;
    for (size_t i = begin; i < end; ++i) {
      const bool known = slot_prefix_[slot + i - begin] == prefix_hash(job.key, job.tokens, i + 1);
      if (!known || i + 1 == n) positions.push_back(static_cast<int32_t>(i));
    }
  }
}

double ModelDrafter::first_draft_ms(const DraftJob& job) const {
  std::vector<int32_t> positions;
  missing_positions(job, positions);
  const auto rows = static_cast<int64_t>(positions.size());
  if (rows <= CostCurve::kMaxRows) return cost_.ms(rows);
  return cost_.ms(CostCurve::kMaxRows) * static_cast<double>(rows) / static_cast<double>(CostCurve::kMaxRows);
}

bool ModelDrafter::can_draft(const DraftJob& job) {
  const auto last = static_cast<int64_t>(job.tokens.size());
  if (last >= model_->arch.n_ctx_train) {
    if (!told_limit_) {
      log_info("note: the draft model's context of ", model_->arch.n_ctx_train, " tokens is full: going on without it");
    }
    told_limit_ = true;
    return false;
  }
  return std::all_of(job.tokens.begin(), job.tokens.end(),
                     [&](int32_t token) { return token < model_->arch.vocab_size; });
}

// One pass over the waiting rows of all rounds, as many as fit; the logits of each round's last row, once it took part.
void ModelDrafter::forward(std::span<Round* const> rounds) {
  const Clock::time_point start = Clock::now();
  const int64_t page_size = kv_.page_size();
  Batch batch;
  std::vector<Round*> ready;
  for (Round* round : rounds) {
    const auto n = std::min(static_cast<int64_t>(round->tokens.size()), max_rows_ - batch.n_rows());
    if (n <= 0) continue;
    const std::vector<int32_t>& pages = round->job->kv->pages;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t position = round->positions[static_cast<size_t>(i)];
      batch.tokens.push_back(round->tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(static_cast<int32_t>(position));
      batch.slots.push_back(pages[static_cast<size_t>(position / page_size)] * page_size + position % page_size);
      const auto slot = static_cast<size_t>(batch.slots.back());
      const auto n_before = static_cast<size_t>(position) + 1;
      slot_prefix_[slot] = n_before > round->job->tokens.size()
                               ? round->hash
                               : prefix_hash(round->job->key, round->job->tokens, n_before);
    }
    const int64_t n_pages = batch.positions.back() / page_size + 1;
    batch.page_indices.insert(batch.page_indices.end(), pages.begin(), pages.begin() + n_pages);
    batch.page_indptr.push_back(static_cast<int32_t>(batch.page_indices.size()));
    batch.q_indptr.push_back(static_cast<int32_t>(batch.tokens.size()));
    round->tokens.erase(round->tokens.begin(), round->tokens.begin() + n);
    round->positions.erase(round->positions.begin(), round->positions.begin() + n);
    if (!round->tokens.empty()) continue;
    batch.logit_rows.push_back(static_cast<int32_t>(batch.n_rows()) - 1);
    ready.push_back(round);
  }
  LOCI_CHECK(decoder_.forward(batch), "a forward pass without a cancel flag was abandoned");
  const auto n_vocab = static_cast<size_t>(model_->arch.vocab_size);
  const std::span<const int32_t> groups = logit_groups(ready);
  for (int64_t first = 0; first < decoder_.n_logit_rows(); first += decoder_.max_logit_rows()) {
    const int64_t count = std::min(decoder_.max_logit_rows(), decoder_.n_logit_rows() - first);
    const std::span<const float> logits = decoder_.logits(first, count, groups);
    for (int64_t row = 0; row < count; ++row) {
      take_logits(*ready[static_cast<size_t>(first + row)],
                  logits.subspan(static_cast<size_t>(row) * n_vocab, n_vocab));
    }
  }
  cost_.observe(batch.n_rows(), std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

void ModelDrafter::note_rare_tokens(const DraftJob& job) {
  if (n_frequent_groups_ == 0) return;
  Known& known = known_[job.key];
  for (; known.n_seen < job.tokens.size(); ++known.n_seen) {
    const int32_t group = job.tokens[known.n_seen] / kOutputGroup;
    if (group < static_cast<int32_t>(n_frequent_groups_)) continue;
    const auto at = std::lower_bound(known.rare_groups.begin(), known.rare_groups.end(), group);
    if (at == known.rare_groups.end() || *at != group) known.rare_groups.insert(at, group);
  }
}

// Groups of token ids whose logits the rounds' rows want; empty: all.
std::span<const int32_t> ModelDrafter::logit_groups(std::span<Round* const> rounds) {
  if (n_frequent_groups_ == 0) return {};
  groups_.resize(n_frequent_groups_);
  for (const Round* round : rounds) {
    const std::vector<int32_t>& rare = known_[round->job->key].rare_groups;
    groups_.insert(groups_.end(), rare.begin(), rare.end());
  }
  std::sort(groups_.begin() + static_cast<ptrdiff_t>(n_frequent_groups_), groups_.end());
  groups_.erase(std::unique(groups_.begin(), groups_.end()), groups_.end());
  return groups_;
}

void ModelDrafter::take_logits(Round& round, std::span<const float> logits) {
  DraftJob& job = *round.job;
  const Speculation& params = *job.params;
  const std::span<const float> row =
      logits.first(static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(logits.size()), target_vocab_size_)));
  const std::optional<int32_t> token = round.sampler.sample(row);
  round.done = true;
  if (!token) return;  // NaN or nothing left: the target will say so
  Candidates best = top_k_of_row(row, std::max(kConfidenceTokens, params.width));
  softmax(best);
  const auto found =
      std::find_if(best.items.begin(), best.items.end(), [&](const Candidate& c) { return c.token == *token; });
  const float confidence = found == best.items.end() ? 0 : static_cast<float>(found->p);
  if (confidence < params.p_min) return;
  const int32_t parent = round.last_node;
  job.tree.add(*token, parent, confidence);
  round.last_node = job.tree.size() - 1;
  int n_beside = params.width - 1;
  for (const Candidate& c : best.items) {
    if (n_beside <= 0) break;
    if (c.token == *token) continue;
    round.leaves.push_back({parent, c.token, static_cast<float>(c.p)});
    --n_beside;
  }
  if (job.tree.size() >= job.max_depth || !job.go_on(job.tree)) return;
  const auto position = static_cast<int64_t>(job.tokens.size()) + job.tree.size() - 1;
  if (position >= model_->arch.n_ctx_train) return;
  round.sampler.accept(*token, false);
  round.hash = extend_hash(round.hash, *token);
  round.tokens.push_back(*token);
  round.positions.push_back(static_cast<int32_t>(position));
  round.done = false;
}

void ModelDrafter::propose(std::span<DraftJob*> jobs) {
  std::vector<std::unique_ptr<Round>> rounds;
  for (DraftJob* job : jobs) {
    if (!can_draft(*job)) continue;
    auto round = std::make_unique<Round>(
        Round{.job = job, .sampler = *job->sampler, .tokens = {}, .positions = {}, .leaves = {}});
    missing_positions(*job, round->positions);
    note_rare_tokens(*job);
    for (const int32_t position : round->positions) round->tokens.push_back(job->tokens[static_cast<size_t>(position)]);
    round->hash = prefix_hash(job->key, job->tokens, job->tokens.size());
    rounds.push_back(std::move(round));
  }
  while (true) {
    std::vector<Round*> active;
    for (const auto& round : rounds) {
      if (!round->done) active.push_back(round.get());
    }
    if (active.empty()) break;
    forward(active);
  }
  // Depth-first order: the leaves behind the chain, those beside its end first.
  for (const auto& round : rounds) {
    std::stable_sort(round->leaves.begin(), round->leaves.end(),
                     [](const Round::Leaf& a, const Round::Leaf& b) { return a.parent > b.parent; });
    for (const Round::Leaf& leaf : round->leaves) round->job->tree.add(leaf.token, leaf.parent, leaf.confidence);
  }
}

void ModelDrafter::page_copied(int32_t src, int32_t dst) {
  const auto page_size = static_cast<ptrdiff_t>(kv_.page_size());
  const auto from = slot_prefix_.begin() + src * page_size;
  std::copy(from, from + page_size, slot_prefix_.begin() + dst * page_size);
}

void ModelDrafter::forget(int64_t key, std::span<const int32_t>) { known_.erase(key); }

}  // namespace loci
