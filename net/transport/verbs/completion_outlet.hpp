// The output buffer that a poll fills with completions.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <span>

namespace cordma::transport::verbs {

// One per adapter. Bound to the adapter's thread.
class completion_outlet {
 public:
  // Sets the buffer for the time of one poll.
  void open(std::span<completion> out) noexcept {
    next_ = out.data();
    end_ = next_ + out.size();
  }
  // Stops direct output: earlier completions wait, and must not be overtaken.
  void shut() noexcept { end_ = next_; }
  // Returns the number of completions written since `first`, the start of the buffer.
  [[nodiscard]] std::size_t close(const completion* first) noexcept {
    const auto n = static_cast<std::size_t>(next_ - first);
    next_ = end_ = nullptr;
    return n;
  }
  [[nodiscard]] bool has_room() const noexcept { return next_ != end_; }
  // REQUIRES has_room(), and that no earlier completion of the same queue is still unreported.
  void tell(const completion& c) noexcept { *next_++ = c; }
  // REQUIRES that one was written since open().
  [[nodiscard]] completion& last() noexcept { return next_[-1]; }

 private:
  completion* next_ = nullptr;
  completion* end_ = nullptr;
};

}  // namespace cordma::transport::verbs
