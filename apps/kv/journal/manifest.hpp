// The list of the journal's files in the format of Redis 7: one line "file NAME seq N type b" for
// each file.
#pragma once

#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

struct journal_file {
  std::string name;
  std::uint64_t number = 0;
};

// In reading order: the base, if any, then the increments.
struct manifest {
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;
  static constexpr std::size_t most_files = 4096;
  static constexpr std::uint64_t most_number = std::uint64_t{1} << 62;

  std::optional<journal_file> base;
  std::vector<journal_file> increments;
  std::vector<journal_file> history;  // replaced, to be removed

  [[nodiscard]] std::string text() const;
  // The greatest number of any file in it.
  [[nodiscard]] std::uint64_t last_number() const noexcept;
};

// `text` may be anything. Errors: invalid_value, with the line.
[[nodiscard]] cordma::result<manifest> parse_manifest(std::string_view text);
// Reads the text of a manifest; null if there is none. Errors: invalid_value above
// manifest::most_bytes; the system's.
[[nodiscard]] cordma::result<std::optional<std::string>> read_manifest(const std::string& path);
// The highest N of the files APPENDFILENAME.N.base.ckv and APPENDFILENAME.N.incr.ckv in the
// directory, or 0 if there are none. Ignores numbers above half of manifest::most_number, which no
// journal reaches.
[[nodiscard]] std::uint64_t last_number_in(const std::string& directory,
                                           std::string_view appendfilename) noexcept;
// Returns a number above both that a manifest accepts. Errors: full.
[[nodiscard]] cordma::result<std::uint64_t> next_number(std::uint64_t named, std::uint64_t found);

}  // namespace kv
