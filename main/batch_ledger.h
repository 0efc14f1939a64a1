// BatchLedger: which lines of a batch are done. Filled from an output that is there already, then asked once for each
// line of the input. About 60 bytes a line: ids are kept as 128-bit hashes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace loci::cli {

// 32 hexadecimal digits, the same on every machine. Parts are told apart: ("ab", "c") differs from ("a", "bc").
std::string stable_id(std::initializer_list<std::string_view> parts);
uint64_t stable_number(std::string_view text);

class BatchLedger {
 public:
  // A result of an earlier run. `request_id`: the line's "id", which tells whether the input has changed since.
  void add_result(std::string_view custom_id, std::string_view request_id, bool failed);
  // An earlier complaint about a second line with the same custom_id.
  void add_duplicate(std::string_view request_id);

  enum class Verdict {
    kNew,            // to do
    kDone,           // an earlier run has answered it
    kFailed,         // in an earlier run
    kDuplicate,      // the custom_id came before in this input
    kDuplicateTold,  // the same, and an earlier run has said so
  };
  struct Answer {
    Verdict verdict = Verdict::kNew;
    std::string request_id;  // "batch_req_...", from custom_id, content and how often the custom_id came before
    bool changed = false;    // kDone, kFailed: the line is not the one that was answered
  };
  Answer look_up(std::string_view custom_id, std::string_view content);

  int64_t n_done() const { return n_done_; }
  int64_t n_failed() const { return n_failed_; }
  int64_t n_repeated() const { return n_repeated_; }  // results beyond the first of a custom_id

 private:
  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.low; }
  };
  struct Entry {
    uint64_t request = 0;  // of the earlier result's request_id
    int32_t n_met = 0;     // in the input
    bool has_result = false, failed = false;
  };
  static Key key_of(std::string_view text);

  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::unordered_set<uint64_t> duplicates_;
  int64_t n_done_ = 0, n_failed_ = 0, n_repeated_ = 0;
};

}  // namespace loci::cli
