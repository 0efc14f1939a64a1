#include "engine/constraint/constraint.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "engine/spec/draft_tree.h"
#include "engine/text/tokenizer.h"
#include "kernels/check.h"
#include "kernels/error.h"

namespace loci {
namespace {

constexpr size_t kMaxKnown = 64;  // compiled grammars kept

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What the answer's text gets from each token; empty for those that a grammar never chooses.
std::vector<std::string> answer_bytes(const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const TokenType type = tokenizer.type(id);
    const bool has_text = type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
    if (has_text && !tokenizer.is_end_of_generation(id)) bytes[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  }
  for (const int32_t id : tokenizer.suppressed()) {
    if (id >= 0 && id < tokenizer.vocab_size()) bytes[static_cast<size_t>(id)].clear();
  }
  return bytes;
}

}  // namespace

const GrammarVocabulary& ConstraintCompiler::vocabulary() {
  const std::lock_guard lock(mutex_);
  if (vocabulary_ == nullptr) {
    const std::span<const int32_t> ends = tokenizer_.end_of_generation_ids();
    vocabulary_ = make_grammar_vocabulary(answer_bytes(tokenizer_), {ends.begin(), ends.end()});
  }
  return *vocabulary_;
}

std::shared_ptr<const Constraint> ConstraintCompiler::compile(const Grammar& grammar, const ThinkingMarkers& thinking) {
  const auto start = std::chrono::steady_clock::now();
  const bool thinks = !thinking.close.empty();
  const std::string ebnf = grammar.to_ebnf(/*leading_space=*/thinks);
  const std::string key =
      str(thinking.inside ? "inside " : "", thinking.open.size(), " ", thinking.open, thinking.close, "\n", ebnf);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) {
      known->second.last_use = ++n_uses_;
      return known->second.constraint;
    }
  }
  auto made = std::make_shared<Constraint>();
  made->grammar = vocabulary().compile(ebnf);
  made->thinking = thinking;
  const std::span<const int32_t> ends = tokenizer_.end_of_generation_ids();
  made->end_tokens.assign(ends.begin(), ends.end());
  made->vocab_size = tokenizer_.vocab_size();
  if (thinks) {
    if (!thinking.inside) made->open_token = tokenizer_.find(thinking.open).value_or(-1);
    // Here control tokens count: the closing marker may be one.
    for (int32_t id = 0; id < made->vocab_size; ++id) made->token_bytes.push_back(tokenizer_.token_bytes(id, true));
  }
  made->compile_ms = ms_since(start);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) {
    known_.erase(std::min_element(known_.begin(), known_.end(),
                                  [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
  }
  known_[key] = {made, ++n_uses_};
  return made;
}

bool Constraint::ends(int32_t token) const {
  return std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
}

ConstraintState::ConstraintState(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), matcher_(constraint_->grammar->start()) {
  const ThinkingMarkers& thinking = constraint_->thinking;
  if (!thinking.close.empty()) {
    place_.phase = thinking.inside                ? Phase::kThinking
                   : constraint_->open_token >= 0 ? Phase::kMayThink
                                                  : Phase::kAnswering;
  }
}

ConstraintState::ConstraintState(const ConstraintState& other)
    : constraint_(other.constraint_),
      matcher_(other.matcher_->fork()),
      place_(other.place_),
      ahead_(other.ahead_),
      here_(other.here_),
      costs_(other.costs_) {}

ConstraintState& ConstraintState::operator=(const ConstraintState& other) {
  if (this != &other) *this = ConstraintState(other);
  return *this;
}

// While the model thinks, any token may come that does not end the answer, unless it closes the thinking and brings
// text with it that the grammar does not begin with.
bool ConstraintState::think(int32_t token) {
  const std::string& close = constraint_->thinking.close;
  if (constraint_->ends(token)) return false;
  std::string text = place_.tail + constraint_->token_bytes[static_cast<size_t>(token)];
  const size_t at = text.find(close);
  if (at != std::string::npos) {
    const std::string behind = text.substr(at + close.size());
    if (!behind.empty() && !matcher_->accept_text(behind)) return false;
    place_ = {Phase::kAnswering, ""};
    return true;
  }
  if (text.size() >= close.size()) text.erase(0, text.size() - close.size() + 1);
  place_ = {Phase::kThinking, std::move(text)};
  return true;
}

bool ConstraintState::step(int32_t token) {
  if (token < 0 || token >= constraint_->vocab_size) return false;
  const bool ends = constraint_->ends(token);
  switch (place_.phase) {
    case Phase::kThinking:
      return think(token);
    case Phase::kEnded:
      return ends;
    case Phase::kMayThink:
      if (token == constraint_->open_token) {
        place_ = {Phase::kThinking, ""};
        return true;
      }
      [[fallthrough]];
    case Phase::kAnswering:
      if (!matcher_->accept(token)) return false;
      place_.phase = ends ? Phase::kEnded : Phase::kAnswering;
      return true;
  }
  return false;
}

bool ConstraintState::accept(int32_t token) {
  if (!step(token)) return false;
  // The mask behind a draft may be known already.
  for (int32_t i = here_ + 1; i < static_cast<int32_t>(ahead_.size()); ++i) {
    const Ahead& next = ahead_[static_cast<size_t>(i)];
    if (next.parent != here_ || next.token != token) continue;
    here_ = i;
    return true;
  }
  ahead_.clear();
  here_ = 0;
  return true;
}

std::shared_ptr<const ConstraintState::Mask> ConstraintState::make_mask() {
  const auto start = std::chrono::steady_clock::now();
  const auto n_words = (static_cast<size_t>(constraint_->vocab_size) + 31) / 32;
  auto mask = std::make_shared<Mask>(n_words, 0);
  const auto allow = [&](int32_t token) {
    (*mask)[static_cast<size_t>(token) / 32] |= uint32_t{1} << (static_cast<uint32_t>(token) % 32);
  };
  if (place_.phase == Phase::kThinking) {
    std::fill(mask->begin(), mask->end(), ~uint32_t{0});
    for (const int32_t end : constraint_->end_tokens) {
      (*mask)[static_cast<size_t>(end) / 32] &= ~(uint32_t{1} << (static_cast<uint32_t>(end) % 32));
    }
    // Only what completes the marker needs a look, and only tokens that hold its last character can.
    const std::string& close = constraint_->thinking.close;
    for (int32_t token = 0; token < constraint_->vocab_size; ++token) {
      const std::string& bytes = constraint_->token_bytes[static_cast<size_t>(token)];
      if (bytes.find(close.back()) == std::string::npos) continue;
      const std::string text = place_.tail + bytes;
      const size_t at = text.find(close);
      if (at == std::string::npos || at + close.size() == text.size()) continue;
      const std::unique_ptr<Matcher> trial = matcher_->fork();
      if (trial->accept_text(text.substr(at + close.size()))) continue;
      (*mask)[static_cast<size_t>(token) / 32] &= ~(uint32_t{1} << (static_cast<uint32_t>(token) % 32));
    }
  } else if (place_.phase == Phase::kEnded) {
    for (const int32_t end : constraint_->end_tokens) allow(end);
  } else {
    matcher_->fill_mask(*mask);
    if (place_.phase == Phase::kMayThink) allow(constraint_->open_token);
  }
  ++costs_.n_masks;
  costs_.mask_ms += ms_since(start);
  return mask;
}

const ConstraintState::Mask& ConstraintState::mask() {
  if (ahead_.empty()) ahead_.push_back({-1, -1, nullptr}), here_ = 0;
  std::shared_ptr<const Mask>& known = ahead_[static_cast<size_t>(here_)].mask;
  if (known == nullptr) known = make_mask();
  return *known;
}

// Visits the nodes that may come, each with the state as it is behind it; then all is as before.
template <typename OnNode>
void ConstraintState::walk(const DraftTree& tree, OnNode on_node) {
  if (place_.phase != Phase::kAnswering) {
    // Thinking is not taken back by a rollback: a copy goes along.
    std::vector<ConstraintState> behind;  // of allowed nodes
    std::vector<int32_t> index(static_cast<size_t>(tree.size()), -1);
    for (int32_t node = 0; node < tree.size(); ++node) {
      const int32_t parent = tree.parents[static_cast<size_t>(node)];
      if (parent >= 0 && index[static_cast<size_t>(parent)] < 0) continue;
      ConstraintState state(parent < 0 ? *this : behind[static_cast<size_t>(index[static_cast<size_t>(parent)])]);
      if (!state.step(tree.tokens[static_cast<size_t>(node)])) continue;
      index[static_cast<size_t>(node)] = static_cast<int32_t>(behind.size());
      on_node(node, state);
      behind.push_back(std::move(state));
    }
    return;
  }
  std::vector<int32_t> path;  // nodes accepted, from the root
  for (int32_t node = 0; node < tree.size(); ++node) {
    const int32_t parent = tree.parents[static_cast<size_t>(node)];
    const auto at = std::find(path.begin(), path.end(), parent);
    if (parent >= 0 && at == path.end()) continue;  // the parent may not come
    const auto n_kept = static_cast<size_t>(parent < 0 ? 0 : at - path.begin() + 1);
    if (path.size() > n_kept) matcher_->rollback(static_cast<int>(path.size() - n_kept));
    path.resize(n_kept);
    place_.phase = Phase::kAnswering;
    const int32_t token = tree.tokens[static_cast<size_t>(node)];
    const bool parent_ended = parent >= 0 && constraint_->ends(tree.tokens[static_cast<size_t>(parent)]);
    if (parent_ended || !step(token)) continue;
    path.push_back(node);
    on_node(node, *this);
  }
  if (!path.empty()) matcher_->rollback(static_cast<int>(path.size()));
  place_.phase = Phase::kAnswering;
}

void ConstraintState::prepare(const DraftTree* tree) {
  mask();
  if (tree == nullptr || tree->empty()) return;
  std::vector<Ahead> ahead{{-1, -1, ahead_[static_cast<size_t>(here_)].mask}};
  std::vector<int32_t> entry(static_cast<size_t>(tree->size()), -1);
  walk(*tree, [&](int32_t node, ConstraintState& state) {
    const int32_t parent = tree->parents[static_cast<size_t>(node)];
    const double before_ms = state.costs_.mask_ms;
    const int64_t n_before = state.costs_.n_masks;
    ahead.push_back({tree->tokens[static_cast<size_t>(node)], parent < 0 ? 0 : entry[static_cast<size_t>(parent)],
                     state.make_mask()});
    if (&state != this) {
      costs_.mask_ms += state.costs_.mask_ms - before_ms;
      costs_.n_masks += state.costs_.n_masks - n_before;
    }
    entry[static_cast<size_t>(node)] = static_cast<int32_t>(ahead.size()) - 1;
  });
  ahead_ = std::move(ahead);
  here_ = 0;
}

void ConstraintState::apply(std::span<float> logits) {
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  const Mask& words = mask();
  const size_t n = std::min(logits.size(), static_cast<size_t>(constraint_->vocab_size));
  for (size_t first = 0; first < n; first += 32) {
    const uint32_t word = words[first / 32];
    if (word == ~uint32_t{0}) continue;
    const size_t end = std::min(first + 32, n);
    for (size_t i = first; i < end; ++i) {
      if (((word >> (i - first)) & 1) == 0) logits[i] = kForbidden;
    }
  }
  std::fill(logits.begin() + static_cast<ptrdiff_t>(n), logits.end(), kForbidden);
}

bool ConstraintState::allows(int32_t token) {
  if (token < 0 || token >= constraint_->vocab_size) return false;
  return ((mask()[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32)) & 1) != 0;
}

bool ConstraintState::is_complete() {
  if (place_.phase == Phase::kEnded) return true;
  if (place_.phase == Phase::kThinking) return false;
  for (int32_t token = 0; token < constraint_->vocab_size; ++token) {
    if (!constraint_->ends(token) && allows(token)) return false;
  }
  return matcher_->is_complete();
}

std::vector<int32_t> ConstraintState::allowed_nodes(const DraftTree& tree) {
  std::vector<int32_t> nodes;
  walk(tree, [&nodes](int32_t node, ConstraintState&) { nodes.push_back(node); });
  return nodes;
}

}  // namespace loci
