// A forked process that plays the peer, and the pipe between it and the test. Fork ahead of every
// reactor and thread: the child has none of its parent's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

namespace cordma::test {

// One end of a socket pair: short lines, either way.
class wire_to_peer {
 public:
  explicit wire_to_peer(int fd) noexcept : fd_(fd) {}
  wire_to_peer(wire_to_peer&& other) noexcept;
  wire_to_peer& operator=(wire_to_peer&& other) noexcept;
  ~wire_to_peer();

  void tell(const std::string& line);
  // Waits for a line; empty when the other side is gone.
  [[nodiscard]] std::string hear();
  // A line where one is there.
  [[nodiscard]] std::optional<std::string> hear_now();

 private:
  int fd_;
};

class child_process {
 public:
  // `life` is all the process does; it returns 0 where all was well. An exception ends it with 1.
  explicit child_process(const std::function<int(wire_to_peer&)>& life);
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  // Kills what still runs.
  ~child_process();

  [[nodiscard]] wire_to_peer& wire() noexcept { return wire_; }
  // SIGKILL, and waits until it is dead.
  void kill();
  void stop_it();  // SIGSTOP
  void continue_it();
  // Waits for its end; its exit status, or 128 + signal.
  [[nodiscard]] int join();

 private:
  pid_t pid_ = -1;
  wire_to_peer wire_;
};

}  // namespace cordma::test
