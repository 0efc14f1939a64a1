// A CacheReport in words.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "engine/kv/cache_report.h"
#include "engine/text/tokenizer.h"

namespace loci {

// Why the part of `prompt` behind the cached tokens had to be computed, in one line with the text around the first
// difference. Empty when nothing was missed that could have been there.
std::string cache_miss_text(const CacheReport& report, std::span<const int32_t> prompt, const Tokenizer& tokenizer);

}  // namespace loci
