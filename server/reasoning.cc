#include "server/reasoning.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "server/tools/cursor.h"

namespace loci::server {
namespace {

struct Markers {
  std::string_view open, close;
};
// Apart from those in brackets, which are words as well, no answer begins with a closing marker.
constexpr Markers kMarkers[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<think:opensource>", "</think:opensource>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|channel>thought", "<channel|>"},
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
};

void drop_leading_space(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kSpaces), text.size())); }

void emit(std::vector<AnswerPart>& out, bool thinking, std::string text) {
  if (!text.empty()) out.push_back({thinking, std::move(text)});
}

}  // namespace

std::string_view opened_reasoning(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kSpaces);
  if (last == std::string_view::npos) return {};
  prompt = prompt.substr(0, last + 1);
  for (const Markers& markers : kMarkers) {
    if (prompt.size() >= markers.open.size() && prompt.substr(prompt.size() - markers.open.size()) == markers.open) {
      return markers.open;
    }
  }
  return {};
}

std::string_view closing_marker(std::string_view open) {
  for (const Markers& markers : kMarkers) {
    if (markers.open == open) return markers.close;
  }
  LOCI_CHECK(false, "'", open, "' opens no reasoning");
}

std::vector<std::string_view> reasoning_markers() {
  std::vector<std::string_view> all;
  for (const Markers& markers : kMarkers) all.insert(all.end(), {markers.open, markers.close});
  return all;
}

ReasoningSplitter::ReasoningSplitter(std::string_view opened, bool keeps_markers) : keeps_markers_(keeps_markers) {
  if (opened.empty()) return;
  state_ = State::kThinking;
  close_ = closing_marker(opened);
  if (keeps_markers) prefix_ = opened;
}

std::vector<AnswerPart> ReasoningSplitter::add(std::string_view text) {
  std::vector<AnswerPart> out;
  if (text.empty()) return out;
  emit(out, true, std::exchange(prefix_, ""));
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
    const size_t first = std::min(held_.find_first_not_of(kSpaces), held_.size());
    const std::string_view rest = std::string_view(held_).substr(first);
    bool may_open = rest.empty();
    for (const Markers& markers : kMarkers) {
      if (rest.substr(0, markers.open.size()) == markers.open) {
        state_ = State::kThinking;
        close_ = markers.close;
        const size_t n_bytes = first + markers.open.size();
        if (keeps_markers_) emit(out, true, held_.substr(0, n_bytes));
        held_.erase(0, n_bytes);
        break;
      }
      may_open = may_open || markers.open.substr(0, rest.size()) == rest;
      if (keeps_markers_ || markers.close[0] == '[') continue;
      // Thinking that was closed at once, by models whose prompt neither opens nor closes it.
      if (rest.substr(0, markers.close.size()) == markers.close) {
        state_ = State::kAfter;
        held_.erase(0, first + markers.close.size());
        break;
      }
      may_open = may_open || markers.close.substr(0, rest.size()) == rest;
    }
    if (state_ == State::kStart) {
      if (may_open && !at_end) return;
      state_ = State::kAnswer;
    }
  }
  if (state_ == State::kThinking) {
    if (!thinking_started_ && !keeps_markers_) drop_leading_space(held_);
    thinking_started_ = thinking_started_ || !held_.empty();
    const size_t close = held_.find(close_);
    if (close == std::string::npos) {
      const size_t keep = at_end ? 0 : partial_at_end(held_, close_);
      emit(out, true, held_.substr(0, held_.size() - keep));
      held_.erase(0, held_.size() - keep);
      return;
    }
    const size_t n_bytes = close + close_.size();
    emit(out, true, held_.substr(0, keeps_markers_ ? n_bytes : close));
    held_.erase(0, n_bytes);
    state_ = keeps_markers_ ? State::kAnswer : State::kAfter;
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
