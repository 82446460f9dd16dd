// DatagramEndpoint: one port that talks to many peers, message by message, without a promise.
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

// Where a datagram goes to or comes from. A value, to be copied and carried; what is in it is the
// transport's own.
using transport::datagram_peer;

// What recv_from() got.
struct Datagram {
  std::size_t bytes = 0;
  datagram_peer from;
  std::uint32_t imm = 0;  // host order; 0 where has_imm is false
  bool has_imm = false;
};

// T: void (send_to, send_imm_to) or Datagram (recv_from). The buffer is yours again when it is done.
// On cancellation: still queued for want of credits, it is withdrawn (canceled); posted, it resumes
// when its completion arrives. Destroyed while posted, it is left behind for good: its region is kept
// until the completion, and what arrives is dropped.
template <class T>
class [[nodiscard]] datagram_operation final
    : public operation<datagram_operation<T>, T, detail::datagram_base> {
  using base = operation<datagram_operation<T>, T, detail::datagram_base>;

 public:
  datagram_operation(detail::endpoint_core& endpoint, transport::opcode op,
                     const datagram_peer& peer) noexcept
      : base(endpoint, op, peer) {}
  datagram_operation(datagram_operation&&) noexcept = default;

  // As post_operation::solicited().
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

// Resolves with the port that is bound at an address, whoever's it is. Errors: invalid_value (the
// address), unreachable (nobody is bound there, or no way leads there), timed_out (connect_timeout),
// not_supported (as bind()), not_connected (this port is closed), flushed (it closed meanwhile), shutdown,
// no_lock. On cancellation: withdrawn, canceled.
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

// A handle, move-only; belongs to one Worker and may be used on its thread only (anything else fails
// with no_lock). Made by Worker::datagram(). A datagram is lost, doubled or overtaken without anybody
// being told: no error follows. It is lost for certain where the peer has posted no receive, or one
// too small, or holds another qkey. One-sided operations and flush do not exist here. A request that
// fails ends alone, and the port goes on; where its device gives it up with one (Soft-RoCE, of a datagram
// that had no way out), it closes. Destroying it: what is in flight ends as flushed.
class DatagramEndpoint {
 public:
  DatagramEndpoint() noexcept;
  explicit DatagramEndpoint(std::unique_ptr<detail::endpoint_core> core) noexcept;
  DatagramEndpoint(DatagramEndpoint&&) noexcept;
  DatagramEndpoint& operator=(DatagramEndpoint&&) noexcept;
  ~DatagramEndpoint();
  [[nodiscard]] explicit operator bool() const noexcept { return core_ != nullptr; }

  // Below, all REQUIRE an endpoint: not default-constructed, not moved from.

  // This port as others address it, its qkey included: carry it to them. bad_state once closed.
  [[nodiscard]] result<datagram_peer> self() const;

  // Done when the message has left. Errors: invalid_value, before anything is posted, where it is
  // longer than max_datagram(), the slice is of another Context, or the peer is an empty one.
  datagram_send_operation send_to(const datagram_peer& peer, const Slice& message) noexcept;
  datagram_send_operation send_imm_to(const datagram_peer& peer, const Slice& message,
                                      std::uint32_t imm) noexcept;
  // One datagram, from anybody: `from` answers it. Errors: not_permitted (the region lacks
  // local_write), invalid_value.
  datagram_recv_operation recv_from(const Slice& into) noexcept;

  // From now on resolve() of others finds this port at that address, and so does every program on
  // rdma_cm (port space UDP), until it closes. "host:port", ":0"; the address with the port that was
  // chosen. Post receives first: whoever finds it may send at once. Errors: invalid_value (the address,
  // or options.qkey was not transport::bound_qkey), in_use, unreachable (an address of no device),
  // not_supported (no rdma_cm: verbs alone has it), bad_state (closed), no_lock.
  [[nodiscard]] result<transport::address> bind(std::string_view where);
  // Which port is bound at "host:port"; its key comes with it.
  resolve_operation resolve(std::string to);

  // What is sent to group(name) reaches everybody who joined it, the sender as well, and who holds
  // this port's qkey. Errors: invalid_value (no name), not_found (left without having joined),
  // bad_state.
  [[nodiscard]] result<datagram_peer> group(const transport::address& name) const;
  result<void> join(const transport::address& group);
  result<void> leave(const transport::address& group);

  // What was started is carried out first; then receives still waiting end as flushed.
  state_operation close() noexcept;
  [[nodiscard]] endpoint_state state() const noexcept;

  [[nodiscard]] std::size_t max_datagram() const noexcept;  // bytes
  [[nodiscard]] const endpoint_options& actual() const noexcept;
  [[nodiscard]] transport::kind transport() const noexcept;
  [[nodiscard]] std::size_t inflight() const noexcept;
  [[nodiscard]] endpoint_counters counters() const noexcept;

 private:
  std::unique_ptr<detail::endpoint_core> core_;
};

}  // namespace cordma
