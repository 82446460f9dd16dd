// A forked process that acts as the peer, and the pipe between it and the test. Fork before
// creating any reactor or thread: the child has none of its parent's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

namespace cordma::test {

// One end of a socket pair: short lines, in both directions.
class wire_to_peer {
 public:
  explicit wire_to_peer(int fd) noexcept : fd_(fd) {}
  wire_to_peer(wire_to_peer&& other) noexcept;
  wire_to_peer& operator=(wire_to_peer&& other) noexcept;
  ~wire_to_peer();

  void tell(const std::string& line);
  // Waits for a line; empty if the other side has exited.
  [[nodiscard]] std::string hear();
  // Returns a line if one has arrived.
  [[nodiscard]] std::optional<std::string> hear_now();

 private:
  int fd_;
};

class child_process {
 public:
  // The process runs only `life`, which returns 0 on success. An exception ends it with 1.
  explicit child_process(const std::function<int(wire_to_peer&)>& life);
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  // Kills the process if it still runs.
  ~child_process();

  [[nodiscard]] wire_to_peer& wire() noexcept { return wire_; }
  // Sends SIGKILL, and waits until the process is dead.
  void kill();
  void stop_it();  // SIGSTOP
  void continue_it();
  // Waits for its end; returns its exit status, or 128 + signal.
  [[nodiscard]] int join();

 private:
  pid_t pid_ = -1;
  wire_to_peer wire_;
};

}  // namespace cordma::test
