// Extended attributes, including ACLs.
#pragma once

#include "entry.hpp"

#include <vector>

namespace copy {

// Reads the attributes of `name` in the open directory that a copy can have: user, security,
// trusted, and ACLs. Follows no symlink, and opens nothing. Unreadable attributes are left out.
// Returns 0, or errno if they cannot be listed; 0 for a file system without attributes. `buffer` is
// scratch memory that the caller keeps between calls.
[[nodiscard]] int read_attributes(int directory, const char* name, std::vector<char>& buffer,
                                  std::vector<attribute>& into);

}  // namespace copy
