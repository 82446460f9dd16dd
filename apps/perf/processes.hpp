// The CPU of this process, and a second process for --local.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace perf {

// Pins this process. Returns an error message; empty: success.
[[nodiscard]] std::string pin_to(std::optional<int> cpu);

// A child process that runs a server. `body` calls the given function with the address once it
// listens, and returns the exit code. The child ends when this process does.
class server_process {
 public:
  using tell_address = std::function<void(const std::string&)>;
  explicit server_process(const std::function<int(const tell_address&)>& body);
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  ~server_process();

  // Empty if the child ended before it listened; it has printed the reason.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Waits for its end. Returns the exit code as a shell does: 128 + n for signal n.
  int wait();

 private:
  int pid_ = -1;
  std::string address_;
};

}  // namespace perf
