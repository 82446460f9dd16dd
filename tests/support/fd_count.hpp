// Number of descriptors of this process, to detect leaks; and a process that cannot open any.
#pragma once

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace cordma::test {

[[nodiscard]] inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// No descriptor can be opened during its lifetime.
class no_descriptors {
 public:
  no_descriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{0, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace cordma::test
