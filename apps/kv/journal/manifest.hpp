// The list of files that together are the journal, as Redis 7 writes it: "file NAME seq N type b", one a line.
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

// In the order in which they are read: the base, where there is one, then the increments.
struct manifest {
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;
  static constexpr std::size_t most_files = 4096;
  static constexpr std::uint64_t most_number = std::uint64_t{1} << 62;

  std::optional<journal_file> base;
  std::vector<journal_file> increments;
  std::vector<journal_file> history;  // replaced, and to be removed

  [[nodiscard]] std::string text() const;
  // The greatest number in it.
  [[nodiscard]] std::uint64_t last_number() const noexcept;
};

// Errors: invalid_value, with the line; `text` may be any.
[[nodiscard]] cordma::result<manifest> parse_manifest(std::string_view text);
// The text of a manifest; null: there is none. Errors: invalid_value above manifest::most_bytes; the system's.
[[nodiscard]] cordma::result<std::optional<std::string>> read_manifest(const std::string& path);
// The highest N of the files APPENDFILENAME.N.base.ckv and APPENDFILENAME.N.incr.ckv there; 0: there are none. Numbers
// that no journal comes to, above half of what a manifest takes, do not count.
[[nodiscard]] std::uint64_t last_number_in(const std::string& directory,
                                           std::string_view appendfilename) noexcept;
// Above all of both, and nothing that a manifest would not take. Errors: full.
[[nodiscard]] cordma::result<std::uint64_t> next_number(std::uint64_t named, std::uint64_t found);

}  // namespace kv
