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

// A connection request of a peer. Move-only. Completed once, by accept() or reject(). Destroying it
// before that rejects it, and so does destroying the operation of accept() before its start. Bound
// to the thread of its Worker: on other threads its calls fail with no_lock.
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

  // `options.transport` and `options.endpoint.peer` are ignored. Errors: bad_state (accepted or
  // rejected already), connection_reset (the peer disconnected), invalid_value (more private data
  // than max_accept_data), no_memory.
  connect_operation accept(const connect_options& options = {});
  // Moves the request to another Worker of the same Context, to spread connections over threads.
  // Call it on this Worker's thread, pass the result to the thread of the other (Worker::post), and
  // accept it there. Errors: bad_state (accepted, rejected or handed over before), not_supported by
  // this transport.
  [[nodiscard]] result<ConnectionRequest> hand_over(Worker& to);
  // Up to max_accept_data bytes reach the peer with its error.
  result<void> reject(std::span<const std::byte> private_data = {});

 private:
  std::shared_ptr<detail::pending_request> pending_;
};

// On cancellation: withdrawn; fails with canceled. After close(): shutdown.
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
// Destroying it closes it: on that thread, or when the Worker no longer runs. REQUIRES that next()
// is started while it lives. An empty one (default-constructed or moved from) may only be assigned
// and destroyed.
class Listener {
 public:
  Listener() noexcept;
  explicit Listener(std::unique_ptr<detail::listener_core> core) noexcept;
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // Resolves with the next connection request, in FIFO order. If the last of its transports is lost
  // (the RDMA device was removed, or failed), it fails with the cause, now and from then on.
  next_operation next() noexcept;
  // Accepts no new requests and rejects those that were not completed; connections stay. Pending
  // next() operations resume with shutdown. REQUIRES the thread of its Worker.
  void close() noexcept;
  // The bound address, with the chosen port if 0 was requested.
  [[nodiscard]] const transport::address& bound() const noexcept;
  // All addresses by which it can be reached, numeric and without duplicates. An empty host stands
  // for all addresses of this machine. A name may have several addresses.
  [[nodiscard]] std::vector<transport::address> bound_all() const;
  // Transports that were to listen and do not, with the reason: a failure of one does not stop the
  // others.
  [[nodiscard]] const std::vector<std::pair<transport::kind, failure>>& missing() const noexcept;

 private:
  std::unique_ptr<detail::listener_core> core_;
};

}  // namespace cordma
