#include "engine/spec/ngram_index.h"

#include <algorithm>

namespace loci {
namespace {

constexpr int32_t kBorder = -1;
constexpr size_t kNone = SIZE_MAX;
constexpr int kMaxPlaces = 64;  // looked at for one context

uint64_t pair_key(int32_t a, int32_t b) {
  return uint64_t{static_cast<uint32_t>(a)} << 32 | uint64_t{static_cast<uint32_t>(b)};
}

}  // namespace

// Place `next` is known as the continuation of what stands before it.
void NgramIndex::index(size_t next) {
  earlier_[next] = kNone;
  if (next < 1 || tokens_[next] == kBorder || tokens_[next - 1] == kBorder) return;
  after_one_[tokens_[next - 1]] = next;
  if (next < 2 || tokens_[next - 2] == kBorder) return;
  const auto [it, is_new] = after_two_.try_emplace(pair_key(tokens_[next - 2], tokens_[next - 1]), next);
  if (is_new) return;
  earlier_[next] = it->second;
  it->second = next;
}

void NgramIndex::append(int32_t token) {
  if (capacity_ > 0 && tokens_.size() >= 2 * capacity_) {
    tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<ptrdiff_t>(capacity_));
    earlier_.resize(tokens_.size());
    after_one_.clear();
    after_two_.clear();
    for (size_t i = 0; i < tokens_.size(); ++i) index(i);
  }
  tokens_.push_back(token);
  earlier_.push_back(kNone);
  index(tokens_.size() - 1);
}

void NgramIndex::append_border() {
  if (!tokens_.empty() && tokens_.back() != kBorder) append(kBorder);
}

std::vector<NgramIndex::Match> NgramIndex::find(std::span<const int32_t> context, int n) const {
  std::vector<Match> found;
  if (context.empty() || n <= 0) return found;
  const int32_t last = context.back();
  size_t place = kNone;
  if (context.size() >= 2) {
    const auto it = after_two_.find(pair_key(context[context.size() - 2], last));
    if (it != after_two_.end()) place = it->second;
  }
  if (place == kNone) {
    if (const auto it = after_one_.find(last); it != after_one_.end()) found.push_back({it->second, 1});
    return found;
  }
  const int longest = static_cast<int>(std::min<size_t>(context.size(), kMaxLength));
  std::vector<Match> all;
  for (int i = 0; place != kNone && i < kMaxPlaces; ++i, place = earlier_[place]) {
    int length = 2;
    while (length < longest && place >= static_cast<size_t>(length) + 1 &&
           tokens_[place - static_cast<size_t>(length) - 1] ==
               context[context.size() - static_cast<size_t>(length) - 1]) {
      ++length;
    }
    all.push_back({place, length});
  }
  std::stable_sort(all.begin(), all.end(), [](const Match& a, const Match& b) { return a.length > b.length; });
  for (const Match& match : all) {
    const bool seen =
        std::any_of(found.begin(), found.end(), [&](const Match& f) { return tokens_[f.next] == tokens_[match.next]; });
    if (!seen) found.push_back(match);
    if (static_cast<int>(found.size()) == n) break;
  }
  return found;
}

std::span<const int32_t> NgramIndex::continuation(const Match& match, int n) const {
  size_t end = match.next;
  while (end < tokens_.size() && tokens_[end] != kBorder && end - match.next < static_cast<size_t>(std::max(n, 0)))
    ++end;
  return std::span(tokens_).subspan(match.next, end - match.next);
}

}  // namespace loci
