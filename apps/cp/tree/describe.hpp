// What the system says of a file, as cordma-cp says it.
#pragma once

#include "entry.hpp"

#include <cstdint>
#include <string>

#include <sys/stat.h>

namespace copy {

// Which machine this is, since when it runs. 0 where the system does not say.
[[nodiscard]] std::uint64_t this_boot() noexcept;

// Without what is not in `s`: path, target, attributes, origin.
[[nodiscard]] entry describe(const struct stat& s, entry_kind kind);

// As the end of a sentence: "is a FIFO". REQUIRES that it is no regular file.
[[nodiscard]] const char* why_left_out(mode_t mode) noexcept;

// Whether an errno says that a name which was found leads to no such thing any more.
[[nodiscard]] bool is_gone(int error) noexcept;
// An errno of a system call here, for people.
[[nodiscard]] std::string reason(int error);

[[nodiscard]] bool same_file(const struct stat& a, const struct stat& b) noexcept;

// Returns 0, or errno: ENOENT, too, where there is no symlink any more.
[[nodiscard]] int read_link(int directory, const char* name, std::string& into);

}  // namespace copy
