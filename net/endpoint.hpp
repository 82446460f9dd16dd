// Endpoint: one connection, and everything that can be awaited on it.
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

// connecting -> connected -> closing -> closed, or connected -> closed when the peer or the network
// ends it.
enum class endpoint_state : std::uint8_t { connecting, connected, closing, closed };
[[nodiscard]] std::string_view name(endpoint_state s) noexcept;

// Resolves with the new state at the next change; at once where the state is closed, because nothing
// comes after it. On cancellation: withdrawn, canceled.
class [[nodiscard]] state_operation final : public operation<state_operation, endpoint_state> {
 public:
  // close: begins closing, and resolves only when the state is closed.
  enum class kind : std::uint8_t { any_change, close };
  state_operation(detail::endpoint_core& endpoint, kind what) noexcept;
  state_operation(state_operation&&) noexcept = default;
  void or_again() = delete;  // it waits by nature, and a close that has begun goes on

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

// Counted since the connection was made.
struct endpoint_counters {
  std::uint64_t sends = 0;  // requests posted to the send queue, one-sided ones included
  std::uint64_t recvs = 0;
  std::uint64_t immediate = 0;  // of both: those that were complete when the post returned
  std::uint64_t waited = 0;     // of both: those that waited for a free place in the queue
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t rings = 0;  // doorbells: posts that made something visible to the peer
};

// A handle, move-only; belongs to one Worker and may be used on its thread only (anything else fails
// with no_lock). Destroying it aborts the connection: operations in flight end as flushed, and no
// buffer is touched any more once they have. Errors of every operation:
//   flushed        the connection ended first; cause() says why. What had left may be at the peer nevertheless
//   not_connected  started after close() or abort() of this side
//   not_supported  the transport or the type of endpoint lacks this operation (capabilities)
//   invalid_value  a slice from another Context, too many slices, a size above the limit
//   no_lock        called from another thread
// The queues never overflow: what does not fit waits its turn, in order.
// REQUIRES that its operations are started, and its batches end, while it lives.
// An empty one (made without arguments, or moved from) can be assigned, destroyed, and asked whether it
// is one; nothing else.
class Endpoint : public user_data_holder {
 public:
  Endpoint() noexcept;
  explicit Endpoint(std::unique_ptr<detail::endpoint_core> core) noexcept;
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  ~Endpoint();
  [[nodiscard]] explicit operator bool() const noexcept { return core_ != nullptr; }

  // Two-sided. A message is received whole, by one receive, in the order of sending. The receive
  // should be posted before the send (endpoint_options::rnr_retry says what happens otherwise). A
  // message longer than its receive ends the connection: truncated on both sides.
  // With endpoint_options::shared its messages come to a SharedReceive, and receives here are bad_state.
  // A send is done when its buffer is yours again; that the peer has it, only flush() or its reply
  // tells.
  send_operation send(const Slice& message) noexcept;
  send_operation send(std::span<const Slice> gathered) noexcept;
  send_operation send_imm(const Slice& message, std::uint32_t imm) noexcept;
  // Unregistered bytes, copied when it is posted, which is when it starts unless the queue is full
  // (state() tells: queued): then they are yours when it is done. At most inline_limit(), else
  // invalid_value.
  send_operation send_inline(std::span<const std::byte> message) noexcept;
  // Into your own memory: once posted it cannot be taken back, as on every RDMA device. Canceling it, or
  // with_timeout(), waits for a message or the end of the connection. A receive that may be given up
  // comes from a pool.
  recv_operation recv(const Slice& into) noexcept;
  recv_operation recv(std::span<const Slice> scattered) noexcept;
  // Into a buffer of the pool. no_memory when the pool is empty. Where a receive before it was canceled,
  // it takes over what was posted for that one, a buffer of that one's pool: the messages of an endpoint
  // want pools whose buffers are large enough for them all. Canceled, or timed out, at once; the
  // message that still comes is the next such receive's. Until it has been received, those into your own
  // memory are bad_state: they would overtake it.
  message_operation recv(BufferPool& pool) noexcept;
  // From a buffer of a pool, which goes back when the send is done.
  send_operation send(Buffer message, std::size_t bytes) noexcept;

  // From now on the first 8 bytes of `word` hold how many receives were posted here, ever: who may
  // read them never needs to send too early; see receive_credits. Errors: invalid_value (less than 8
  // bytes, or of another Context), not_supported (device memory), bad_state (it receives from a SharedReceive's queue), no_lock.
  result<void> publish_receives(const MemoryRegion& word);

  // Of endpoints that were connected with connect_options::messages, which carry these instead of the
  // messages above: see messages.hpp. A long message is read by the peer where its memory grants
  // access::remote_read; else it is written there, or sent piece by piece (message_options::eager_bytes).
  message_send_operation tag_send(std::uint64_t tag, const Slice& message) noexcept;
  message_send_operation tag_send(std::uint64_t tag, std::span<const Slice> gathered) noexcept;
  // From this endpoint only; see Messages::tag_recv() too.
  tag_recv_operation tag_recv(std::uint64_t tag, const Slice& into) noexcept;
  tag_recv_operation tag_recv(std::uint64_t tag, std::uint64_t mask, const Slice& into) noexcept;
  // As Messages::tag_probe() and tag_claim(), of what came from here. Nothing where it carries plain messages.
  // REQUIRES the Worker's thread.
  [[nodiscard]] std::optional<TagReceived> tag_probe(std::uint64_t tag,
                                                     std::uint64_t mask = ~std::uint64_t{
                                                         0}) const noexcept;
  [[nodiscard]] std::optional<TaggedMessage> tag_claim(std::uint64_t tag,
                                                       std::uint64_t mask = ~std::uint64_t{
                                                           0}) noexcept;
  // `header` stays yours, and as it is, until the send is done. Ids from 0xFF00 on are the library's own:
  // invalid_value.
  message_send_operation am_send(std::uint16_t id, std::span<const std::byte> header,
                                 const Slice& data) noexcept;

  // One-sided: the local slice(s) must be as long as `to`/`from`. remote_access where the peer's
  // memory protection refuses. A write is done when the peer's transport has taken it without error;
  // it is visible to the peer's program after flush(), or after a later message arrived there.
  send_operation write(const RemoteSlice& to, const Slice& data) noexcept;
  send_operation write(const RemoteSlice& to, std::span<const Slice> gathered) noexcept;
  // Consumes a receive of the peer, which learns length and immediate; the data goes to `to`.
  send_operation write_imm(const RemoteSlice& to, const Slice& data, std::uint32_t imm) noexcept;
  send_operation read(const RemoteSlice& from, const Slice& into) noexcept;
  send_operation read(const RemoteSlice& from, std::span<const Slice> scattered) noexcept;
  // The peer's memory itself, where it is shared with this process: on shm, what the peer has of Context::allocate().
  // It must be known here, by an operation on it that was done before: bad_state. not_supported: elsewhere, and other
  // memory. remote_access as read(); not_connected, no_lock.
  [[nodiscard]] result<RemoteView> view(const RemoteSlice& of) const;
  // 8 bytes, aligned to 8 (else invalid_value), in the byte order of the owner's host. Returns the
  // old value. Atomic with respect to all access through cordma. Soft-RoCE may answer with a wrong old value where
  // packets are lost while another request of this side is under way (net/transport/verbs/README.md).
  atomic_operation fetch_add(const RemoteSlice& word, std::uint64_t addend) noexcept;
  atomic_operation compare_swap(const RemoteSlice& word, std::uint64_t expected,
                                std::uint64_t desired) noexcept;

  // A window on `length` bytes of the region, for the peer of this endpoint alone; `rights` are remote
  // ones, and only those that the region grants. The region needs access::mw_bind. Its turn comes with
  // the operations started before it. Errors: not_supported (shm, uc, a device without windows of type
  // 2), not_permitted (rights, or mw_bind, that the region lacks), invalid_value (nothing, outside the
  // region, of another Context, other than remote rights), no_memory (the device has no more windows; the
  // connection stays), not_connected (not yet, too).
  bind_operation bind(const MemoryRegion& region, std::size_t offset, std::size_t length,
                      access rights) noexcept;
  // A message that ends the window at the peer, whose receive tells the key: no request of this side
  // that is started later can use it. A key that is no window's of this connection fails the peer's
  // receive (not_permitted) and ends the connection; here as remote_access, or, on verbs, only as the
  // end. not_supported as bind().
  send_operation send_invalidate(const Slice& message, const RemoteSlice& window) noexcept;
  send_operation send_invalidate(std::span<const Slice> gathered,
                                 const RemoteSlice& window) noexcept;

  // The next operation does not begin before earlier reads and atomics are done. REQUIRES the Worker's
  // thread; so does batch().
  void fence() noexcept;
  // Done when everything started before it is done here and visible at the target: so it drains the send
  // queue, and what is started later need not wait for it.
  send_operation flush() noexcept;

  // While it lives, what is started on this endpoint may stay invisible to the peer; destroying it
  // makes all of it visible at once (one doorbell). Nests. Over shared memory there is no doorbell to save:
  // what finds room is visible at once.
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

  // For endpoints of Worker::prepare(): each side gives its descriptor to the other, by any means, and
  // connects with what it got; then state_changed() resolves with connected, or with closed, and
  // first_cause() says why: not_connected where the two met and the peer has closed in the meantime. Whoever has a descriptor can connect: carry it safely. Errors: bad_state
  // (connected before, or not from prepare()), connection_aborted (damaged, cut off, or of another
  // kind), invalid_value (its own), unsupported_version, unreachable, no_lock, not_supported.
  [[nodiscard]] result<std::vector<std::byte>> descriptor() const;
  result<void> connect(std::span<const std::byte> peer_descriptor);

  // Graceful: what was started is carried out, then the peer is told; resolves when closed on this
  // side. Of Requests: words have left, or are acknowledged, and calls have ended, with their answer, by
  // their timeout or canceled; meanwhile the peer is answered. What that has asked is not waited for, but
  // where its answer has begun. A live peer that never receives what was sent, or never answers, keeps it
  // waiting: abort() ends that. An answer comes behind the messages that have the credits, so tag_recv() may
  // be started till the end. Receives still waiting end as flushed. Where it was never connected there is
  // nobody to tell: all that waits ends as flushed, at once. Idempotent.
  state_operation close() noexcept;
  // At once: everything in flight ends as flushed.
  void abort() noexcept;
  state_operation state_changed() noexcept;
  [[nodiscard]] endpoint_state state() const noexcept;
  // Why it ended; null while it has not.
  [[nodiscard]] const failure* first_cause() const noexcept;

  // What was granted, which may be more than was asked for.
  [[nodiscard]] const endpoint_options& actual() const noexcept;
  // What else was agreed to, in the transport's own words ("path_mtu", "1024"); empty once closed. Of one that
  // carries messages also "rails", how many connections they come by now, and of each, as "rail_1_device" and
  // "rail_1_bytes", what it goes by and how much of long messages has come by it.
  [[nodiscard]] std::vector<transport::property> properties() const;
  // The transport of its connection. Before it is connected the value has no meaning: see Worker::endpoint().
  [[nodiscard]] transport::kind transport() const noexcept;
  // What its transport can do. Lives as long as the Context. Before it is connected: messages only.
  [[nodiscard]] const transport::capabilities& abilities() const noexcept;
  // The state of its queue pair, asked from the device. Errors: not_supported (everywhere but on verbs),
  // not_connected (there is none, or none any more), no_lock.
  [[nodiscard]] result<transport::queue_pair_state> debug_state() const;
  // Why this transport: one sentence for -v.
  [[nodiscard]] const std::string& transport_reason() const noexcept;
  [[nodiscard]] std::uint32_t inline_limit() const noexcept { return actual().inline_bytes; }
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::string peer_address() const;
  // What the peer sent along with its accept, or with its request.
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
