// Trees that go.
#pragma once

#include "target.hpp"

#include <string>
#include <vector>

namespace copy {

// Names in a directory, in their byte order, without "." and "..". 0, or errno.
[[nodiscard]] int list_names(int directory, std::vector<std::string>& into);

// Removes `name` of `directory`, with all that is in it, without following a symlink and without leaving the file
// system; however deep it is, with few descriptors. `path` is what it is called in reports. What went (or, dry, would
// go) is appended to `gone`, what is in a directory before it; what cannot be removed to `problems`. What `spared`
// excludes, by the paths that are reported, stays with the directories that lead there, which is no problem; null: nothing.
void remove_tree(int directory, const std::string& name, const std::string& path,
                 target::removal how, const filter* spared, std::vector<std::string>& gone,
                 std::vector<problem>& problems, target::removal_limit* limit = nullptr);

// Whether `name` of `directory` is a file, and no symlink to one.
[[nodiscard]] bool is_regular(int directory, const std::string& name) noexcept;

}  // namespace copy
