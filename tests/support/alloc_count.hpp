// Counts what the whole program takes from the heap, by replacing operator new.
#pragma once

#include <cstdint>

namespace cordma::test {

// Calls of any operator new so far, on every thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

// False in sanitized builds, whose operator new cannot be replaced: nothing is counted then.
[[nodiscard]] bool counts_allocations() noexcept;

}  // namespace cordma::test
