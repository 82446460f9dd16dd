// How many descriptors this process holds: to see that none is left behind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace cordma::test {

[[nodiscard]] inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace cordma::test
