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

  // Of equal texts the first one added counts. Empty texts are ignored.
  void add(std::string_view text, int32_t id);
  bool empty() const { return nodes_.size() == 1; }

  // Matches that do not overlap, in text order. A longer token wins over a shorter one wherever they overlap; among
  // equally long ones the leftmost.
  std::vector<Match> find(std::string_view text) const;

 private:
  struct Node {
    int32_t id = -1;                             // token that ends here
    uint32_t first_child = 0, next_sibling = 0;  // 0: none
    char byte = 0;
  };
  // The longest token at `pos` that is shorter than `below`; length 0 when there is none.
  Match longest(std::string_view text, size_t pos, size_t below) const;
  uint32_t child(uint32_t node, char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // [0] is the root
  uint32_t root_[256] = {};                         // the root's children by byte
};

}  // namespace loci
