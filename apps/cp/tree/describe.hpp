// Conversion of file attributes to entries and texts.
#pragma once

#include "entry.hpp"

#include <cstdint>
#include <string>

#include <sys/stat.h>

namespace copy {

// Returns an identifier of this machine and its boot; 0 if the system does not provide one.
[[nodiscard]] std::uint64_t this_boot() noexcept;

// Fills all fields except those that `s` does not contain: path, target, attributes, origin.
[[nodiscard]] entry describe(const struct stat& s, entry_kind kind);

// Returns the end of a sentence: "is a FIFO". REQUIRES: it is not a regular file.
[[nodiscard]] const char* why_left_out(mode_t mode) noexcept;

// True if an errno means that a name found earlier no longer leads to such an entry.
[[nodiscard]] bool is_gone(int error) noexcept;
// Returns a text for people for an errno of a local system call.
[[nodiscard]] std::string reason(int error);

[[nodiscard]] bool same_file(const struct stat& a, const struct stat& b) noexcept;

// Returns 0, or errno; ENOENT also if the symlink no longer exists.
[[nodiscard]] int read_link(int directory, const char* name, std::string& into);

}  // namespace copy
