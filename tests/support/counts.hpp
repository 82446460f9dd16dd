// How many times a test does what it counts.
#pragma once

#include <cstdint>

namespace cordma::test {

// `full` times; on verbs `emulated` times, since devices are tested in an emulated machine, unless
// CORDMA_TEST_COUNTS is "full".
[[nodiscard]] std::uint64_t times(std::uint64_t full, std::uint64_t emulated);

}  // namespace cordma::test
