// Endpoint: one connection, and the operations that can be awaited on it.
#pragma once

#include <cordma/net/memory_window.hpp>
#include <cordma/net/operations.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/net/user_data.hpp>
#include <cordma/runtime/operation.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cordma {

class Worker;
class TaggedMessage;
class message_send_operation;
class tag_recv_operation;
struct TagReceived;
namespace detail {
class endpoint_life;
}  // namespace detail

using endpoint_options = transport::queue_pair_options;
static_assert(std::is_trivially_destructible_v<endpoint_options>);

// Transitions: connecting -> connected -> closing -> closed, or connected -> closed if the peer or
// the network ends the connection.
enum class endpoint_state : std::uint8_t { connecting, connected, closing, closed };
[[nodiscard]] std::string_view name(endpoint_state s) noexcept;

// Resolves with the new state at the next change; at once if the state is closed, which is final.
// On cancellation: withdrawn; fails with canceled.
class [[nodiscard]] state_operation final : public operation<state_operation, endpoint_state> {
 public:
  // close: begins closing, and resolves only when the state is closed.
  enum class kind : std::uint8_t { any_change, close };
  state_operation(detail::endpoint_core& endpoint, kind what) noexcept;
  state_operation(state_operation&&) noexcept = default;
  void or_again() = delete;  // it always waits, and a close that has begun continues

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::endpoint_life;
  void do_start() noexcept;
  void do_cancel() noexcept;
  endpoint_state take() const noexcept { return state_; }
  void resolve(endpoint_state s) noexcept {
    state_ = s;
    finish();
  }

  detail::endpoint_core* endpoint_;
  kind kind_;
  endpoint_state state_ = endpoint_state::connecting;
};

// Counters since the connection was created.
struct endpoint_counters {
  std::uint64_t sends = 0;  // requests posted to the send queue, including one-sided ones
  std::uint64_t recvs = 0;
  std::uint64_t immediate = 0;  // of both: completed before the post returned
  std::uint64_t waited = 0;     // of both: waited for a free queue entry
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t rings = 0;  // doorbells: posts that made something visible to the peer
};

// A move-only handle. Belongs to one Worker and may be used on its thread only (otherwise no_lock).
// Destroying it aborts the connection: operations in flight end as flushed, and no buffer is
// accessed after they have. Errors of every operation:
//   flushed        the connection ended first; cause() returns the reason. The peer may still have
//                  received data that was sent
//   not_connected  started after close() or abort() of this side
//   not_supported  the transport or the type of endpoint lacks this operation (capabilities)
//   invalid_value  a slice from another Context, too many slices, a size above the limit
//   no_lock        called from another thread
// The queues never overflow: requests that do not fit wait in order.
// REQUIRES that its operations are started, and its batches end, while it lives.
// An empty Endpoint (default-constructed or moved from) may only be assigned, destroyed, and tested
// with operator bool.
class Endpoint : public user_data_holder {
 public:
  Endpoint() noexcept;
  explicit Endpoint(std::unique_ptr<detail::endpoint_core> core) noexcept;
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  ~Endpoint();
  [[nodiscard]] explicit operator bool() const noexcept { return core_ != nullptr; }

  // Two-sided messages. Each message is received complete, by one receive, in the order of sending.
  // The receive should be posted before the send (endpoint_options::rnr_retry defines what happens
  // otherwise). A message longer than its receive ends the connection: truncated on both sides.
  // With endpoint_options::shared, messages arrive at a SharedReceive, and receives here fail with
  // bad_state.
  // A send is done when the caller may reuse its buffer. Only flush() or a reply confirms that the
  // peer has received it.
  send_operation send(const Slice& message) noexcept;
  send_operation send(std::span<const Slice> gathered) noexcept;
  send_operation send_imm(const Slice& message, std::uint32_t imm) noexcept;
  // Sends unregistered bytes. They are copied when the request is posted: at its start, unless the
  // queue is full (state() is then queued). In that case the caller must keep them until the
  // operation is done. Errors: invalid_value above inline_limit() bytes.
  send_operation send_inline(std::span<const std::byte> message) noexcept;
  // Receives into memory of the caller. A posted receive cannot be withdrawn, as on every RDMA
  // device: cancellation, or with_timeout(), waits for a message or the end of the connection. For
  // a receive that can be abandoned, use a pool.
  recv_operation recv(const Slice& into) noexcept;
  recv_operation recv(std::span<const Slice> scattered) noexcept;
  // Receives into a buffer of the pool. Errors: no_memory if the pool is empty. If an earlier
  // receive was canceled, this one takes over its posted request and its buffer, which is from the
  // pool of that receive; so all pools used on an endpoint need buffers large enough for all its
  // messages. Cancellation and timeouts take effect at once; the message that arrives later goes to
  // the next receive into a pool. Until then, receives into memory of the caller fail with
  // bad_state, because they would overtake it.
  message_operation recv(BufferPool& pool) noexcept;
  // Sends from a buffer of a pool; the buffer is returned when the send is done.
  send_operation send(Buffer message, std::size_t bytes) noexcept;

  // Publishes, in the first 8 bytes of `word`, the total number of receives posted here. A peer
  // that may read them can avoid sending before a receive is posted; see receive_credits. Errors:
  // invalid_value (less than 8 bytes, or of another Context), not_supported (device memory),
  // bad_state (it receives from a SharedReceive's queue), no_lock.
  result<void> publish_receives(const MemoryRegion& word);

  // For endpoints connected with connect_options::messages, which carry these messages instead of
  // the ones above: see messages.hpp. A rendezvous message is read by the peer if its memory grants
  // access::remote_read; otherwise it is written there, or sent in pieces
  // (message_options::eager_bytes).
  message_send_operation tag_send(std::uint64_t tag, const Slice& message) noexcept;
  message_send_operation tag_send(std::uint64_t tag, std::span<const Slice> gathered) noexcept;
  // Receives from this endpoint only; see also Messages::tag_recv().
  tag_recv_operation tag_recv(std::uint64_t tag, const Slice& into) noexcept;
  tag_recv_operation tag_recv(std::uint64_t tag, std::uint64_t mask, const Slice& into) noexcept;
  // As Messages::tag_probe() and tag_claim(), for messages of this endpoint. Empty if it carries
  // plain messages. REQUIRES the Worker's thread.
  [[nodiscard]] std::optional<TagReceived> tag_probe(std::uint64_t tag,
                                                     std::uint64_t mask = ~std::uint64_t{
                                                         0}) const noexcept;
  [[nodiscard]] std::optional<TaggedMessage> tag_claim(std::uint64_t tag,
                                                       std::uint64_t mask = ~std::uint64_t{
                                                           0}) noexcept;
  // The caller keeps `header` valid and unchanged until the send is done. Ids from 0xFF00 are
  // reserved for the library: invalid_value.
  message_send_operation am_send(std::uint16_t id, std::span<const std::byte> header,
                                 const Slice& data) noexcept;

  // One-sided: the local slices must have the same total length as `to` or `from`. Errors:
  // remote_access if the peer's memory protection refuses. A write is done when the peer's
  // transport has accepted it without error. It is visible to the peer's program after flush(), or
  // after a later message arrived there.
  send_operation write(const RemoteSlice& to, const Slice& data) noexcept;
  send_operation write(const RemoteSlice& to, std::span<const Slice> gathered) noexcept;
  // Writes the data to `to` and consumes a receive of the peer, which reports length and immediate.
  send_operation write_imm(const RemoteSlice& to, const Slice& data, std::uint32_t imm) noexcept;
  send_operation read(const RemoteSlice& from, const Slice& into) noexcept;
  send_operation read(const RemoteSlice& from, std::span<const Slice> scattered) noexcept;
  // Maps the peer's memory if it is shared with this process: on shm, memory that the peer
  // allocated with Context::allocate(). Errors: bad_state if no earlier operation on it has
  // completed here; not_supported on other transports and for other memory; remote_access as
  // read(); not_connected, no_lock.
  [[nodiscard]] result<RemoteView> view(const RemoteSlice& of) const;
  // Atomic operations on 8 bytes, aligned to 8 (else invalid_value), in the byte order of the
  // owner's host. They return the old value and are atomic with respect to all access through
  // cordma. Soft-RoCE may return a wrong old value if packets are lost while another request of
  // this side is in flight (net/transport/verbs/README.md).
  atomic_operation fetch_add(const RemoteSlice& word, std::uint64_t addend) noexcept;
  atomic_operation compare_swap(const RemoteSlice& word, std::uint64_t expected,
                                std::uint64_t desired) noexcept;

  // Binds a window on `length` bytes of the region, for the peer of this endpoint only. `rights`
  // are remote rights, and only those that the region grants. The region needs access::mw_bind. The
  // bind is executed in order with the operations started before it. Errors: not_supported (shm,
  // uc, a device without windows of type 2), not_permitted (rights, or mw_bind, that the region
  // lacks), invalid_value (no bytes, outside the region, of another Context, other than remote
  // rights), no_memory (the device has no more windows; the connection stays), not_connected (also
  // before it is connected).
  bind_operation bind(const MemoryRegion& region, std::size_t offset, std::size_t length,
                      access rights) noexcept;
  // Sends a message that ends the window at the peer; the receive there reports the key. No request
  // of this side that is started later can use it. A key that is not of a window of this connection
  // fails the peer's receive (not_permitted) and ends the connection; this side gets remote_access,
  // or, on verbs, only the end of the connection. Errors: not_supported as bind().
  send_operation send_invalidate(const Slice& message, const RemoteSlice& window) noexcept;
  send_operation send_invalidate(std::span<const Slice> gathered,
                                 const RemoteSlice& window) noexcept;

  // The next operation does not begin before earlier reads and atomics are done. REQUIRES the
  // Worker's thread, and so does batch().
  void fence() noexcept;
  // Done when everything started before it is done here and visible at the target. It drains the
  // send queue; operations started later need not wait for it.
  send_operation flush() noexcept;

  // While it lives, operations started on this endpoint may stay invisible to the peer; destroying
  // it makes all of them visible at once (one doorbell). Nests. Shared memory has no doorbell to
  // save, so operations there may also be visible before that.
  class Batch {
   public:
    explicit Batch(detail::endpoint_core& endpoint) noexcept;
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch();

   private:
    detail::endpoint_core& endpoint_;
  };
  [[nodiscard]] Batch batch() noexcept;

  // For endpoints of Worker::prepare(). Each side sends its descriptor to the other, by any means,
  // and connects with the one it received. Then state_changed() resolves with connected, or with
  // closed; first_cause() then returns the reason: not_connected if the peer has closed after the
  // two connected. Any process with a descriptor can connect: transfer it safely. Errors: bad_state
  // (connected before, or not from prepare()), connection_aborted (damaged, truncated, or of
  // another kind), invalid_value (this endpoint's own descriptor), unsupported_version,
  // unreachable, no_lock, not_supported.
  [[nodiscard]] result<std::vector<std::byte>> descriptor() const;
  result<void> connect(std::span<const std::byte> peer_descriptor);

  // Closes gracefully: executes everything that was started, then notifies the peer; resolves when
  // this side is closed. For Requests, it waits until one-way notifications were sent, or
  // acknowledged, and calls have ended with a response, a timeout or a cancellation; requests of
  // the peer are answered meanwhile. It does not wait for requests of the peer, unless their
  // response has begun. It waits as long as a live peer does not receive sent messages, or does not
  // respond: abort() ends that. A response waits behind the messages that hold the credits, so
  // tag_recv() may be started until the end. Waiting receives end as flushed. If it was never
  // connected, no notification is sent and all waiting operations end as flushed at once.
  // Idempotent.
  state_operation close() noexcept;
  // Ends all operations in flight as flushed, at once.
  void abort() noexcept;
  state_operation state_changed() noexcept;
  [[nodiscard]] endpoint_state state() const noexcept;
  // Why the connection ended; null before that.
  [[nodiscard]] const failure* first_cause() const noexcept;

  // The granted options, which may exceed the requested ones.
  [[nodiscard]] const endpoint_options& actual() const noexcept;
  // Other parameters of the connection, in the transport's terms ("path_mtu", "1024"); empty once
  // closed. An endpoint that carries messages also has "rails", the current number of its
  // connections, and for each, as "rail_1_device" and "rail_1_bytes", its device and the rendezvous
  // bytes that arrived by it.
  [[nodiscard]] std::vector<transport::property> properties() const;
  // The transport of its connection. The value has no meaning before it is connected: see
  // Worker::endpoint().
  [[nodiscard]] transport::kind transport() const noexcept;
  // Capabilities of its transport. Valid as long as the Context lives. Before it is connected:
  // messages only.
  [[nodiscard]] const transport::capabilities& abilities() const noexcept;
  // Queries the state of its queue pair from the device. Errors: not_supported (except on verbs),
  // not_connected (it has no queue pair, or has none any more), no_lock.
  [[nodiscard]] result<transport::queue_pair_state> debug_state() const;
  // Why this transport was chosen: one sentence for -v.
  [[nodiscard]] const std::string& transport_reason() const noexcept;
  [[nodiscard]] std::uint32_t inline_limit() const noexcept { return actual().inline_bytes; }
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::string peer_address() const;
  // Data that the peer sent with its accept, or with its request.
  [[nodiscard]] std::span<const std::byte> peer_data() const noexcept;
  // Requests posted and not yet complete.
  [[nodiscard]] std::size_t inflight() const noexcept;
  [[nodiscard]] endpoint_counters counters() const noexcept;

  // For the library.
  [[nodiscard]] detail::endpoint_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<detail::endpoint_core> core_;
};

}  // namespace cordma
