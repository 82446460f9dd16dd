// What the service asks of the file system, by calls that wait.
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

// What was read: less than asked for only at the file's end. Negative: an error, by errno.
[[nodiscard]] std::ptrdiff_t read_fully(int fd, std::span<char> into,
                                        std::uint64_t offset) noexcept;

// What is written before it gets its name begins so; who is killed meanwhile leaves it.
inline constexpr std::string_view temporary_prefix = "temp-";

// A file that replaces whatever has its name. Errors: with errno.
[[nodiscard]] cordma::result<cordma::unique_fd> create_file(const std::string& path);
// An existing one, to write to.
[[nodiscard]] cordma::result<cordma::unique_fd> open_file(const std::string& path);
[[nodiscard]] cordma::result<void> make_directory(const std::string& path);
// So that names in it stay after the power was lost.
[[nodiscard]] cordma::result<void> sync_directory(const std::string& path);
// The whole of it, at once or not at all, also when the power is lost meanwhile. Where it fails either text may be there:
// when only the directory could not be synced, the new one for now. Its mode is that of the one before.
[[nodiscard]] cordma::result<void> replace_file(const std::string& directory,
                                                const std::string& name, std::string_view text);
// `from` becomes `to` for good; both are in `directory`.
[[nodiscard]] cordma::result<void> rename_file(const std::string& directory,
                                               const std::string& from, const std::string& to);
// One that is not there yet. Errors: with errno.
[[nodiscard]] cordma::result<cordma::unique_fd> create_new_file(const std::string& path);
// Null: there is none.
[[nodiscard]] std::optional<std::uint64_t> file_size(const std::string& path) noexcept;
[[nodiscard]] cordma::result<void> truncate_file(const std::string& path, std::uint64_t bytes);
void remove_file(const std::string& path) noexcept;
// For salts.
[[nodiscard]] std::uint32_t random_number() noexcept;

}  // namespace kv
