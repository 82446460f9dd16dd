// SharedReceive: the messages of many endpoints in one queue, each with the endpoint it came from.
#pragma once

#include <cordma/net/endpoint.hpp>

#include <memory>
#include <optional>

namespace cordma {

class Worker;

namespace detail {
struct shared_receive_core;
}

// What came: a message of `from`, or word that it ended, which comes once and last.
class Arrival {
 public:
  Arrival() noexcept = default;
  Arrival(Endpoint* from, Message message) noexcept : from_(from), message_(std::move(message)) {}
  Arrival(Endpoint* from, failure ended) noexcept : from_(from), ended_(std::move(ended)) {}
  [[nodiscard]] Endpoint* from() const noexcept { return from_; }
  [[nodiscard]] Message& message() noexcept { return message_; }
  // Null for a message.
  [[nodiscard]] const failure* ended() const noexcept { return ended_ ? &*ended_ : nullptr; }

 private:
  Endpoint* from_ = nullptr;
  Message message_;
  std::optional<failure> ended_;
};

// Resolves with what comes next. On cancellation: withdrawn, canceled; nothing is lost. Where the
// SharedReceive goes meanwhile: shutdown. REQUIRES that it lives when this is started.
class [[nodiscard]] arrival_operation final : public operation<arrival_operation, Arrival> {
 public:
  explicit arrival_operation(detail::shared_receive_core& queue) noexcept;
  arrival_operation(arrival_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  friend struct detail::shared_receive_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  [[nodiscard]] const failure* why() const noexcept { return failure_ ? &*failure_ : nullptr; }
  Arrival take() noexcept { return std::move(arrival_); }

  detail::shared_receive_core* queue_;
  std::optional<failure> failure_;
  Arrival arrival_;
};

// Bound to the thread of its Worker. Keeps receives from one pool posted on every endpoint attached;
// what one endpoint sends comes in its order, endpoints take turns as they come. Allocates when an
// endpoint is attached, never per message. Destroying it cancels its receives: what arrives later goes
// to the endpoints' next receives into a pool. Messages that are here and not taken are dropped.
class SharedReceive {
 public:
  // `pool` outlives it, and should have more than `per_endpoint` buffers for each endpoint: while it
  // is empty, receives wait until a buffer comes back.
  SharedReceive(Worker& worker, BufferPool& pool, std::uint32_t per_endpoint);
  SharedReceive(SharedReceive&&) noexcept;
  SharedReceive& operator=(SharedReceive&&) noexcept;
  ~SharedReceive();

  // REQUIRES that the Endpoint stays where it is until its end has come, and that nobody else
  // receives on it. Errors: invalid_value (of another loop, or its Worker is gone), no_lock.
  result<void> attach(Endpoint& endpoint);
  [[nodiscard]] std::size_t attached() const noexcept;

  arrival_operation next() noexcept;

 private:
  std::unique_ptr<detail::shared_receive_core> core_;
};

}  // namespace cordma
