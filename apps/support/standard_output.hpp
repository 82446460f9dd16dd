// The end of a program that prints its result.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace support {

// Returns `code`, or 1 with an error message if standard output could not be written completely, as
// on a full disk.
[[nodiscard]] inline int finish_output(const char* program, int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(
      stderr, "%s: standard output: %s\n", program,
      errno != 0 ? std::strerror(errno) : "not all of it could be written; is a disk full?");
  return 1;
}

}  // namespace support
