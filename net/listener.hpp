// Listener and ConnectionRequest: the passive side of a connection.
#pragma once

#include <cordma/net/connect.hpp>
#include <cordma/runtime/operation.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cordma {

class Worker;

namespace detail {
class listener_core;
class pending_request;
}  // namespace detail

// A peer that asks to be connected. Move-only; answered once: by accept() or reject(). Destroying it
// unanswered rejects it, and so does destroying the operation of accept() before it was started. Bound to
// the thread of its Worker: elsewhere its calls fail with no_lock.
class ConnectionRequest {
 public:
  ConnectionRequest() noexcept;
  explicit ConnectionRequest(std::shared_ptr<detail::pending_request> pending) noexcept;
  ConnectionRequest(ConnectionRequest&&) noexcept;
  ConnectionRequest& operator=(ConnectionRequest&&) noexcept;
  ~ConnectionRequest();

  [[nodiscard]] const std::string& peer_address() const noexcept;
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept;
  [[nodiscard]] transport::kind transport() const noexcept;

  // `options.transport` and `options.endpoint.peer` are ignored. Errors: bad_state (answered already), connection_reset (the peer
  // went away), invalid_value (more private data than max_accept_data), no_memory.
  connect_operation accept(const connect_options& options = {});
  // Gives the request to another Worker of the same Context, so that connections spread over threads:
  // call it on this Worker's thread, carry the result to the other's (Worker::post), accept it there.
  // Errors: bad_state (answered, or handed over before), not_supported by this transport.
  [[nodiscard]] result<ConnectionRequest> hand_over(Worker& to);
  // Up to max_accept_data bytes reach the peer with its error.
  result<void> reject(std::span<const std::byte> private_data = {});

 private:
  std::shared_ptr<detail::pending_request> pending_;
};

// On cancellation: withdrawn, canceled. After close(): shutdown.
class [[nodiscard]] next_operation final : public operation<next_operation, ConnectionRequest> {
 public:
  explicit next_operation(detail::listener_core& listener) noexcept;
  next_operation(next_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::listener_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  ConnectionRequest take() noexcept { return std::move(request_); }

  detail::listener_core* listener_;
  ConnectionRequest request_;
};

// Listens on every transport of its Worker at once. Move-only; bound to its Worker's thread.
// Destroying it closes it: on that thread, or when nobody runs the Worker any more. REQUIRES that next()
// is started while it lives. An empty one (made without arguments, or moved from) can be assigned and
// destroyed, nothing else.
class Listener {
 public:
  Listener() noexcept;
  explicit Listener(std::unique_ptr<detail::listener_core> core) noexcept;
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // The next peer that asks. First come, first served. Where the last of its transports is lost (the RDMA
  // device was removed, or failed): with what it was lost for, now and from then on.
  next_operation next() noexcept;
  // No new requests; those not yet answered are rejected; connections stay. Whoever awaits next()
  // resumes with shutdown. REQUIRES the thread of its Worker.
  void close() noexcept;
  // With the port chosen, where 0 was asked for.
  [[nodiscard]] const transport::address& bound() const noexcept;
  // Every address that it is reached by, in numbers and without repetitions; "" as a host stands for all of this machine's.
  // A name may have several.
  [[nodiscard]] std::vector<transport::address> bound_all() const;
  // Transports that were to listen and do not, with the reason: one that fails does not stop the others.
  [[nodiscard]] const std::vector<std::pair<transport::kind, failure>>& missing() const noexcept;

 private:
  std::unique_ptr<detail::listener_core> core_;
};

}  // namespace cordma
