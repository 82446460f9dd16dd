// Answers that this side still has to send for rendezvous messages of the peer.
#pragma once

#include <cordma/net/protocol/frame.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace cordma::detail {

class due_answers {
 public:
  static constexpr std::uint32_t most = 64;  // limit of offers without an answer
  static_assert(most <= protocol::most_offers, "more than a hello may say");

  [[nodiscard]] bool is_full() const noexcept { return announced_ == most; }
  // Records one more offer and reserves memory for its answer. Errors: no_memory.
  [[nodiscard]] result<void> expect() noexcept {
    try {
      if (due_.capacity() == announced_) due_.reserve(announced_ != 0 ? 2 * announced_ : 4U);
    } catch (const std::bad_alloc&) {
      return errc::no_memory;
    }
    CORDMA_ASSERT_OP(due_.capacity(), >, announced_);
    ++announced_;
    return {};
  }
  void add(protocol::done_word word) noexcept {
    CORDMA_ASSERT_OP(due_.size(), <, announced_);
    CORDMA_ASSERT_OP(due_.size(), <, due_.capacity());
    due_.push_back(word);
  }
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  // Removes and returns the next answer; the caller sends it now.
  [[nodiscard]] protocol::done_word take() noexcept {
    CORDMA_ASSERT_OP(announced_, >=, due_.size());
    --announced_;
    const protocol::done_word word = due_.front();
    due_.erase(due_.begin());
    return word;
  }
  void clear() noexcept { due_.clear(); }

 private:
  std::uint32_t announced_ = 0;
  std::vector<protocol::done_word> due_;
};

}  // namespace cordma::detail
