// channel<T>: an ordered queue of values between coroutines, with a fixed capacity.
#pragma once

#include <cordma/runtime/waiter.hpp>

#include <cstddef>
#include <memory>
#include <optional>

namespace cordma {

// Bound to one reactor; any number of senders and receivers, each first in, first out. A capacity
// of 0 passes every value from sender to receiver directly. Allocates when it is constructed, and
// never again. Destroying it closes it and drops the values in it.
template <class T>
class channel {
  static_assert(std::is_nothrow_move_constructible_v<T>, "a value must move without throwing");

 public:
  // On cancellation: leaves the queue, canceled; the value is destroyed with the operation.
  class send_operation final : public waiter<send_operation, void> {
   public:
    send_operation(channel& owner, T&& value) noexcept : owner_(&owner), value_(std::move(value)) {}

   private:
    friend class channel;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      if (owner_->closed_) {
        this->fail(errc::shutdown, "channel send");
      } else if (owner_->accept(value_)) {
        this->succeed();
      } else {
        this->wait_in(owner_->senders_);
      }
    }
    void do_cancel() noexcept { this->fail(errc::canceled, "channel send"); }
    void take() noexcept {}

    channel* owner_;
    T value_;
  };

  // On cancellation: leaves the queue, canceled. A value that was passed to a receiver is destroyed
  // with it if the receiver is destroyed before it runs.
  class recv_operation final : public waiter<recv_operation, T> {
   public:
    explicit recv_operation(channel& owner) noexcept : owner_(&owner) {}

   private:
    friend class channel;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      value_ = owner_->try_recv();
      if (value_) {
        this->succeed();
      } else if (owner_->closed_) {
        this->fail(errc::shutdown, "channel recv");
      } else {
        this->wait_in(owner_->receivers_);
      }
    }
    void do_cancel() noexcept { this->fail(errc::canceled, "channel recv"); }
    T take() noexcept { return std::move(*value_); }

    channel* owner_;
    std::optional<T> value_;
  };

  explicit channel(std::size_t capacity)
      : ring_(std::make_unique<std::optional<T>[]>(capacity)), capacity_(capacity) {}
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  ~channel() { close(); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  // Done when the value is in the channel or with a receiver; shutdown if the channel is closed.
  send_operation send(T value) noexcept { return send_operation(*this, std::move(value)); }
  // Returns the oldest value; shutdown if the channel is closed and empty.
  recv_operation recv() noexcept { return recv_operation(*this); }

  // False if a send would have to wait or the channel is closed; `value` is untouched then.
  [[nodiscard]] bool try_send(T& value) noexcept { return !closed_ && accept(value); }
  [[nodiscard]] std::optional<T> try_recv() noexcept {
    std::optional<T> value;
    if (size_ > 0) {
      std::optional<T>& cell = ring_[first_];
      value = std::exchange(cell, std::nullopt);
      first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
      --size_;
      if (!senders_.empty()) {
        put(senders_.front().value_);
        senders_.front().succeed();
      }
    } else if (!senders_.empty()) {
      value.emplace(std::move(senders_.front().value_));
      senders_.front().succeed();
    }
    return value;
  }

  // Refuses further values: waiting senders get errc::shutdown; receivers get the remaining values
  // and errc::shutdown after them. Closing twice has no further effect.
  void close() noexcept {
    closed_ = true;
    while (!senders_.empty()) senders_.front().fail(errc::shutdown, "channel send");
    while (!receivers_.empty()) receivers_.front().fail(errc::shutdown, "channel recv");
  }

 private:
  // Moves the value on if a slot is free.
  [[nodiscard]] bool accept(T& value) noexcept {
    if (!receivers_.empty()) {  // the channel is empty then
      receivers_.front().value_.emplace(std::move(value));
      receivers_.front().succeed();
      return true;
    }
    if (size_ == capacity_) return false;
    put(value);
    return true;
  }
  void put(T& value) noexcept {
    std::size_t at = first_ + size_;
    if (at >= capacity_) at -= capacity_;
    ring_[at].emplace(std::move(value));
    ++size_;
  }

  std::unique_ptr<std::optional<T>[]> ring_;
  std::size_t capacity_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  bool closed_ = false;
  list<send_operation> senders_;
  list<recv_operation> receivers_;
};

}  // namespace cordma
