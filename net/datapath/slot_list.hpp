// A FIFO list of slots.
#pragma once

#include <cordma/net/datapath/slot.hpp>

namespace cordma::detail {

// Linked by slot::next: a slot is in at most one list.
class slot_list {
 public:
  slot_list() = default;
  slot_list(const slot_list&) = delete;
  slot_list& operator=(const slot_list&) = delete;

  // Null if it is empty.
  [[nodiscard]] slot* first() const noexcept { return first_; }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push_back(slot& s) noexcept {
    s.next = nullptr;
    *end_ = &s;
    end_ = &s.next;
  }
  // REQUIRES that it is in this list.
  void remove(const slot& s) noexcept {
    if (first_ == &s) [[likely]] {
      first_ = s.next;
      if (first_ == nullptr) end_ = &first_;
    } else {
      remove_later(s);
    }
  }

 private:
  // For a slot that is not the first: only when connections end.
  void remove_later(const slot& s) noexcept;

  slot* first_ = nullptr;
  slot** end_ = &first_;  // points to the link for the next slot
};

}  // namespace cordma::detail
