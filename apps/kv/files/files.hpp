// File system operations of the service. All calls block.
#pragma once

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kv {

// Returns the number of bytes read; it is below the requested size only at the file's end.
// Negative: an errno.
[[nodiscard]] std::ptrdiff_t read_fully(int fd, std::span<char> into,
                                        std::uint64_t offset) noexcept;

// Prefix of files that are written before they get their final name. A process killed meanwhile
// leaves such a file.
inline constexpr std::string_view temporary_prefix = "temp-";

// Creates a file that replaces any file of this name. Errors: with errno.
[[nodiscard]] cordma::result<cordma::unique_fd> create_file(const std::string& path);
// Opens an existing file for writing.
[[nodiscard]] cordma::result<cordma::unique_fd> open_file(const std::string& path);
[[nodiscard]] cordma::result<void> make_directory(const std::string& path);
// Ensures that names in the directory survive a power loss.
[[nodiscard]] cordma::result<void> sync_directory(const std::string& path);
// Replaces the file atomically, even if the power fails meanwhile. After an error either text may
// be present: if only the directory could not be synced, it is the new one for now. The new file
// has the permissions of the old one.
[[nodiscard]] cordma::result<void> replace_file(const std::string& directory,
                                                const std::string& name, std::string_view text);
// Renames `from` to `to` durably; both are in `directory`.
[[nodiscard]] cordma::result<void> rename_file(const std::string& directory,
                                               const std::string& from, const std::string& to);
// Creates a file that must not exist yet. Errors: with errno.
[[nodiscard]] cordma::result<cordma::unique_fd> create_new_file(const std::string& path);
// Returns null if the file does not exist.
[[nodiscard]] std::optional<std::uint64_t> file_size(const std::string& path) noexcept;
[[nodiscard]] cordma::result<void> truncate_file(const std::string& path, std::uint64_t bytes);
void remove_file(const std::string& path) noexcept;
// For salts.
[[nodiscard]] std::uint32_t random_number() noexcept;

}  // namespace kv
