// seat: what is counted of clients.
#pragma once

#include <atomic>
#include <cstdint>

namespace kv {

// A place for one; taken as long as it lives. Those of one count may end on any thread.
class seat {
 public:
  explicit seat(std::atomic<std::uint32_t>& count) noexcept : count_(count) { ++count_; }
  ~seat() { --count_; }
  seat(const seat&) = delete;
  seat& operator=(const seat&) = delete;

 private:
  std::atomic<std::uint32_t>& count_;
};

}  // namespace kv
