// Finds the process that has locked a file.
#pragma once

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace support {

// The process that holds a flock(2) on `file`: "1234", from a line of /proc/locks: "7: FLOCK
// ADVISORY WRITE 1234 08:01:5678 0 EOF". Empty: unknown, as for processes of another container, and
// for file systems with different device numbers in that file.
[[nodiscard]] inline std::string lock_holder(const struct stat& file) {
  std::array<char, 64> place{};
  std::snprintf(place.data(), place.size(), "%02x:%02x:%llu", major(file.st_dev),
                minor(file.st_dev), static_cast<unsigned long long>(file.st_ino));
  std::ifstream locks("/proc/locks");
  std::string number, kind, how, access, process, which, rest;
  while (locks >> number >> kind >> how >> access >> process >> which &&
         std::getline(locks, rest)) {
    const bool is_known = process != "0" && !process.starts_with('-');
    if (kind == "FLOCK" && which == place.data() && is_known) return process;
  }
  return {};
}

}  // namespace support
