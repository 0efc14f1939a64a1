#include "server/reasoning.h"

#include <algorithm>

namespace loci::server {
namespace {

struct Markers {
  std::string_view open, close;
};
constexpr Markers kMarkers[] = {{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
constexpr std::string_view kSpace = " \t\r\n";

// Length of the longest proper prefix of `marker` that `text` ends with.
size_t partial_at_end(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == marker.substr(0, n)) return n;
  }
  return 0;
}

void drop_leading_space(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kSpace), text.size())); }

void emit(std::vector<AnswerPart>& out, bool thinking, std::string text) {
  if (!text.empty()) out.push_back({thinking, std::move(text)});
}

}  // namespace

std::string_view opened_reasoning(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kSpace);
  if (last == std::string_view::npos) return {};
  prompt = prompt.substr(0, last + 1);
  for (const Markers& markers : kMarkers) {
    if (prompt.size() >= markers.open.size() && prompt.substr(prompt.size() - markers.open.size()) == markers.open) {
      return markers.open;
    }
  }
  return {};
}

ReasoningSplitter::ReasoningSplitter(bool starts_inside)
    : state_(starts_inside ? State::kThinking : State::kStart), close_(kMarkers[0].close) {}

std::vector<AnswerPart> ReasoningSplitter::add(std::string_view text) {
  std::vector<AnswerPart> out;
  held_ += text;
  advance(out, false);
  return out;
}

std::vector<AnswerPart> ReasoningSplitter::finish() {
  std::vector<AnswerPart> out;
  advance(out, true);
  return out;
}

void ReasoningSplitter::advance(std::vector<AnswerPart>& out, bool at_end) {
  if (state_ == State::kStart) {
    const size_t first = std::min(held_.find_first_not_of(kSpace), held_.size());
    const std::string_view rest = std::string_view(held_).substr(first);
    bool may_open = rest.empty();
    for (const Markers& markers : kMarkers) {
      if (rest.substr(0, markers.open.size()) == markers.open) {
        state_ = State::kThinking;
        close_ = markers.close;
        held_.erase(0, first + markers.open.size());
        break;
      }
      may_open = may_open || markers.open.substr(0, rest.size()) == rest;
    }
    if (state_ == State::kStart) {
      if (may_open && !at_end) return;
      state_ = State::kAnswer;
    }
  }
  if (state_ == State::kThinking) {
    if (!thinking_started_) drop_leading_space(held_);
    thinking_started_ = thinking_started_ || !held_.empty();
    const size_t close = held_.find(close_);
    if (close == std::string::npos) {
      const size_t keep = at_end ? 0 : partial_at_end(held_, close_);
      emit(out, true, held_.substr(0, held_.size() - keep));
      held_.erase(0, held_.size() - keep);
      return;
    }
    emit(out, true, held_.substr(0, close));
    held_.erase(0, close + close_.size());
    state_ = State::kAfter;
  }
  if (state_ == State::kAfter) {
    drop_leading_space(held_);
    if (held_.empty()) return;
    state_ = State::kAnswer;
  }
  emit(out, false, std::move(held_));
  held_.clear();
}

}  // namespace loci::server
