// SpecialMatcher: finds the literal texts of special tokens (control, user-defined) in a text, longest token first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace loci {

class SpecialMatcher {
 public:
  struct Match {
    size_t pos;
    size_t length;
    int32_t id;
  };

  // Of equal texts the first one added counts. Empty texts are ignored. build() after the last one.
  void add(std::string_view text, int32_t id);
  void build();
  bool empty() const { return nodes_.size() == 1; }

  // Matches that do not overlap, in text order. A longer token wins over a shorter one wherever they overlap; among
  // equally long ones the leftmost. Linear in the text for any set of tokens, but for the tokens of different length
  // that begin at the same place.
  std::vector<Match> find(std::string_view text) const;

 private:
  // Aho-Corasick automaton (1975) over the tokens read backwards: walking the text from its end, the state at a
  // position knows the longest token that begins there, and its `shorter` links all others.
  struct Node {
    int32_t id = -1;  // token whose text, backwards, this node spells
    uint32_t length = 0;
    uint32_t first_child = 0, next_sibling = 0;  // 0: none
    uint32_t fail = 0;                           // longest proper suffix of what this node spells that is a node
    uint32_t shorter = 0;                        // first node with a token on the way along `fail`; 0: none
    char byte = 0;
  };
  uint32_t child(uint32_t node, char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // [0] is the root
  uint32_t root_[256] = {};                         // the root's children by byte
};

}  // namespace loci
