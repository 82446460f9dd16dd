// Counts instructions exactly, without counters of the processor: it traps after each one.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <vector>

namespace stepping {

// Number of executions of the instruction at each address. Addresses are also valid in this
// process, of which the child is a copy.
using profile = std::map<std::uint64_t, std::uint64_t>;

struct counted {
  std::vector<std::uint64_t> rounds;  // instructions per round
  profile where;                      // over all rounds
};

// Called in the child: a round is the code between the two calls, including some ten instructions
// of their own. At most 1024 rounds; they do not nest.
void begin() noexcept;
void end() noexcept;

// Counts the instructions in user space in the rounds of `child`, except those for which
// `is_left_out` is true; one that repeats itself (rep movsb) counts once. The counted code runs in
// one thread, and takes about ten thousand times as long as otherwise. The child is a separate
// process and ends with the function. Throws std::runtime_error if it failed or had no round.
[[nodiscard]] counted count(const std::function<void()>& child,
                            bool (*is_left_out)(std::uint64_t address) noexcept = nullptr);

[[nodiscard]] std::uint64_t total(const profile& p) noexcept;
// Writes a line for each instruction: count, file, and address for addr2line.
void write(std::ostream& out, const profile& p);

// Null if this processor and kernel support it, else a sentence that names the missing part.
[[nodiscard]] const char* missing();

}  // namespace stepping
