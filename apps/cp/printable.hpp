// Text of others, for people.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace copy {

// What a terminal, or a log, can take of what a peer or a file system says: control bytes as "\012".
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte != 127) {
      shown += c;
      continue;
    }
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", byte);
    shown += octal;
  }
  return shown;
}

}  // namespace copy
