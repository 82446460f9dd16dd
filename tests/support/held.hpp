// What this process holds of its system, to see that nothing is left behind.
#pragma once

#include <support/fd_count.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace cordma::test {

// It comes back when the objects go.
struct held {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;  // of memory with a name of ours; heap and stacks come and go
  std::size_t names = 0;     // of ours in /dev/shm
  bool operator==(const held&) const = default;
};

[[nodiscard]] inline held held_now() {
  held h;
  h.descriptors = open_descriptors();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos || line.find("cordma-") != std::string::npos) {
      ++h.mappings;
    }
  }
  for (const auto& name : std::filesystem::directory_iterator("/dev/shm")) {
    if (name.path().filename().string().find("cordma") != std::string::npos) ++h.names;
  }
  return h;
}

}  // namespace cordma::test
