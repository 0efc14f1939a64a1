#include "engine/sampling/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampling/plain_math.h"

namespace loci {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxFloat = std::numeric_limits<float>::max();

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

float max_logit(const Candidates& c) {
  if (c.sorted) return c.items.front().logit;
  float best = c.items.front().logit;
  for (const Candidate& item : c.items) best = std::max(best, item.logit);
  return best;
}

// Orders the best n candidates at the front; the rest follows in any order.
void sort_best(Candidates& c, size_t n) {
  if (c.sorted) return;
  n = std::min(n, c.items.size());
  const auto middle = c.items.begin() + static_cast<ptrdiff_t>(n);
  if (n < c.items.size()) std::nth_element(c.items.begin(), middle, c.items.end(), better);
  std::sort(c.items.begin(), middle, better);
  c.sorted = n == c.items.size();
}

void keep_best(Candidates& c, size_t n) {
  sort_best(c, n);
  c.items.resize(std::min(n, c.items.size()));
  c.sorted = true;
}

double entropy(const Candidates& c) {
  double sum = 0;
  for (const Candidate& item : c.items) {
    if (item.p > 0) sum -= item.p * plain::log(item.p);
  }
  return sum;
}

constexpr size_t kLanes = 16;

// Greatest of a run, NaN ignored; -inf when there is none. Lanes let the compiler use vector max.
float max_of(std::span<const float> row) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = row[i + lane] > lanes[lane] ? row[i + lane] : lanes[lane];
  }
  float best = -kInfinity;
  for (const float lane : lanes) best = lane > best ? lane : best;
  for (; i < row.size(); ++i) best = row[i] > best ? row[i] : best;
  return best;
}

}  // namespace

std::optional<int32_t> argmax(std::span<const float> row) {
  const float best = max_of(row);
  if (best == -kInfinity) return std::nullopt;
  constexpr size_t kBlock = 64;
  size_t i = 0;
  for (; i + kBlock <= row.size(); i += kBlock) {
    int hits = 0;
    for (size_t j = 0; j < kBlock; ++j) hits += row[i + j] == best;
    if (hits != 0) break;
  }
  while (row[i] != best) ++i;
  return static_cast<int32_t>(i);
}

Candidates all_candidates(std::span<const float> row) {
  Candidates c;
  c.items.reserve(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -kInfinity) c.items.push_back({static_cast<int32_t>(i), std::min(row[i], kMaxFloat), 0});
  }
  return c;
}

Candidates top_k_of_row(std::span<const float> row, int32_t k) {
  const size_t wanted = static_cast<size_t>(k);
  if (wanted >= row.size() / 8) {
    Candidates c = all_candidates(row);
    top_k(c, k);
    return c;
  }
  // Ids ascend, so a logit equal to the k-th best so far loses against it: only strictly greater ones are collected.
  Candidates c;
  const size_t capacity = std::max<size_t>(4 * wanted, 256);
  c.items.reserve(capacity);
  float bar = -kInfinity;
  constexpr size_t kBlock = 64;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::span<const float> block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    if (!(max_of(block) > bar)) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!(block[i] > bar)) continue;
      c.items.push_back({static_cast<int32_t>(begin + i), std::min(block[i], kMaxFloat), 0});
      if (c.items.size() < capacity) continue;
      keep_best(c, wanted);
      c.sorted = false;
      bar = c.items.back().logit;
    }
  }
  keep_best(c, wanted);
  return c;
}

void softmax(Candidates& c) {
  if (c.items.empty()) return;
  const double best = max_logit(c);
  double sum = 0;
  for (Candidate& item : c.items) {
    item.p = plain::exp(item.logit - best);
    sum += item.p;
  }
  const double scale = 1 / sum;
  for (Candidate& item : c.items) item.p *= scale;
}

void sort_all(Candidates& c) { sort_best(c, c.items.size()); }

void top_k(Candidates& c, int32_t k) {
  if (k <= 0 || c.items.empty()) return;
  keep_best(c, static_cast<size_t>(k));
}

void top_p(Candidates& c, float p, int32_t min_keep) {
  if (p >= 1 || c.items.size() <= 1) return;
  softmax(c);
  double mass = 0;
  size_t done = 0;
  for (size_t n = 256;; n *= 4) {  // most rows need the head only
    sort_best(c, n);
    const size_t end = std::min(n, c.items.size());
    for (; done < end; ++done) {
      mass += c.items[done].p;
      if (mass >= p && static_cast<int64_t>(done) + 1 >= min_keep) return keep_best(c, done + 1);
    }
    if (end == c.items.size()) return;
  }
}

void min_p(Candidates& c, float p, int32_t min_keep) {
  if (p <= 0 || c.items.size() <= 1) return;
  // p_i >= p * p_max, as logits
  const double bar = std::min<double>(max_logit(c) + plain::log(p), max_logit(c));
  const size_t n = static_cast<size_t>(
      std::count_if(c.items.begin(), c.items.end(), [&](const Candidate& item) { return item.logit >= bar; }));
  if (static_cast<int64_t>(n) < min_keep) return keep_best(c, static_cast<size_t>(min_keep));
  std::erase_if(c.items, [&](const Candidate& item) { return item.logit < bar; });
}

void typical_p(Candidates& c, float p, int32_t min_keep) {
  if (p >= 1 || c.items.size() <= 1) return;
  softmax(c);
  const double h = entropy(c);
  std::vector<std::pair<double, Candidate>> by_distance;
  by_distance.reserve(c.items.size());
  for (const Candidate& item : c.items) by_distance.emplace_back(std::abs(-plain::log(item.p) - h), item);
  std::sort(by_distance.begin(), by_distance.end(), [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && better(a.second, b.second));
  });
  c.items.clear();
  c.sorted = false;
  double mass = 0;
  for (const auto& [distance, item] : by_distance) {
    c.items.push_back(item);
    mass += item.p;
    if (mass > p && static_cast<int64_t>(c.items.size()) >= min_keep) break;
  }
}

void top_n_sigma(Candidates& c, float n) {
  if (n <= 0 || c.items.size() <= 1) return;
  const double best = max_logit(c), count = static_cast<double>(c.items.size());
  double sum = 0;
  for (const Candidate& item : c.items) sum += item.logit - best;
  const double mean = sum / count;
  double squares = 0;
  for (const Candidate& item : c.items) squares += (item.logit - best - mean) * (item.logit - best - mean);
  const double bar = -static_cast<double>(n) * std::sqrt(squares / count);
  std::erase_if(c.items, [&](const Candidate& item) { return item.logit - best < bar; });
}

void xtc(Candidates& c, float threshold, int32_t min_keep) {
  if (threshold > 0.5f || c.items.size() < 2) return;
  softmax(c);
  size_t above = 0;
  for (const Candidate& item : c.items) above += item.p >= threshold;
  if (above < 2) return;
  const size_t first = above - 1;  // the least likely of those above the threshold
  if (static_cast<int64_t>(c.items.size() - first) < std::max(min_keep, 1)) return;
  sort_all(c);
  c.items.erase(c.items.begin(), c.items.begin() + static_cast<ptrdiff_t>(first));
}

void temperature(Candidates& c, float t) {
  if (c.items.empty() || t == 1) return;
  float greatest = 0;
  for (const Candidate& item : c.items) greatest = std::max(greatest, std::abs(item.logit));
  if (!(t > 0) || std::isinf(greatest / t)) return keep_best(c, 1);
  for (Candidate& item : c.items) item.logit /= t;
  c.sorted = false;  // neighbours may round to equal logits
}

void dynamic_temperature(Candidates& c, float t, float range, float exponent) {
  if (range <= 0) return temperature(c, t);
  if (c.items.size() <= 1) return;
  softmax(c);
  const double relative = entropy(c) / plain::log(static_cast<double>(c.items.size()));
  const double low = std::max(0.0f, t - range), high = t + range;
  const double scale = plain::pow(std::clamp(relative, 0.0, 1.0), exponent);
  temperature(c, static_cast<float>(low + (high - low) * scale));
}

float penalized(float logit, int32_t count, float repeat, float frequency, float presence) {
  const float scaled = logit <= 0 ? logit * repeat : logit / repeat;
  const float result = scaled - static_cast<float>(count) * frequency - presence;
  return std::clamp(result, -kMaxFloat, kMaxFloat);
}

size_t draw(const Candidates& c, double u) {
  double total = 0;
  for (const Candidate& item : c.items) total += item.p;
  const double goal = u * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < c.items.size(); ++i) {
    if (c.items[i].p <= 0) continue;
    sum += c.items[i].p;
    last = i;
    if (sum > goal) return i;
  }
  return last;  // u * total rounded up to the whole
}

void mirostat_v1(Candidates& c, double mu, int64_t vocab_size) {
  sort_best(c, 101);
  softmax(c);
  // Zipf exponent from the ratios of the first 100 neighbours.
  double sum_tb = 0, sum_tt = 0;
  const size_t n = std::min<size_t>(c.items.size(), 100);
  for (size_t i = 0; i + 1 < n; ++i) {
    if (c.items[i + 1].p <= 0) break;
    const double t = plain::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = plain::log(c.items[i].p / c.items[i + 1].p);
    sum_tb += t * b;
    sum_tt += t * t;
  }
  if (sum_tt <= 0) return;  // one candidate
  const double s = sum_tb / sum_tt, epsilon = s - 1;
  const double k =
      plain::pow((epsilon * plain::pow(2, mu)) / (1 - plain::pow(static_cast<double>(vocab_size), -epsilon)), 1 / s);
  // A flat head gives s near 0 and an unbounded k; NaN means the same.
  const double limit = static_cast<double>(c.items.size());
  keep_best(c, k >= 1 && k < limit ? static_cast<size_t>(k) : (k < 1 ? 1 : c.items.size()));
}

void mirostat_v2(Candidates& c, double mu) {
  if (c.items.size() <= 1) return;
  softmax(c);
  sort_all(c);
  size_t n = 1;
  while (n < c.items.size() && -plain::log(c.items[n].p) / plain::log(2) <= mu) ++n;
  c.items.resize(n);
}

void adaptive_p(Candidates& c, double target) {
  constexpr double kWidth = 0.3, kPeak = 5, kSharpness = 10;
  for (Candidate& item : c.items) {
    const double distance = std::abs(item.p - target) / kWidth;
    item.logit = static_cast<float>(kPeak - kSharpness * distance * distance / (1 + distance));
  }
  c.sorted = false;
}

}  // namespace loci
