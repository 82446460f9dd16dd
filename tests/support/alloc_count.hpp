// Counts what the whole program takes from the heap, by replacing operator new; and makes it fail.
#pragma once

#include <cstdint>

namespace cordma::test {

// Whether this program runs under ASan or TSan, which make it many times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

// Calls of any operator new so far, on every thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

// The n-th allocation from now on throws std::bad_alloc (1 = the next). 0: none does.
enum class failing : std::uint8_t { once, from_then_on };
void fail_allocation(std::uint64_t n, failing how = failing::once) noexcept;
// Whether the allocation that was to fail has come.
[[nodiscard]] bool allocation_failed() noexcept;

}  // namespace cordma::test
