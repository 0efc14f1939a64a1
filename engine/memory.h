// How much memory this process may still take: start-up allocations are checked against it, because the kernel
// grants more than it has and then kills.
#pragma once
#include <cstdint>
#include <string>

namespace loci {

// The smaller of the machine's available memory and what the cgroup leaves. -1 when neither can be told.
int64_t available_memory_bytes();
// Returns to the system what this process has freed and the C library still holds. Costs up to a millisecond or two.
void give_back_freed_memory();
// "1.50 GiB".
std::string bytes_text(int64_t bytes);

}  // namespace loci
