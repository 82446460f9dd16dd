// Counts what the whole program takes from the heap, by replacing operator new; and makes it fail.
#pragma once

#include <cstdint>

namespace cordma::test {

// Sanitizers make a program many times slower, and TSan brings an operator new that must win.
#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define CORDMA_UNDER_TSAN 1
#else
#define CORDMA_UNDER_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = CORDMA_UNDER_TSAN;
#endif

// False under TSan: nothing is counted then, and nothing fails.
inline constexpr bool counts_allocations = !CORDMA_UNDER_TSAN;

// Calls of any operator new so far, on every thread; and what of it has not been given back.
[[nodiscard]] std::uint64_t allocations() noexcept;
[[nodiscard]] std::uint64_t live_allocations() noexcept;

// The n-th allocation from now on throws std::bad_alloc (1 = the next). 0: none does.
enum class failing : std::uint8_t { once, from_then_on };
void fail_allocation(std::uint64_t n, failing how = failing::once) noexcept;
// Whether the allocation that was to fail has come.
[[nodiscard]] bool allocation_failed() noexcept;

}  // namespace cordma::test
