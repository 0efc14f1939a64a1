#include "engine/text/spm_merger.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "engine/text/unicode.h"
#include "kernels/log.h"

namespace loci {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

}  // namespace

SpmMerger::SpmMerger(const Vocabulary& vocab) : vocab_(vocab) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  byte_tokens_.fill(-1);
  size_t canonical = 0, n_bytes = 0;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const std::string_view text = vocab.texts[id];
    if (vocab.types[static_cast<size_t>(id)] == TokenType::kByte) {
      ++n_bytes;
      const std::optional<uint8_t> byte = parse_byte_token(text);
      if (!byte || byte_tokens_[*byte] >= 0) continue;
      byte_tokens_[*byte] = id;
      canonical += text[3] == kDigits[*byte >> 4] && text[4] == kDigits[*byte & 15];
    } else if (is_mergeable(id)) {
      max_length_ = std::max(max_length_, text.size());
      note_before_space(text);
    }
  }
  std::sort(before_space_.begin(), before_space_.end());
  before_space_.erase(std::unique(before_space_.begin(), before_space_.end()), before_space_.end());
  has_canonical_bytes_ = canonical == 256 && n_bytes == 256;
  if (canonical == 256) return;
  // Single characters may stand in for missing byte tokens.
  for (int byte = 0; byte < 128; ++byte) {
    const char c = static_cast<char>(byte);
    if (byte_tokens_[byte] < 0) byte_tokens_[byte] = find({&c, 1});
  }
  const bool complete = std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) == byte_tokens_.end();
  if (!complete && vocab.special.unk < 0) {
    log_warn(vocab.file, ": the vocabulary lacks byte tokens and an unknown token: characters outside it are dropped");
  }
}

// Remembers which characters stand before a space mark inside a token.
void SpmMerger::note_before_space(std::string_view text) {
  for (size_t pos = text.find(kSpaceMark, 1); pos != std::string_view::npos; pos = text.find(kSpaceMark, pos + 1)) {
    size_t begin = pos - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    const std::string_view before = text.substr(begin, pos - begin);
    if (before != kSpaceMark) before_space_.emplace_back(before);
  }
}

size_t SpmMerger::segment_end(std::string_view text, size_t begin) const {
  for (size_t pos = begin + 1; pos < text.size(); ++pos) {
    if (text[pos] != ' ' || text[pos - 1] == ' ') continue;
    size_t before = pos - 1;
    while (before > begin && (static_cast<uint8_t>(text[before]) & 0xC0) == 0x80) --before;
    const std::string_view character = text.substr(before, pos - before);
    if (character != kSpaceMark && !std::binary_search(before_space_.begin(), before_space_.end(), character))
      return pos;
  }
  return text.size();
}

bool SpmMerger::is_mergeable(int32_t id) const {
  if (id < 0) return false;
  const TokenType type = vocab_.types[static_cast<size_t>(id)];
  if (type != TokenType::kNormal && type != TokenType::kUserDefined && type != TokenType::kUnused) return false;
  return !vocab_.texts[id].empty() && !vocab_.texts.is_repeat(id);
}

int32_t SpmMerger::find(std::string_view text) const {
  const int32_t id = vocab_.texts.find(text);
  return is_mergeable(id) ? id : -1;
}

void SpmMerger::emit_bytes(std::string_view bytes, std::vector<int32_t>& out) const {
  bool unknown = false;
  for (const char c : bytes) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token >= 0) {
      out.push_back(token);
      unknown = false;
    } else if (!unknown && vocab_.special.unk >= 0) {
      out.push_back(vocab_.special.unk);
      unknown = true;
    }
  }
}

void SpmMerger::encode(std::string_view text, std::vector<int32_t>& out) const {
  constexpr int64_t kNone = -1;
  struct Symbol {
    int64_t previous, next;
    size_t begin, length;  // into `marked`; length 0: joined to the left
  };
  struct Candidate {
    float score;
    int64_t left, right;
    size_t length;  // of the pair when it was found; another length now means it is stale
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  std::string marked;
  for (const char c : text) {
    if (c == ' ') {
      marked += kSpaceMark;
    } else {
      marked += c;
    }
  }
  const std::string_view all = marked;
  std::vector<Symbol> symbols;
  for (size_t pos = 0; pos < all.size();) {
    const size_t length = unicode::decode(all, pos).length;
    const int64_t i = static_cast<int64_t>(symbols.size());
    symbols.push_back({i - 1, i + 1, pos, length});
    pos += length;
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  std::priority_queue<Candidate> queue;
  // How an unused token came about: it is written as the two parts it was joined from.
  std::unordered_map<std::string_view, size_t> split_of_unused;
  const auto push = [&](int64_t left, int64_t right) {
    if (left == kNone || right == kNone) return;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const size_t length = a.length + symbols[static_cast<size_t>(right)].length;
    if (length > max_length_) return;
    const std::string_view joined = all.substr(a.begin, length);
    const int32_t id = find(joined);
    if (id < 0) return;
    queue.push({vocab_.scores[static_cast<size_t>(id)], left, right, length});
    if (vocab_.types[static_cast<size_t>(id)] == TokenType::kUnused) split_of_unused[joined] = a.length;
  };
  for (size_t i = 1; i < symbols.size(); ++i) push(static_cast<int64_t>(i) - 1, static_cast<int64_t>(i));
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(c.left)];
    Symbol& right = symbols[static_cast<size_t>(c.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != c.length) continue;
    left.length += right.length;
    right.length = 0;
    left.next = right.next;
    if (left.next != kNone) symbols[static_cast<size_t>(left.next)].previous = c.left;
    push(left.previous, c.left);
    push(c.left, left.next);
  }

  std::vector<std::string_view> pending;
  for (int64_t i = 0; i != kNone; i = symbols[static_cast<size_t>(i)].next) {
    const Symbol& symbol = symbols[static_cast<size_t>(i)];
    pending.push_back(all.substr(symbol.begin, symbol.length));
    while (!pending.empty()) {
      const std::string_view piece = pending.back();
      pending.pop_back();
      const auto split = split_of_unused.find(piece);
      if (split != split_of_unused.end()) {
        pending.push_back(piece.substr(split->second));
        pending.push_back(piece.substr(0, split->second));
        continue;
      }
      const int32_t id = find(piece);
      if (id >= 0) {
        out.push_back(id);
      } else {
        emit_bytes(piece == kSpaceMark ? std::string_view(" ") : piece, out);
      }
    }
  }
}

}  // namespace loci
