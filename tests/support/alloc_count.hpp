// Counts the heap allocations of the complete program by replacing operator new, and can make them
// fail.
#pragma once

#include <cstdint>

namespace cordma::test {

// Sanitizers make a program many times slower, and TSan has its own operator new, which must be
// used.
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

// Calls of any operator new so far, on every thread; and the number not yet freed.
[[nodiscard]] std::uint64_t allocations() noexcept;
[[nodiscard]] std::uint64_t live_allocations() noexcept;

// Makes the n-th allocation from now on throw std::bad_alloc (1 = the next). 0: none.
enum class failing : std::uint8_t { once, from_then_on };
void fail_allocation(std::uint64_t n, failing how = failing::once) noexcept;
// True if the allocation that has to fail was made.
[[nodiscard]] bool allocation_failed() noexcept;

}  // namespace cordma::test
