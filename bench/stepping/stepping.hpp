// Counts instructions exactly, without counters of the processor: it is told to trap after each.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <vector>

namespace stepping {

// How often the instruction at each address was carried out. An address means the same in this process,
// of which the child is a copy.
using profile = std::map<std::uint64_t, std::uint64_t>;

struct counted {
  std::vector<std::uint64_t> rounds;  // instructions in each
  profile where;                      // of all of them
};

// In the child: a round is what lies between the two, some ten instructions of theirs included. At most
// 1024 rounds; they do not nest.
void begin() noexcept;
void end() noexcept;

// Instructions in user space in the rounds of `child`, less those for which `is_left_out`; one that
// repeats itself (rep movsb) is one. What is counted takes one thread, and about ten thousand times as long as
// otherwise. The child is a process of its own and ends with the function. Throws std::runtime_error where that
// failed or had no round.
[[nodiscard]] counted count(const std::function<void()>& child,
                            bool (*is_left_out)(std::uint64_t address) noexcept = nullptr);

[[nodiscard]] std::uint64_t total(const profile& p) noexcept;
// A line for each instruction: times, file, and address as addr2line takes it.
void write(std::ostream& out, const profile& p);

// Whether this processor and kernel can do it; null, or else a sentence that says what is missing.
[[nodiscard]] const char* missing();

}  // namespace stepping
