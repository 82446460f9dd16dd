// Seeds for tests with random input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace copy::test {

struct seed_range {
  std::uint64_t first = 1;
  std::uint64_t count = 0;
};

// 1 to `count`, or those of CORDMA_TEST_SEEDS: "17", or "1+2000" for 2000 seeds from 1 on.
[[nodiscard]] inline seed_range seeds_under_test(std::uint64_t count) {
  const char* const named = std::getenv("CORDMA_TEST_SEEDS");
  if (named == nullptr) return {.first = 1, .count = count};
  const std::string asked = named;
  const std::size_t plus = asked.find('+');
  const std::uint64_t many = plus == std::string::npos ? 1 : std::stoull(asked.substr(plus + 1));
  return {.first = std::stoull(asked), .count = many};
}

}  // namespace copy::test
