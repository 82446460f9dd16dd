// monitor: clients that receive every command that runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace kv {

class caller;

// Returns a command as shown by MONITOR: '+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"', with
// a line end.
[[nodiscard]] std::string monitor_line(const caller& who, std::uint64_t now_us,
                                       std::span<const std::string_view> args);

// Lines for one client, added by any thread and removed by its own.
class monitor_box {
 public:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

  // Returns false if it is full. Throws std::bad_alloc.
  [[nodiscard]] bool add(std::string_view line);
  [[nodiscard]] std::string take() noexcept;

 private:
  std::mutex guard_;
  std::string text_;
};

}  // namespace kv
