// Removal of trees.
#pragma once

#include "target.hpp"

#include <string>
#include <vector>

namespace copy {

// Lists the names in a directory in byte order, without "." and "..". Returns 0, or errno.
[[nodiscard]] int list_names(int directory, std::vector<std::string>& into);

// Removes `name` of `directory` with all its contents. Follows no symlink and does not leave the
// file system. Needs few descriptors at any depth. `path` is its name in reports. Appends removed
// paths (in a dry run, those that would be removed) to `gone`, contents before their directory, and
// failures to `problems`. Entries that `spared` excludes, by the reported paths, stay with the
// directories above them; this is no problem. Null: none are spared.
void remove_tree(int directory, const std::string& name, const std::string& path,
                 target::removal how, const filter* spared, std::vector<std::string>& gone,
                 std::vector<problem>& problems, target::removal_limit* limit = nullptr);

// True if `name` of `directory` is a regular file, and not a symlink to one.
[[nodiscard]] bool is_regular(int directory, const std::string& name) noexcept;

}  // namespace copy
