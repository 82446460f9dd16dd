// Which owners and groups files may be given.
#pragma once

#include "target.hpp"

#include <vector>

#include <sys/types.h>

namespace copy {

// Returns the groups that this thread may give its files to. Root may give files to any group.
[[nodiscard]] std::vector<gid_t> own_groups();

// True if the owner or group of the source is to be kept, whether or not this will succeed.
[[nodiscard]] bool is_owner_wanted(const keep_options& what) noexcept;
[[nodiscard]] bool is_group_wanted(const keep_options& what, gid_t group);

}  // namespace copy
