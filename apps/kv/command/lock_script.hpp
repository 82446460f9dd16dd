// lock_script: the Lua scripts by which client libraries take, extend and release locks, recognised
// by their effect.
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

// Effect of such a script on its keys if they hold ARGV[1]. Otherwise it returns 0, unless stated.
enum class lock_script : std::uint8_t {
  erase,           // DEL
  expire_ms,       // PEXPIRE to ARGV[2]
  expire_seconds,  // EXPIRE to ARGV[2]
  lengthen,        // PEXPIRE to the remaining time plus ARGV[2]; also 0 if there is no time to live
  lengthen_or_renew,  // as lengthen if ARGV[3] is "0"; else PEXPIRE to ARGV[2]
  erase_all,          // DEL of those keys that hold it; returns their number
  renew_all,          // SET PX ARGV[2], if all keys hold it; returns their number
  take_all,           // SET PX ARGV[2], if none of the keys exists; returns their number
  // For one key:
  erase_or_null,           // DEL; else null
  expire_ms_or_null,       // PEXPIRE to ARGV[2]; else null
  expire_seconds_or_null,  // EXPIRE to ARGV[2]; else null
  erase_or_gone,           // DEL; -1 if the key does not exist
  erase_or_error,          // DEL; OK if the key does not exist, else an error
  renew,                   // SET PX ARGV[2], which returns OK
  take_or_expire,  // PEXPIRE to ARGV[2], or SET PX ARGV[2] if the key does not exist; else null
  take_or_renew,   // SET PX ARGV[2], also if the key does not exist; else an error
  seconds_left,    // TTL; else an error
};

// Returns no value for other scripts. White space, comments, quotes, the case of commands and names
// of variables do not matter.
[[nodiscard]] std::optional<lock_script> recognise(std::string_view text);

// Scripts that clients have sent, by SHA-1. Any thread.
class script_cache {
 public:
  static constexpr std::size_t most_scripts = 1000;  // beyond it the oldest are dropped

  // `digits` are its SHA-1, in any case.
  [[nodiscard]] std::optional<lock_script> find(std::string_view digits) const;
  void add(const std::string& digits, lock_script what);
  void clear();

 private:
  mutable std::mutex guard_;
  std::map<std::string, lock_script, std::less<>> by_name_;
  std::deque<std::string> oldest_;
};

}  // namespace kv
