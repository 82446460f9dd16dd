// seat: counts one client for as long as it exists.
#pragma once

#include <atomic>
#include <cstdint>

namespace kv {

// Takes one place of a count for its lifetime. Seats of one count may be destroyed on any thread.
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
