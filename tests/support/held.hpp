// System resources of this process, to detect leaks.
#pragma once

#include <support/fd_count.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace cordma::test {

// These counts return to their old values when the objects are destroyed.
struct held {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;  // named by cordma; heap and stacks vary
  std::size_t names = 0;     // of cordma in /dev/shm
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
