// A window of started operations, posted and awaited in order, without a coroutine for each.
#pragma once

#include <cordma/runtime/check.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace support {

// Holds up to `capacity` operations in memory that is allocated once. The destructor destroys
// operations in flight, with the effect that each documents. Bound to one thread.
template <class Operation>
class op_ring {
 public:
  explicit op_ring(std::uint32_t capacity)
      : cells_(std::make_unique<cell[]>(capacity)), capacity_(capacity) {}
  op_ring(const op_ring&) = delete;
  op_ring& operator=(const op_ring&) = delete;
  ~op_ring() {
    while (live_ != 0) pop();
  }

  [[nodiscard]] bool full() const noexcept { return live_ == capacity_; }
  [[nodiscard]] bool empty() const noexcept { return live_ == 0; }
  // `make()` returns the operation, which is constructed in its slot and started there.
  template <class Make>
  void start(Make make) {
    prepare(make);
    start_newest();
  }
  // The two halves of start(): an operation prepared during idle time can be started immediately
  // later.
  template <class Make>
  void prepare(Make make) {
    CORDMA_REQUIRE(!full());
    newest_ = ::new (static_cast<void*>(cells_[next_].bytes)) Operation(make());
    next_ = after(next_);
    ++live_;
  }
  void start_newest() { newest_->start(); }
  // REQUIRES !empty(). Bind the result to a name before awaiting it: GCC 12 would copy the result
  // of the call.
  [[nodiscard]] Operation& oldest() noexcept {
    return *std::launder(reinterpret_cast<Operation*>(cells_[oldest_].bytes));
  }
  // Destroys the oldest operation. REQUIRES !empty().
  void pop() noexcept {
    CORDMA_REQUIRE(live_ != 0);
    oldest().~Operation();
    oldest_ = after(oldest_);
    --live_;
  }

 private:
  struct cell {
    alignas(Operation) std::byte bytes[sizeof(Operation)];
  };
  [[nodiscard]] std::uint32_t after(std::uint32_t place) const noexcept {
    return place + 1 == capacity_ ? 0 : place + 1;
  }

  std::unique_ptr<cell[]> cells_;
  Operation* newest_ = nullptr;
  std::uint32_t capacity_;
  std::uint32_t oldest_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t live_ = 0;
};

}  // namespace support
