// inbox: the queue for work from other threads; it reports if the reactor has to be woken for it.
#pragma once

#include <atomic>
#include <cstddef>

namespace cordma {

namespace detail {
class inbox;
}

// Work for a reactor from any thread. The owner keeps it alive until it ran, or was dropped because
// the reactor is destroyed with the item still in its inbox.
class inbox_item {
 public:
  using function = void (*)(inbox_item&) noexcept;
  // `drop` is called instead of `run` in the reactor's destructor; null: nothing to clean up.
  explicit inbox_item(function run, function drop = nullptr) noexcept : run_(run), drop_(drop) {}

 private:
  friend class detail::inbox;
  function run_;
  function drop_;
  inbox_item* next_ = nullptr;
};

namespace detail {

// Lock-free. Bound to the thread of the reactor, except add() and ask_to_wake().
class inbox {
 public:
  // Any thread. True: the reactor sleeps or is about to; wake it.
  [[nodiscard]] bool add(inbox_item& item) noexcept {
    inbox_item* head = newest_.load(std::memory_order_relaxed);
    do {
      item.next_ = head;
    } while (!newest_.compare_exchange_weak(head, &item, std::memory_order_seq_cst));
    // The sleeper sets sleeping_ before its last check of the list, both seq_cst: one of the two
    // sides sees the other.
    return sleeping_.load(std::memory_order_seq_cst);
  }
  // Any thread, and signal handlers: ends the current or the next wait of the reactor.
  void ask_to_wake() noexcept { wake_asked_.store(true, std::memory_order_seq_cst); }
  [[nodiscard]] bool asked_to_wake() const noexcept {
    return wake_asked_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] bool empty() const noexcept {
    return newest_.load(std::memory_order_acquire) == nullptr;
  }
  // Runs the items in the order of posting; returns their number.
  std::size_t run() noexcept {
    inbox_item* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    inbox_item* oldest = nullptr;
    while (newest != nullptr) {  // the stack is newest first
      inbox_item* next = newest->next_;
      newest->next_ = oldest;
      oldest = newest;
      newest = next;
    }
    std::size_t work = 0;
    while (oldest != nullptr) {
      inbox_item* next = oldest->next_;
      oldest->run_(*oldest);
      oldest = next;
      ++work;
    }
    return work;
  }
  void drop() noexcept {
    for (inbox_item* item = newest_.exchange(nullptr); item != nullptr;) {
      inbox_item* next = item->next_;
      if (item->drop_ != nullptr) item->drop_(*item);
      item = next;
    }
  }

  void begin_wait() noexcept { sleeping_.store(true, std::memory_order_seq_cst); }
  // True if a wait that has begun is over. The counterpart of add(): both are seq_cst, so that one
  // of them sees the other.
  [[nodiscard]] bool ends_wait() const noexcept {
    return newest_.load(std::memory_order_seq_cst) != nullptr ||
           wake_asked_.load(std::memory_order_seq_cst);
  }
  void end_wait() noexcept {
    sleeping_.store(false, std::memory_order_relaxed);
    wake_asked_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  alignas(64) std::atomic<inbox_item*> newest_{nullptr};
  std::atomic<bool> wake_asked_{false};
  std::atomic<bool> sleeping_{false};
};

}  // namespace detail
}  // namespace cordma
