// logbook: what the server has to say to those who run it.
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
// "debug", "verbose", "notice", "warning", as Redis calls them.
[[nodiscard]] std::optional<log_level> parse_log_level(std::string_view text) noexcept;

// A line is one write() and says when, who and how grave. Any thread.
class logbook {
 public:
  // Empty: standard error. Throws cordma::error, naming the file.
  explicit logbook(std::string file = {}, log_level least = log_level::notice);

  void set_least(log_level least) noexcept { least_.store(least, std::memory_order_relaxed); }
  [[nodiscard]] bool keeps(log_level l) const noexcept {
    return l >= least_.load(std::memory_order_relaxed);
  }
  // Bytes that would be no text are written as \xNN: clients have no say in how lines look.
  void write(log_level l, std::string_view text) noexcept;
  // The file anew, where it was moved away. False: it cannot be opened, and the old one stays.
  bool reopen() noexcept;

 private:
  std::string file_;
  std::atomic<log_level> least_;
  std::mutex guard_;
  cordma::unique_fd out_;
};

// For a service manager that started this by Type=notify: "READY=1", "STOPPING=1", "STATUS=..."; else nothing.
[[nodiscard]] bool has_service_manager() noexcept;
void tell_service_manager(std::string_view state) noexcept;

}  // namespace kv
