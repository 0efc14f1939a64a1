#include "engine/text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/text/unicode.h"

namespace loci {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::vector<std::string> stops, bool show_special, bool continues)
    : tokenizer_(tokenizer), stops_(std::move(stops)), show_special_(show_special), at_start_(!continues) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty() || !unicode::is_valid(stop); });
}

std::string Detokenizer::add(int32_t token) {
  if (!stop_found_.empty()) return "";
  if (!show_special_ && tokenizer_.type(token) == TokenType::kControl) {
    const auto stop = std::find(stops_.begin(), stops_.end(), tokenizer_.token_text(token));
    if (stop != stops_.end()) {
      std::string out = take(/*at_end=*/true);
      if (stop_found_.empty()) stop_found_ = *stop;
      return out;
    }
  }
  bytes_ += tokenizer_.decode_next(token, show_special_, at_start_);
  return take(/*at_end=*/false);
}

std::string Detokenizer::finish() { return stop_found_.empty() ? take(/*at_end=*/true) : ""; }

// Moves whole characters from bytes_ to text_, looks for stop strings there and returns what cannot be part of one.
std::string Detokenizer::take(bool at_end) {
  size_t pos = 0;
  while (pos < bytes_.size()) {
    const unicode::Decoded d = unicode::decode(bytes_, pos);
    if (d.truncated && !at_end) break;
    if (d.valid) {
      text_.append(bytes_, pos, d.length);
    } else {
      unicode::append(text_, unicode::kReplacement);
    }
    pos += d.length;
  }
  bytes_.erase(0, pos);

  // The stop string that ends first, whatever the token borders; of those that end together, the longest.
  size_t stop_end = std::string::npos, stop_begin = std::string::npos;
  const std::string* met = nullptr;
  for (const std::string& stop : stops_) {
    const size_t begin = text_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (met == nullptr || end < stop_end || (end == stop_end && begin < stop_begin)) {
      met = &stop, stop_end = end, stop_begin = begin;
    }
  }
  if (met != nullptr) {
    stop_found_ = *met;
    bytes_.clear();
    return std::exchange(text_, "").substr(0, stop_begin);
  }

  size_t held = 0;  // longest end of text_ that begins a stop string
  if (!at_end) {
    for (const std::string& stop : stops_) {
      for (size_t n = std::min(stop.size() - 1, text_.size()); n > held; --n) {
        if (text_.compare(text_.size() - n, n, stop, 0, n) == 0) held = n;
      }
    }
  }
  std::string out = text_.substr(0, text_.size() - held);
  text_.erase(0, text_.size() - held);
  return out;
}

}  // namespace loci
