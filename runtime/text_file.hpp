// Reads small files of the system, as text.
#pragma once

#include <string>

namespace cordma {

// Returns the contents of the file; empty if it cannot be read. Its descriptor is close-on-exec
// from the start, which the one of std::ifstream is not: a program that another thread starts
// meanwhile does not inherit it.
[[nodiscard]] std::string read_text(const std::string& path);

}  // namespace cordma
