// slowlog: the commands that took longest to carry out, newest first.
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
  static constexpr std::size_t most_arguments = 32;  // the last says how many more there were
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
  // The newest so many.
  [[nodiscard]] std::vector<entry> newest(std::size_t count) const;
  [[nodiscard]] std::size_t size() const;
  // Of the oldest those above so many go.
  void trim(std::size_t most_entries);
  void clear();

 private:
  mutable std::mutex guard_;
  std::deque<entry> entries_;  // newest in front
  std::uint64_t next_ = 0;
};

// The arguments as they may be shown to others: "(redacted)" for passwords, and for what ACL SETUSER is told of a user.
[[nodiscard]] std::vector<std::string_view> without_secrets(const known_command& what,
                                                            std::span<const std::string_view> args);

}  // namespace kv
