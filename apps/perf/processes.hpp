// The process around a run: where it runs, and a second one beside it for --local.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace perf {

// Pins this process; the sentence of what went wrong, empty where nothing did.
[[nodiscard]] std::string pin_to(std::optional<int> cpu);

// A child that runs a server: `body` is given a function to call with the address once it listens,
// and returns the exit code. The child ends when this process does.
class server_process {
 public:
  using tell_address = std::function<void(const std::string&)>;
  explicit server_process(const std::function<int(const tell_address&)>& body);
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  ~server_process();

  // Empty where it ended before it listened (it has said why).
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Waits for its end; what waitpid() said as a shell would: 128 + n for signal n.
  int wait();

 private:
  int pid_ = -1;
  std::string address_;
};

}  // namespace perf
