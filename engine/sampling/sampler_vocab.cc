// What the sampler takes from a tokenizer: ids to ban and the token forms of DRY's sequence breakers.
#include <algorithm>
#include <utility>

#include "engine/sampling/sampler.h"
#include "engine/sampling/steps.h"
#include "engine/text/tokenizer.h"

namespace loci {
namespace {

constexpr size_t kMaxBreakerBytes = 40;  // longer breakers are cut
constexpr size_t kMaxTailTokens = 20;

void add(DryBreakers& breakers, int32_t head, std::vector<int32_t> tail) {
  const auto [begin, end] = breakers.sequences.equal_range(head);
  for (auto it = begin; it != end; ++it) {
    if (it->second == tail) return;
  }
  breakers.sequences.emplace(head, std::move(tail));
}

SamplerVocab make_vocab(const SamplingParams& params, const Tokenizer& tokenizer) {
  const std::span<const int32_t> ends = tokenizer.end_of_generation_ids(), suppressed = tokenizer.suppressed();
  SamplerVocab vocab;
  vocab.end_of_generation.assign(ends.begin(), ends.end());
  vocab.suppressed.assign(suppressed.begin(), suppressed.end());
  // Looks at every word of the vocabulary: only when it is needed.
  if (params.dry_multiplier > 0) vocab.breakers = find_dry_breakers(tokenizer, params.dry_sequence_breakers);
  return vocab;
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, const Tokenizer& tokenizer, std::shared_ptr<const Constraint> constraint)
    : Sampler(params, make_vocab(params, tokenizer)) {
  if (constraint != nullptr) constraint_.emplace(std::move(constraint));
}

DryBreakers find_dry_breakers(const Tokenizer& tokenizer, std::span<const std::string> breakers) {
  DryBreakers found;
  std::vector<std::string> texts;
  for (const std::string& breaker : breakers) {
    if (!breaker.empty()) texts.push_back(breaker.substr(0, kMaxBreakerBytes));
  }
  if (texts.empty()) return found;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string word = tokenizer.token_bytes(id, true);
    for (const std::string& text : texts) {
      if (word.find(text) != std::string::npos) {
        add(found, id, {});
        continue;
      }
      // The word may end with the breaker's beginning; its rest must then follow.
      for (size_t n = std::min(word.size(), text.size() - 1); n > 0; --n) {
        if (word.compare(word.size() - n, n, text, 0, n) != 0) continue;
        std::vector<int32_t> tail = tokenizer.encode(std::string_view(text).substr(n), false, false);
        tail.resize(std::min(tail.size(), kMaxTailTokens));
        add(found, id, std::move(tail));
      }
    }
  }
  return found;
}

}  // namespace loci
