// SharedReceive: the messages of many endpoints in one queue, each with the endpoint it came from.
#pragma once

#include <cordma/net/endpoint.hpp>

#include <memory>
#include <optional>

namespace cordma {

class Worker;

namespace detail {
class device_receive;
class endpoint_receive;
class shared_receive_core;
}  // namespace detail

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
  friend class detail::shared_receive_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  Arrival take() noexcept { return std::move(arrival_); }

  detail::shared_receive_core* queue_;
  Arrival arrival_;
};

// Resolves when fewer receives than shared_receive_options::low_watermark are left in the queue, be it
// for a moment: at once where that is so. Errors: not_supported (it has no queue of a transport),
// invalid_value (it has no low_watermark), driver, shutdown (the SharedReceive or its Worker is gone),
// no_lock. On cancellation: withdrawn, canceled. REQUIRES that the SharedReceive lives when this is started.
class [[nodiscard]] low_operation final : public operation<low_operation, void> {
 public:
  explicit low_operation(detail::shared_receive_core& queue) noexcept;
  low_operation(low_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::device_receive;
  friend class detail::endpoint_receive;
  void do_start() noexcept;
  void do_cancel() noexcept;
  void take() noexcept {}
  void resolve() noexcept { finish(); }
  void fail(failure why) noexcept;

  detail::shared_receive_core* queue_;
};

// Of SharedReceive::on_device().
struct shared_receive_options {
  std::uint32_t depth = 256;        // receives that wait in the queue, at most
  std::uint32_t low_watermark = 0;  // see low_watermark(); at most depth; 0: nobody asks
  // Over which its endpoints connect. Empty: that of an RDMA device, else the first of the Worker's.
  std::optional<transport::kind> transport = std::nullopt;
};

// Bound to the thread of its Worker. Receives the messages of many endpoints into buffers of one pool,
// by one of two means:
//  * Receives posted on every endpoint attached, on any transport. Destroying it cancels them: what
//    arrives later goes to the endpoints' next receives into a pool.
//  * A shared receive queue of one transport (on_device()), that of an RDMA device where there is one,
//    for endpoints over it that were made for it: connected or accepted with endpoint_options::shared =
//    queue(). Whoever gets a message takes the next receive, so that many endpoints need no more of them
//    than one that is as busy as all. While none is left, messages wait as endpoint_options::rnr_retry of
//    their sender says. Destroying it ends its endpoints, with shutdown as the cause.
// What one endpoint sends comes in its order, endpoints take turns as they come. Receives are posted
// again by themselves, from what the pool has and as soon as it has. Allocates when an endpoint is made
// or attached, never per message. Messages that are here and not taken when it is destroyed are dropped.
class SharedReceive {
 public:
  // `pool` outlives it, and should have more than `per_endpoint` buffers for each endpoint: while it
  // is empty, receives wait until a buffer comes back.
  SharedReceive(Worker& worker, BufferPool& pool, std::uint32_t per_endpoint);
  // `pool` outlives it. Errors: not_supported (no transport of the Worker, or not options.transport, has
  // such queues: capabilities::shared_receive_queues), invalid_value (a depth of 0 or above
  // max_shared_depth, a low_watermark above the depth, a pool of another Context), full, no_memory,
  // no_lock.
  [[nodiscard]] static result<SharedReceive> on_device(Worker& worker, BufferPool& pool,
                                                       const shared_receive_options& options = {});
  SharedReceive(SharedReceive&&) noexcept;
  SharedReceive& operator=(SharedReceive&&) noexcept;
  ~SharedReceive();

  // What came of it before is not lost. REQUIRES that the Endpoint stays where it is until its end has
  // come, or, of a transport's queue, until it is destroyed; and that nobody else receives there. Errors:
  // invalid_value (of another loop, or its Worker is gone; of a transport's queue: it was not made for
  // this queue()), bad_state (there: it is attached), no_lock.
  result<void> attach(Endpoint& endpoint);
  [[nodiscard]] std::size_t attached() const noexcept;

  // For endpoint_options::shared of endpoints on this Worker. Null where it stands on none, which is
  // right there too. It lives as long as this does and the Worker is there.
  [[nodiscard]] transport::receive_queue* queue() const noexcept;

  arrival_operation next() noexcept;
  // For programs that give buffers back when they have to.
  low_operation low_watermark() noexcept;

 private:
  explicit SharedReceive(std::unique_ptr<detail::shared_receive_core> core) noexcept;
  std::unique_ptr<detail::shared_receive_core> core_;
};

}  // namespace cordma
