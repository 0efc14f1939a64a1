// JsonScanner: reads one JSON object or string byte by byte, as a model writes it, and passes it on as valid JSON.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace loci::server {

// What models get wrong often is put right: control characters inside strings, unknown escapes, halves of surrogate
// pairs, Python's True, False and None. Anything else that is not JSON fails. White space and the spelling of numbers
// are kept. The outcome depends on the bytes alone, not on how they came.
class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 100;  // of lists and objects within each other

  enum class State { kMore, kDone, kFailed };
  // Takes one byte and appends to `out` what has become sure; an escape is appended whole. REQUIRES: still kMore.
  State push(char byte, std::string& out);

  size_t depth() const { return open_.size(); }
  // The text between the quotes of the last key of the outermost object.
  const std::string& outer_key() const { return outer_key_; }
  // The last byte belonged to the value of a member of the outermost object (not to space around it).
  bool in_outer_value() const { return in_outer_value_; }

 private:
  enum class Expect { kValue, kFirstItem, kFirstKey, kKey, kColon, kNext, kString, kEscape, kHex, kSurrogate, kWord };

  State open(char byte, std::string& out);
  State close(char byte, std::string& out);
  State in_string(char byte, std::string& out);
  State in_hex(char byte, std::string& out);
  State end_string(std::string& out);
  bool end_word(std::string& out);
  void put(std::string& out, const std::string& text);

  Expect expect_ = Expect::kValue;
  std::string open_;  // the open brackets
  std::string word_;  // number or literal being read; hexadecimal digits of an escape
  std::string outer_key_;
  uint32_t high_surrogate_ = 0;  // the first half of a pair, waiting for the second
  bool is_key_ = false, started_ = false, in_outer_value_ = false;
};

}  // namespace loci::server
