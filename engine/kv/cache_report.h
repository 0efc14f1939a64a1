// What the cache had for a prompt, and why not more: carried from KvManager to whoever tells the user.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace loci {

// Why the part of a prompt behind the cached tokens was not found.
enum class MissCause {
  kNone,            // nothing was missed: all of the prompt was there, or what was cached ends inside it
  kEmpty,           // nothing is cached at all
  kDiffers,         // what is cached goes on with other tokens
  kEvicted,         // it had been cached, but its pages were needed
  kOtherNamespace,  // it is cached for another model, K/V format or adapter
  kDisabled,        // the request asked not to use the cache
};
std::string_view name(MissCause cause);

struct CacheReport {
  int64_t n_cached = 0;  // tokens taken from the cache
  MissCause cause = MissCause::kNone;
  // kDiffers: the first position at which prompt and cache differ, and what the cache holds from there on (a few
  // tokens, of the branch used last). Otherwise -1 and empty. They may stem from anybody's request: not for strangers.
  int64_t first_difference = -1;
  std::vector<int32_t> cached_there;
};

}  // namespace loci
