// Counts instructions exactly, without counters of the processor: a child process is stepped through.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace stepping {

// How often the instruction at each address was carried out. An address means the same in this process,
// of which the child is a copy.
using profile = std::map<std::uint64_t, std::uint64_t>;

// In the child: what lies between two of these is counted.
void mark();

// Instructions in user space between the two marks of `child`, less those for which `is_left_out`. The
// child ends there. Throws std::runtime_error where it never came so far.
[[nodiscard]] profile count(const std::function<void()>& child,
                            bool (*is_left_out)(std::uint64_t address) noexcept);
[[nodiscard]] std::uint64_t total(const profile& p) noexcept;

}  // namespace stepping
