// timer: fires once on a reactor. timer_heap: the pending timers of a reactor.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace cordma {

class reactor;
namespace detail {
class timer_heap;
}

// Fires once, on the reactor it was added to. Destroying a pending timer removes it.
class timer {
 public:
  using function = void (*)(timer&) noexcept;
  explicit timer(function fire) noexcept : fire_(fire) {}
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer();
  [[nodiscard]] bool pending() const noexcept { return owner_ != nullptr; }
  [[nodiscard]] time_point when() const noexcept { return when_; }

 private:
  friend class reactor;
  friend class detail::timer_heap;
  function fire_;
  reactor* owner_ = nullptr;
  time_point when_{};
  std::uint64_t sequence_ = 0;  // timers of one instant fire in the order of adding
  timer* child_ = nullptr;      // the first child: a timer due no earlier, linked below this one
  timer* next_ = nullptr;       // next sibling
  timer* before_ = nullptr;     // previous sibling; the parent for a first child; else null
};

namespace detail {

// A pairing heap whose nodes are the timers: it needs no memory for any number of pending timers.
// Bound to one thread.
class timer_heap {
 public:
  // The earliest; null if none is pending.
  [[nodiscard]] timer* first() const noexcept { return first_; }
  // REQUIRES that it is in no heap.
  void add(timer& t, time_point when) noexcept {
    t.when_ = when;
    t.sequence_ = sequence_++;
    first_ = meld(first_, &t);
  }
  // REQUIRES that it is in this heap.
  [[gnu::always_inline]] void remove(timer& t) noexcept {
    timer* const below = take_children(t);
    if (first_ == &t) {
      first_ = below;
      return;
    }
    (t.before_->child_ == &t ? t.before_->child_ : t.before_->next_) = t.next_;
    if (t.next_ != nullptr) t.next_->before_ = t.before_;
    t.next_ = t.before_ = nullptr;
    first_ = meld(first_, below);
  }
  // Walks the heap without memory: down to the first child, else to the next sibling, else up to a
  // parent with one.
  [[nodiscard]] std::size_t count(std::size_t most) const noexcept {
    std::size_t count = 0;
    for (const timer* t = first_; t != nullptr && count < most;) {
      ++count;
      if (t->child_ != nullptr) {
        t = t->child_;
        continue;
      }
      while (t != nullptr && t->next_ == nullptr) {
        while (t->before_ != nullptr && t->before_->child_ != t) t = t->before_;
        t = t->before_;
      }
      if (t != nullptr) t = t->next_;
    }
    return count;
  }

 private:
  [[nodiscard]] static bool earlier(const timer& a, const timer& b) noexcept {
    return a.when_ != b.when_ ? a.when_ < b.when_ : a.sequence_ < b.sequence_;
  }
  // Joins two heaps; returns the earliest timer. Either may be null.
  [[nodiscard]] static timer* meld(timer* a, timer* b) noexcept {
    if (a == nullptr) return b;
    if (b == nullptr) return a;
    if (earlier(*b, *a)) std::swap(a, b);
    b->before_ = a;
    b->next_ = a->child_;
    if (a->child_ != nullptr) a->child_->before_ = b;
    a->child_ = b;
    return a;
  }
  // Removes the children of `t` and joins them to a separate heap. They are joined in pairs, then
  // the pairs from the last to the first: this order keeps the heap flat.
  [[nodiscard]] static timer* take_children(timer& t) noexcept {
    timer* pairs = nullptr;
    for (timer* rest = std::exchange(t.child_, nullptr); rest != nullptr;) {
      timer* const a = rest;
      timer* const b = a->next_;
      rest = b != nullptr ? b->next_ : nullptr;
      a->next_ = a->before_ = nullptr;
      if (b != nullptr) b->next_ = b->before_ = nullptr;
      timer* const pair = meld(a, b);
      pair->next_ = std::exchange(pairs, pair);
    }
    timer* all = nullptr;
    while (pairs != nullptr) {
      timer* const pair = std::exchange(pairs, pairs->next_);
      pair->next_ = nullptr;
      all = meld(all, pair);
    }
    return all;
  }

  timer* first_ = nullptr;
  std::uint64_t sequence_ = 0;
};

}  // namespace detail
}  // namespace cordma
