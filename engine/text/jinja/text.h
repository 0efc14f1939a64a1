// Text: bytes that remember who wrote them. Template text may spell control tokens of the model, text from the
// messages may not; the marks go along through every string operation up to the finished prompt.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loci::jinja {

enum class Origin : uint8_t { kTemplate, kInput };

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)), starts_as_input_(origin == Origin::kInput) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  Origin origin_at(size_t byte) const;
  // Whether any byte came from the inputs.
  bool has_input() const { return !bytes_.empty() && (starts_as_input_ || !borders_.empty()); }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of `other` with their marks. REQUIRES: begin <= end <= other.size(); other is not *this.
  void append(const Text& other, size_t begin, size_t end);
  Text slice(size_t begin, size_t end) const;

  // Calls f(bytes, origin) for every run of one origin, in order.
  template <typename F>
  void for_each_run(F f) const {
    size_t begin = 0;
    bool input = starts_as_input_;
    for (const uint32_t border : borders_) {
      f(view().substr(begin, border - begin), input ? Origin::kInput : Origin::kTemplate);
      begin = border;
      input = !input;
    }
    if (begin < bytes_.size()) f(view().substr(begin), input ? Origin::kInput : Origin::kTemplate);
  }

 private:
  bool ends_as_input() const { return starts_as_input_ != (borders_.size() % 2 == 1); }

  // INVARIANT: borders_ ascends strictly within (0, size()); at each the origin changes.
  std::string bytes_;
  std::vector<uint32_t> borders_;
  bool starts_as_input_ = false;
};

}  // namespace loci::jinja
