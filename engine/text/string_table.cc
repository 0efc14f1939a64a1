#include "engine/text/string_table.h"

#include <functional>

namespace loci {

void StringTable::reserve(size_t count, size_t bytes) {
  arena_.reserve(bytes);
  offsets_.reserve(count + 1);
  size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

int32_t StringTable::add(std::string_view text) {
  const int32_t id = size();
  if (2 * (static_cast<size_t>(id) + 1) > slots_.size()) rehash(slots_.empty() ? 16 : 2 * slots_.size());
  arena_ += text;
  offsets_.push_back(arena_.size());
  const uint64_t hash = std::hash<std::string_view>{}(text);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  size_t i = hash & (slots_.size() - 1);
  for (; slots_[i].id_plus_1 != 0; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].tag == tag && (*this)[static_cast<int32_t>(slots_[i].id_plus_1 - 1)] == text) {
      repeats_.push_back(id);
      return id;
    }
  }
  slots_[i] = {static_cast<uint32_t>(id) + 1, tag};
  return id;
}

int32_t StringTable::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = std::hash<std::string_view>{}(text);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & (slots_.size() - 1); slots_[i].id_plus_1 != 0; i = (i + 1) & (slots_.size() - 1)) {
    const int32_t id = static_cast<int32_t>(slots_[i].id_plus_1 - 1);
    if (slots_[i].tag == tag && (*this)[id] == text) return id;
  }
  return -1;
}

void StringTable::rehash(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id_plus_1 == 0) continue;
    size_t i = std::hash<std::string_view>{}((*this)[static_cast<int32_t>(slot.id_plus_1 - 1)]) & (slots - 1);
    while (slots_[i].id_plus_1 != 0) i = (i + 1) & (slots - 1);
    slots_[i] = slot;
  }
}

}  // namespace loci
