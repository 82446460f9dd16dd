// logbook: the server's log, for its operators.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

enum class log_level : std::uint8_t { debug, verbose, notice, warning };
// "debug", "verbose", "notice", "warning", the names of Redis.
[[nodiscard]] std::optional<log_level> parse_log_level(std::string_view text) noexcept;

// Writes each line by one write(), with time, process and level. Any thread.
class logbook {
 public:
  // Empty: standard error. Throws cordma::error that names the file.
  explicit logbook(std::string file = {}, log_level least = log_level::notice);

  void set_least(log_level least) noexcept { least_.store(least, std::memory_order_relaxed); }
  [[nodiscard]] bool keeps(log_level l) const noexcept {
    return l >= least_.load(std::memory_order_relaxed);
  }
  // Bytes that are not printable text are written as \xNN, so that clients cannot forge lines.
  void write(log_level l, std::string_view text) noexcept;
  // Opens the file again, for after it was moved. Returns false if it cannot be opened; the old one
  // remains in use.
  bool reopen() noexcept;

 private:
  std::string file_;
  std::atomic<log_level> least_;
  std::mutex guard_;
  cordma::unique_fd out_;
};

// Notifies a service manager that started this process with Type=notify: "READY=1", "STOPPING=1",
// "STATUS=...". Has no effect otherwise.
[[nodiscard]] bool has_service_manager() noexcept;
void tell_service_manager(std::string_view state) noexcept;

}  // namespace kv
