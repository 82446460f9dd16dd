// slowlog: the commands that took longest to run, newest first.
#pragma once

#include "command.hpp"

#include "../store/item.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Any thread.
class slowlog {
 public:
  static constexpr std::size_t most_arguments = 32;  // the last one has the number of omitted ones
  static constexpr std::size_t most_argument_bytes = 128;

  struct entry {
    std::uint64_t id = 0;
    unix_ms when = 0;
    std::uint64_t microseconds = 0;
    std::vector<std::string> args;
    std::string peer;
    std::string name;
  };
  void add(entry e, std::span<const std::string_view> args, std::size_t most_entries);
  // Returns the newest entries, at most `count`.
  [[nodiscard]] std::vector<entry> newest(std::size_t count) const;
  [[nodiscard]] std::size_t size() const;
  // Drops the oldest entries above this number.
  void trim(std::size_t most_entries);
  void clear();

 private:
  mutable std::mutex guard_;
  std::deque<entry> entries_;  // newest first
  std::uint64_t next_ = 0;
};

// Returns the arguments as others may see them: "(redacted)" for passwords and for the rules of ACL
// SETUSER.
[[nodiscard]] std::vector<std::string_view> without_secrets(const known_command& what,
                                                            std::span<const std::string_view> args);

}  // namespace kv
