// acl_log: denied commands, keys and logins of users, newest first.
#pragma once

#include "../store/item.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace kv {

// Any thread.
class acl_log {
 public:
  // Equal events within this time, in ms, are counted in one entry.
  static constexpr unix_ms same_within = 60'000;

  struct entry {
    std::uint64_t count = 1;
    std::string reason;   // "command", "key", "auth"
    std::string context;  // "toplevel", "multi", "lua"
    std::string object;   // the command or the key
    std::string user;
    std::string client;  // as in CLIENT INFO
    unix_ms when = 0;

    [[nodiscard]] bool same_as(const entry& e) const noexcept {
      return reason == e.reason && context == e.context && object == e.object && user == e.user;
    }
  };

  void add(entry e, std::size_t most_entries);
  // Returns the newest entries, at most `count`.
  [[nodiscard]] std::vector<entry> newest(std::size_t count) const;
  void clear();

 private:
  mutable std::mutex guard_;
  std::list<entry> entries_;  // newest first
};

}  // namespace kv
