// Output of programs in the machine, mostly about the device.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>

namespace cordma::test {

[[nodiscard]] inline std::string told(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 256> line{};
  std::string all;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) all += line.data();
  REQUIRE(::pclose(pipe) == 0);
  return all;
}

// "0: rxe0: pd 2 cq 3 qp 5 ...": objects that the kernel holds for all users of the device.
[[nodiscard]] inline std::string on_device() { return told("rdma resource show"); }

// True if the count returns to `before`: objects of ended connections stay in the kernel for a
// moment.
[[nodiscard]] inline bool is_again(const std::string& before) {
  for (int i = 0; i < 300; ++i) {
    if (on_device() == before) return true;
  }
  return false;
}

}  // namespace cordma::test
