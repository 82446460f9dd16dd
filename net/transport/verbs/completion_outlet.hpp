// What a poll was given to hand completions out in.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <span>

namespace cordma::transport::verbs {

// Of one adapter. Bound to its thread.
class completion_outlet {
 public:
  // For the time of one poll.
  void open(std::span<completion> out) noexcept {
    next_ = out.data();
    end_ = next_ + out.size();
  }
  // Nothing more is handed out at once: something waits, and is not to be overtaken.
  void shut() noexcept { end_ = next_; }
  // How many completions have been handed out since `first`, where it was opened.
  [[nodiscard]] std::size_t close(const completion* first) noexcept {
    const auto n = static_cast<std::size_t>(next_ - first);
    next_ = end_ = nullptr;
    return n;
  }
  [[nodiscard]] bool has_room() const noexcept { return next_ != end_; }
  // REQUIRES has_room(), and that nothing of the same queue is to be told before it.
  void tell(const completion& c) noexcept { *next_++ = c; }
  // REQUIRES that one was told since it was opened.
  [[nodiscard]] completion& last() noexcept { return next_[-1]; }

 private:
  completion* next_ = nullptr;
  completion* end_ = nullptr;
};

}  // namespace cordma::transport::verbs
