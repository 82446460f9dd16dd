// lock_script: the Lua scripts with which client libraries take, keep and give back locks, recognised by what they do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

// What such a script does with its keys, if they hold ARGV[1]; else it returns 0, where nothing else is said.
enum class lock_script : std::uint8_t {
  erase,              // DEL
  expire_ms,          // PEXPIRE to ARGV[2]
  expire_seconds,     // EXPIRE to ARGV[2]
  lengthen,           // PEXPIRE to what is left and ARGV[2]; 0 too where there is no time to live
  lengthen_or_renew,  // as lengthen where ARGV[3] is "0"; else PEXPIRE to ARGV[2]
  erase_all,          // of several keys those that hold it; returns how many
  renew_all,          // SET PX ARGV[2], if all of several keys hold it; returns how many
  take_all,           // SET PX ARGV[2], if none of several keys exists; returns how many
  // One key:
  erase_or_null,           // DEL; else null
  expire_ms_or_null,       // PEXPIRE to ARGV[2]; else null
  expire_seconds_or_null,  // EXPIRE to ARGV[2]; else null
  erase_or_gone,           // DEL; -1 where the key does not exist
  erase_or_error,          // DEL; OK where the key does not exist, else an error
  renew,                   // SET PX ARGV[2], which says OK
  take_or_expire,  // PEXPIRE to ARGV[2], or SET PX ARGV[2] where the key does not exist; else null
  take_or_renew,   // SET PX ARGV[2], also where the key does not exist; else an error
  seconds_left,    // TTL; else an error
};

// Nothing: it is none of these. White space, comments, quotes, the case of commands and names of variables may be any.
[[nodiscard]] std::optional<lock_script> recognise(std::string_view text);

// Scripts that were sent, by SHA-1. Any thread.
class script_cache {
 public:
  static constexpr std::size_t most_scripts = 1000;  // above it the oldest go

  // Its name is `digits`, in any case.
  [[nodiscard]] std::optional<lock_script> find(std::string_view digits) const;
  void add(const std::string& digits, lock_script what);
  void clear();

 private:
  mutable std::mutex guard_;
  std::map<std::string, lock_script, std::less<>> by_name_;
  std::deque<std::string> oldest_;
};

}  // namespace kv
