// Extended attributes, ACLs among them.
#pragma once

#include "entry.hpp"

#include <vector>

namespace copy {

// Those of `name` in the open directory that a copy can have: user, security, trusted, and ACLs. Follows no symlink,
// and opens nothing. What this process may not read is left out. Returns 0, or errno where they cannot be listed; a
// file system that has none is no error. `buffer` is its caller's to keep for the next one.
[[nodiscard]] int read_attributes(int directory, const char* name, std::vector<char>& buffer,
                                  std::vector<attribute>& into);

}  // namespace copy
