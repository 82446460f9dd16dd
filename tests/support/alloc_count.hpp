// Counts what the whole program takes from the heap, by replacing operator new; and makes it fail.
#pragma once

#include <cstdint>

namespace cordma::test {

// Calls of any operator new so far, on every thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

// False in sanitized builds, whose operator new cannot be replaced: nothing is counted then.
[[nodiscard]] bool counts_allocations() noexcept;

// The n-th allocation from now on throws std::bad_alloc (1 = the next). 0: none does.
enum class failing : std::uint8_t { once, from_then_on };
void fail_allocation(std::uint64_t n, failing how = failing::once) noexcept;
// Whether the allocation that was to fail has come.
[[nodiscard]] bool allocation_failed() noexcept;

}  // namespace cordma::test
