// The active connections: their sockets are read in every poll.
#pragma once

#include <array>
#include <cstddef>

namespace cordma::transport::tcp {

class connection;

// Bound to the adapter's thread.
class active_set {
 public:
  static constexpr std::size_t most = 4;
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool has(const connection& c) const noexcept;
  // Takes the slot of the most idle connection, if an idle one exists.
  void add(connection& c) noexcept;
  void remove(const connection& c) noexcept;
  // True if any data arrived.
  [[nodiscard]] bool receive() noexcept;
  // See connection::follow(). False if the epoll set did not accept one of them.
  [[nodiscard]] bool follow() noexcept;
  [[nodiscard]] bool are_drained() const noexcept;

 private:
  static constexpr unsigned most_misses = 64;  // then it leaves, unless it is the only one
  struct candidate {
    connection* who = nullptr;
    unsigned misses = 0;
  };
  void retire(std::size_t place) noexcept;

  std::array<candidate, most> at_;
  std::size_t count_ = 0;
};

}  // namespace cordma::transport::tcp
