// SharedReceive: the messages of many endpoints in one queue, each with its source endpoint.
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

// A message of `from`, or the event that `from` ended, which is its last and arrives once.
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

// Resolves with the next arrival. On cancellation: withdrawn; fails with canceled; no message is
// lost. If the SharedReceive is destroyed meanwhile: shutdown. REQUIRES that it lives when this is
// started.
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

// Resolves when fewer receives than shared_receive_options::low_watermark are in the queue, even
// for a moment; at once if that is so already. Errors: not_supported (it has no queue of a
// transport), invalid_value (it has no low_watermark), driver, shutdown (the SharedReceive or its
// Worker is destroyed), no_lock. On cancellation: withdrawn; fails with canceled. REQUIRES that the
// SharedReceive lives when this is started.
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

// Options of SharedReceive::on_device().
struct shared_receive_options {
  std::uint32_t depth = 256;        // limit of receives waiting in the queue
  std::uint32_t low_watermark = 0;  // see low_watermark(); at most depth; 0: not used
  // Transport of its endpoints. Empty: that of an RDMA device, else the first of the Worker's.
  std::optional<transport::kind> transport = std::nullopt;
};

// Bound to the thread of its Worker. Receives the messages of many endpoints into buffers of one
// pool, in one of two ways:
//  * Receives posted on every attached endpoint, on any transport. Destroying it cancels them:
//    messages that arrive later go to the endpoints' next receives into a pool.
//  * A shared receive queue of one transport (on_device()), that of an RDMA device if there is one,
//    for endpoints over it that were made for it: connected or accepted with
//    endpoint_options::shared = queue(). Each message consumes the next receive. Many endpoints
//    therefore need only the receives of one endpoint with the same total traffic. While none is
//    left, messages wait as endpoint_options::rnr_retry of their sender defines. Destroying it ends
//    its endpoints, with shutdown as the cause.
// The messages of one endpoint arrive in order; endpoints are served in the order of arrival.
// Receives are reposted automatically, as soon as the pool has buffers. Allocates when an endpoint
// is created or attached, never per message. Messages that have arrived and were not taken are
// dropped when it is destroyed.
class SharedReceive {
 public:
  // `pool` outlives it, and should have more than `per_endpoint` buffers for each endpoint: while
  // it is empty, receives wait until a buffer is returned.
  SharedReceive(Worker& worker, BufferPool& pool, std::uint32_t per_endpoint);
  // `pool` outlives it. Errors: not_supported (no transport of the Worker, or not
  // options.transport, has such queues: capabilities::shared_receive_queues), invalid_value (a
  // depth of 0 or above max_shared_depth, a low_watermark above the depth, a pool of another
  // Context), full, no_memory, no_lock.
  [[nodiscard]] static result<SharedReceive> on_device(Worker& worker, BufferPool& pool,
                                                       const shared_receive_options& options = {});
  SharedReceive(SharedReceive&&) noexcept;
  SharedReceive& operator=(SharedReceive&&) noexcept;
  ~SharedReceive();

  // Messages that arrived on the endpoint before are not lost. REQUIRES that the Endpoint is not
  // moved until its end has arrived, or, with a transport's queue, until it is destroyed; and that
  // no other receives are started on it. Errors: invalid_value (of another loop, or its Worker is
  // destroyed; with a transport's queue: it was not made for this queue()), bad_state (it is
  // attached to a transport's queue already), no_lock.
  result<void> attach(Endpoint& endpoint);
  [[nodiscard]] std::size_t attached() const noexcept;

  // Value for endpoint_options::shared of endpoints on this Worker. Null if it uses no transport
  // queue, which is also a valid value there. Valid as long as this object and the Worker live.
  [[nodiscard]] transport::receive_queue* queue() const noexcept;

  arrival_operation next() noexcept;
  // For programs that can return buffers on demand.
  low_operation low_watermark() noexcept;

 private:
  explicit SharedReceive(std::unique_ptr<detail::shared_receive_core> core) noexcept;
  std::unique_ptr<detail::shared_receive_core> core_;
};

}  // namespace cordma
