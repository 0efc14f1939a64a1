#include "engine/text/jinja/text.h"

#include <algorithm>

namespace loci::jinja {

Origin Text::origin_at(size_t byte) const {
  const auto passed = std::upper_bound(borders_.begin(), borders_.end(), byte) - borders_.begin();
  return starts_as_input_ != (passed % 2 == 1) ? Origin::kInput : Origin::kTemplate;
}

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  const bool input = origin == Origin::kInput;
  if (bytes_.empty()) {
    starts_as_input_ = input;
  } else if (ends_as_input() != input) {
    borders_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  bytes_.append(bytes);
}

void Text::append(const Text& other, size_t begin, size_t end) {
  if (other.borders_.empty()) {
    append(other.view().substr(begin, end - begin), other.starts_as_input_ ? Origin::kInput : Origin::kTemplate);
    return;
  }
  auto border = std::upper_bound(other.borders_.begin(), other.borders_.end(), begin);
  while (begin < end) {
    const size_t stop = border == other.borders_.end() ? end : std::min<size_t>(end, *border++);
    append(other.view().substr(begin, stop - begin), other.origin_at(begin));
    begin = stop;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text result;
  result.append(*this, begin, end);
  return result;
}

}  // namespace loci::jinja
