// To whom files may be given.
#pragma once

#include "target.hpp"

#include <vector>

#include <sys/types.h>

namespace copy {

// Of this thread: those that it may give its files to, unless it is root, who may give any to anybody.
[[nodiscard]] std::vector<gid_t> own_groups();

// Whether owner or group of what is kept are to be those of its source, whether or not that can be done then.
[[nodiscard]] bool is_owner_wanted(const keep_options& what) noexcept;
[[nodiscard]] bool is_group_wanted(const keep_options& what, gid_t group);

}  // namespace copy
