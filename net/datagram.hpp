// DatagramEndpoint: one port that exchanges unreliable datagrams with many peers.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/net/operations.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cordma::transport {
struct cm_event;
}

namespace cordma {

// Source or destination address of a datagram. A value that can be copied and transferred; its
// content is specific to the transport.
using transport::datagram_peer;

// Result of recv_from().
struct Datagram {
  std::size_t bytes = 0;
  datagram_peer from;
  std::uint32_t imm = 0;  // host order; 0 if has_imm is false
  bool has_imm = false;
};

// T: void (send_to, send_imm_to) or Datagram (recv_from). The caller owns the buffer again when the
// operation is done. On cancellation: a request that still waits for a queue entry is withdrawn
// (canceled); a posted one resumes when its completion arrives. If it is destroyed while posted,
// the request is abandoned: its region is kept until the completion, and received data is dropped.
template <class T>
class [[nodiscard]] datagram_operation final
    : public operation<datagram_operation<T>, T, detail::datagram_base> {
  using base = operation<datagram_operation<T>, T, detail::datagram_base>;

 public:
  datagram_operation(detail::endpoint_core& endpoint, transport::opcode op,
                     const datagram_peer& peer) noexcept
      : base(endpoint, op, peer) {}
  datagram_operation(datagram_operation&&) noexcept = default;

  // See post_operation::solicited().
  [[nodiscard]] datagram_operation solicited() && noexcept
    requires(std::is_void_v<T>)
  {
    this->mark_solicited();
    return std::move(*this);
  }

 private:
  template <class, class, class>
  friend class operation;
  T take() noexcept {
    if constexpr (std::is_same_v<T, Datagram>) {
      return {.bytes = this->received_.bytes,
              .from = this->peer_,
              .imm = this->received_.imm,
              .has_imm = this->received_.has_imm};
    }
  }
};

using datagram_send_operation = datagram_operation<void>;
using datagram_recv_operation = datagram_operation<Datagram>;

// Resolves with the port that is bound at an address, in any program. Errors: invalid_value (the
// address), unreachable (no port is bound there, or there is no route), timed_out
// (connect_timeout), not_supported (as bind()), not_connected (this port is closed), flushed (it
// closed meanwhile), shutdown, no_lock. On cancellation: withdrawn; fails with canceled.
class [[nodiscard]] resolve_operation final : public operation<resolve_operation, datagram_peer> {
 public:
  resolve_operation(detail::endpoint_core& endpoint, std::string to);
  resolve_operation(resolve_operation&&) noexcept = default;
  ~resolve_operation();

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::endpoint_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  datagram_peer take() const noexcept { return found_; }
  [[nodiscard]] failure obstacle() const noexcept;
  void ask();
  void on_resolved(const transport::cm_event& event) noexcept;
  void fail(failure why) noexcept;

  detail::endpoint_core* endpoint_;
  std::string to_;
  std::uint64_t request_ = 0;
  datagram_peer found_;
};

// A move-only handle. Belongs to one Worker and may be used on its thread only (otherwise no_lock).
// Created by Worker::datagram(). A datagram may be lost, duplicated or reordered without an error.
// It is always lost if the peer has posted no receive or one that is too small, or has another
// qkey. One-sided operations and flush do not exist here. A request that fails does not affect the
// port. If the device shuts the port down because of a failed request (Soft-RoCE, for a datagram
// that has no route), the port closes. Destroying the handle ends requests in flight as flushed.
class DatagramEndpoint {
 public:
  DatagramEndpoint() noexcept;
  explicit DatagramEndpoint(std::unique_ptr<detail::endpoint_core> core) noexcept;
  DatagramEndpoint(DatagramEndpoint&&) noexcept;
  DatagramEndpoint& operator=(DatagramEndpoint&&) noexcept;
  ~DatagramEndpoint();
  [[nodiscard]] explicit operator bool() const noexcept { return core_ != nullptr; }

  // All calls below REQUIRE an endpoint that was not default-constructed and not moved from.

  // The address of this port, including its qkey, for transfer to peers. Errors: bad_state once
  // closed.
  [[nodiscard]] result<datagram_peer> self() const;

  // Done when the message has been sent. Errors: invalid_value, before anything is posted, if the
  // message is longer than max_datagram(), the slice is of another Context, or the peer is empty.
  datagram_send_operation send_to(const datagram_peer& peer, const Slice& message) noexcept;
  datagram_send_operation send_imm_to(const datagram_peer& peer, const Slice& message,
                                      std::uint32_t imm) noexcept;
  // Receives one datagram from any peer; send to `from` to reply. Errors: not_permitted (the region
  // lacks local_write), invalid_value.
  datagram_recv_operation recv_from(const Slice& into) noexcept;

  // Makes this port available to resolve() of other ports, and to every program on rdma_cm (port
  // space UDP), under this address until it closes. `where` is "host:port" or ":0". Returns the
  // address with the port that was chosen. Post receives first: a peer may send as soon as it has
  // resolved the port. Errors: invalid_value (the address, or options.qkey was not
  // transport::bound_qkey), in_use, unreachable (an address of no device), not_supported (no
  // rdma_cm: only verbs has it), bad_state (closed), no_lock.
  [[nodiscard]] result<transport::address> bind(std::string_view where);
  // Finds the port that is bound at "host:port"; the result contains its key.
  resolve_operation resolve(std::string to);

  // A datagram to group(name) reaches every port that joined the group, including the sender, and
  // that has this port's qkey. Errors: invalid_value (no name), not_found (leave() without join()),
  // bad_state.
  [[nodiscard]] result<datagram_peer> group(const transport::address& name) const;
  result<void> join(const transport::address& group);
  result<void> leave(const transport::address& group);

  // Completes the sends that were started, then ends waiting receives as flushed.
  state_operation close() noexcept;
  [[nodiscard]] endpoint_state state() const noexcept;

  [[nodiscard]] std::size_t max_datagram() const noexcept;  // in bytes
  [[nodiscard]] const endpoint_options& actual() const noexcept;
  [[nodiscard]] transport::kind transport() const noexcept;
  [[nodiscard]] std::size_t inflight() const noexcept;
  [[nodiscard]] endpoint_counters counters() const noexcept;

 private:
  std::unique_ptr<detail::endpoint_core> core_;
};

}  // namespace cordma
