// The awaitables of an Endpoint. Each is an `operation` (runtime/operation.hpp): lazy, started by
// awaiting or by start(), awaited once; `co_await op` throws, `co_await op.result()` does not.
#pragma once

#include <cordma/net/buffer_pool.hpp>
#include <cordma/net/memory.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/operation.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

namespace cordma {

// Limit of local slices per operation. The limit of a transport may be lower: capabilities.
inline constexpr std::size_t most_segments = 8;
static_assert(most_segments <=
              std::numeric_limits<decltype(transport::send_request::segment_count)>::max());

// Result of a receive.
struct Received {
  std::size_t bytes = 0;  // of the message; for recv_write_imm: of the write, to other memory
  std::uint32_t imm = 0;  // host order; 0 if has_imm is false
  bool has_imm = false;
  transport::opcode op = transport::opcode::recv;  // recv or recv_write_imm
  // Key of the MemoryWindow that the message invalidated, before it was received; 0: none.
  std::uint64_t invalidated = 0;
};

// Result of a receive into a pool: the first `info().bytes` bytes of the buffer are the message.
// Once the buffer was moved from, bytes() is empty.
class Message {
 public:
  Message() noexcept = default;
  Message(Buffer buffer, const Received& info) noexcept : buffer_(std::move(buffer)), info_(info) {}
  [[nodiscard]] const Received& info() const noexcept { return info_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    const bool here = buffer_ && info_.op == transport::opcode::recv;
    return here ? buffer_.bytes().first(info_.bytes) : std::span<std::byte>{};
  }
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }
  [[nodiscard]] std::uint64_t invalidated() const noexcept { return info_.invalidated; }

 private:
  Buffer buffer_;
  Received info_;
};

namespace detail {

class endpoint_core;
struct slot;
class worker_core;

// One request to a queue pair, stored in the frame of its awaiter. While it is posted, a slot of
// the worker points to it. Destroying it then detaches it: the slot keeps regions and leased buffer
// until the completion is reaped.
class post_base : public operation_base {
 public:
  // Additional resource that a request needs beside its slot: eight registered bytes for the old
  // value of an atomic; memory for the address of a datagram's peer; the keys of its memory, if it
  // was created before its endpoint had a transport; or a window of the queue pair. One test for
  // all keeps other requests free of them.
  enum class aside : std::uint8_t { nothing, word, peer, keys, window };

  // The queue that the request is posted to.
  enum class side : std::uint8_t { send, recv };

  post_base(endpoint_core& endpoint, transport::opcode op, aside needs) noexcept;
  post_base(post_base&& other) noexcept;
  ~post_base() {
    if (state() == phase::posted) [[unlikely]]
      leave_slot();
  }

  void add(const Slice& s) noexcept;
  void add(std::span<const Slice> s) noexcept;
  // The remote length is the length of the slices added so far.
  void target(const RemoteSlice& remote) noexcept { target(remote, total_); }
  void target_word(const RemoteSlice& word) noexcept;
  // Uses only the key of `remote`.
  void target_key(const RemoteSlice& remote) noexcept;
  void set_imm(std::uint32_t imm) noexcept { request_.imm = imm; }
  void set_operands(std::uint64_t operand, std::uint64_t swap) noexcept {
    request_.operand = operand;
    request_.swap = swap;
  }
  void set_inline(std::span<const std::byte> bytes) noexcept;
  void lease(Buffer&& buffer) noexcept;
  void refuse(failure why) noexcept;
  void renew(const Slice& buffer) noexcept;
  void mark_solicited() noexcept;

 protected:
  // Hooks that `operation` requires of every kind.
  void do_start() noexcept { is_recv() ? start_recv() : start_send(); }
  void do_cancel() noexcept;
  void start_send() noexcept;
  void start_recv() noexcept;

  friend class worker_core;
  friend class endpoint_core;

  [[nodiscard]] bool is_open() const noexcept;
  void post_open(side as) noexcept;
  void post_open_send() noexcept;
  void post_open_recv() noexcept;
  void done_now() noexcept;
  void put_now() noexcept;
  void carry_out() noexcept;
  void start_with_care() noexcept;
  // Returns why the request cannot be executed. REQUIRES that it cannot.
  [[nodiscard]] failure obstacle() const noexcept;
  // Whether the slice passes the common check for an operation's slices: host memory.
  [[nodiscard]] bool accepts(const Slice& s) const noexcept;
  // REQUIRES accepts(s).
  void put(std::uint16_t place, const Slice& s) noexcept;
  // Adds a slice that add() does not accept directly: device memory, or one that is refused.
  void add_with_care(const Slice& s) noexcept;
  void refuse_slice(const Slice& s) noexcept;
  void refuse_length(std::uint64_t remote) noexcept;
  [[nodiscard]] bool is_one_sided() const noexcept;
  void renew_with_care(const Slice& buffer) noexcept;
  void copy_slices(const post_base& other) noexcept;
  void target_with_care(const RemoteSlice& remote, std::uint64_t bytes) noexcept;
  void find_keys() noexcept;
  void target(const RemoteSlice& remote, std::uint64_t bytes) noexcept;
  void leave_slot() noexcept;
  void complete(side as, endpoint_core& e, const transport::completion& c, bool in_poll) noexcept;
  void done_at_once(side as) noexcept;
  void complete_badly(const transport::completion& c) noexcept;
  void complete_failed(failure why) noexcept;
  [[nodiscard]] bool is_recv() const noexcept { return request_.op == transport::opcode::recv; }
  [[nodiscard]] side own_side() const noexcept { return is_recv() ? side::recv : side::send; }
  [[nodiscard]] const char* op_name() const noexcept { return transport::name(request_.op); }
  // For a receive that was not passed to the transport yet; it has no other use for the operand.
  void set_held_since(coarse_time t) noexcept { request_.operand = t; }
  [[nodiscard]] coarse_time held_since() const noexcept {
    return static_cast<coarse_time>(request_.operand);
  }

  aside aside_;
  slot* slot_ = nullptr;  // while it is posted
  endpoint_core* endpoint_;
  // The request for the transport; id and segments are set when it is posted. After an atomic,
  // operand is the old value.
  transport::send_request request_;
  std::uint64_t total_ = 0;  // bytes
  Received received_;
  Buffer lease_;
  std::array<transport::segment, most_segments> segments_;
  std::array<region_core*, most_segments> regions_;
};

static_assert(std::is_trivially_copyable_v<transport::send_request> &&
                  std::is_trivially_copyable_v<transport::segment>,
              "a request moves with the operation that it is of");

// A request of a datagram port. `peer_` is its destination; after a receive, its source. Until the
// receive completes, the transport writes to memory of the slot, which outlives this object.
class datagram_base : public post_base {
 public:
  datagram_base(endpoint_core& endpoint, transport::opcode op,
                const transport::datagram_peer& peer) noexcept;

 protected:
  friend class worker_core;
  transport::datagram_peer peer_;
};

}  // namespace detail

// T: void (send, write, read, flush), Received, Message, std::uint64_t (the old value of an
// atomic). The caller owns the buffers again when the operation is done. On cancellation:
//  * A request that still waits for a queue entry is withdrawn (canceled).
//  * A posted one with a buffer leased from a pool is abandoned, and the awaiter resumes at once
//    (canceled). Its message goes to the endpoint's next receive into a pool, started already or
//    later.
//  * Any other posted request resumes when its completion arrives.
// Destroyed while posted, it is abandoned: regions and leased buffer are kept until the completion,
// and received data is dropped.
template <class T>
class [[nodiscard]] post_operation final
    : public operation<post_operation<T>, T, detail::post_base> {
  using base = operation<post_operation<T>, T, detail::post_base>;

 public:
  post_operation(detail::endpoint_core& endpoint, transport::opcode op) noexcept
      : base(endpoint, op,
             std::is_same_v<T, std::uint64_t> ? detail::post_base::aside::word
                                              : detail::post_base::aside::nothing) {}
  post_operation(post_operation&&) noexcept = default;

  // Marks a message, or a write with immediate, to wake a peer that does not wake for others; see
  // Worker::wake_for(). It has no effect if every message wakes the peer. Errors: invalid_value for
  // a request that consumes no receive of the peer. REQUIRES not started.
  [[nodiscard]] post_operation solicited() && noexcept
    requires(std::is_void_v<T>)
  {
    this->mark_solicited();
    return std::move(*this);
  }

  // Prepares the same request again, with this memory, for loops that reuse a few operations. Await
  // or start it as if it were new. Endpoint, remote memory, immediate and mark stay. A one-sided
  // request keeps its length (else invalid_value). REQUIRES done(), and that its awaiter was
  // resumed.
  void again(const Slice& buffer) noexcept
    requires(std::is_void_v<T> || std::is_same_v<T, Received>)
  {
    this->renew(buffer);
  }

 private:
  template <class, class, class>
  friend class operation;
  static constexpr bool receives = std::is_same_v<T, Received> || std::is_same_v<T, Message>;
  void do_start() noexcept { receives ? this->start_recv() : this->start_send(); }
  T take() noexcept {
    if constexpr (std::is_same_v<T, Received>) {
      return this->received_;
    } else if constexpr (std::is_same_v<T, Message>) {
      return Message(std::move(this->lease_), this->received_);
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return this->request_.operand;
    }
  }
};

using send_operation = post_operation<void>;
using recv_operation = post_operation<Received>;
using message_operation = post_operation<Message>;
using atomic_operation = post_operation<std::uint64_t>;

}  // namespace cordma
