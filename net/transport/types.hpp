// The vocabulary of the transport interface: kinds, rights, opcodes, completion statuses, requests.
// Names and numbers follow libibverbs, so that verbs needs no translation and the software
// transports give the same guarantees.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/errc.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace cordma::transport {

// The list of transports. Blobs carry these numbers: a number is never reused for another
// transport.
// `test` is for the transports of tests: no setting and no name selects it, only
// context_options::domains.
enum class kind : std::uint8_t { shm = 0, tcp = 1, sim = 2, verbs = 3, test = 4 };
inline constexpr std::array kinds{kind::shm, kind::tcp, kind::sim, kind::verbs, kind::test};
inline constexpr std::size_t kind_count = kinds.size();
[[nodiscard]] std::string_view name(kind k) noexcept;
// True if this build has a transport with this number; a peer of another release may have more.
[[nodiscard]] constexpr bool is_known(kind k) noexcept {
  return static_cast<std::size_t>(k) < kind_count;
}
// True if settings and programs can select it by name. Other domains are passed in as objects.
[[nodiscard]] constexpr bool has_setting(kind k) noexcept {
  return k == kind::shm || k == kind::tcp || k == kind::verbs;
}

// The queue pair types of the InfiniBand specification: reliable connected, unreliable connected,
// unreliable datagram.
enum class service : std::uint8_t { rc = 0, uc = 1, ud = 2 };
inline constexpr std::size_t service_count = 3;
static_assert(static_cast<std::size_t>(service::ud) + 1 == service_count);
[[nodiscard]] std::string_view name(service s) noexcept;

// The program at the other end of a connection. A plain peer uses rdma_cm and libibverbs without
// cordma; either side may be plain. With a plain peer, in addition to the capabilities:
//  * Only service rc. The program owns all private data; the limit of the capabilities is 8 bytes
//    less than rdma_cm carries. Received private data has the length that rdma_cm reports, padded
//    with zeros. The two programs exchange memory keys in their own way: a RemoteSlice can be made
//    of an address and a key.
//  * The peer sends no goodbye. A closed peer and a dead peer are the same: not_connected. Requests
//    outstanding when it disconnects are flushed.
//  * Depths and MTU are those that rdma_cm reports. Each side sets the RNR timer for its own
//    receives. The peer grants the rights that rdma_cm gives a queue pair: writes, and reads and
//    atomics if it accepts any.
enum class peer_kind : std::uint8_t { cordma = 0, plain = 1 };

// Bytes of a peer mapped into this process; valid while `mapping` is kept.
struct peer_view {
  std::shared_ptr<const void> mapping;
  std::span<const std::byte> bytes;
};

// Rights to memory. An access needs them on the region AND on the connection.
enum class access : std::uint8_t {
  local_read = 0,   // always granted
  local_write = 1,  // receives and reads may write to it
  remote_read = 2,
  remote_write = 4,   // implies local_write, as verbs demands
  remote_atomic = 8,  // implies local_write
  mw_bind = 16,       // memory windows may be bound within the region
};
inline constexpr std::uint8_t access_bits = 31;
[[nodiscard]] constexpr access operator|(access a, access b) noexcept {
  return static_cast<access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
[[nodiscard]] constexpr bool has(access granted, access wanted) noexcept {
  return (static_cast<std::uint8_t>(granted) & static_cast<std::uint8_t>(wanted)) ==
         static_cast<std::uint8_t>(wanted);
}
inline constexpr access all_remote =
    access::remote_read | access::remote_write | access::remote_atomic;
static_assert(static_cast<std::uint8_t>(access::local_write | all_remote | access::mw_bind) ==
              access_bits);
static_assert(has(all_remote, access::local_read), "reading locally needs no bit");
// Returns `a` with the implied rights added.
[[nodiscard]] constexpr access normalized(access a) noexcept {
  const bool remote_change = has(a, access::remote_write) || has(a, access::remote_atomic);
  return remote_change ? (a | access::local_write) : a;
}
static_assert(normalized(access::remote_read) == access::remote_read);
static_assert(has(normalized(access::remote_write), access::local_write));
static_assert(has(normalized(access::remote_atomic), access::local_write));

// Location of memory. capabilities::takes() states which kinds a transport accepts.
enum class memory_kind : std::uint8_t {
  host = 0,    // the CPU reads and writes it
  device = 1,  // for example of a GPU: only devices read or write it, never the CPU
};
inline constexpr std::size_t memory_kind_count = 2;
[[nodiscard]] std::string_view name(memory_kind k) noexcept;

enum class opcode : std::uint8_t {
  send,
  send_imm,
  write,
  write_imm,
  read,
  fetch_add,
  compare_swap,
  flush,  // completes when all earlier requests are complete here and visible at the target
  recv,   // in completions: a send arrived
  recv_write_imm,  // in completions: a write with immediate arrived; its data is not in the receive
  bind,  // rc: `operand` is the window; the completion carries its key, which is valid from then on
  // rc: a send that invalidates the window of `rkey` at the receiver, before it completes there
  send_invalidate,
};
inline constexpr std::size_t opcode_count = 12;
static_assert(static_cast<std::size_t>(opcode::send_invalidate) + 1 == opcode_count);
static_assert(opcode_count <= 32, "capabilities::operations has a bit for each");
[[nodiscard]] const char* name(opcode op) noexcept;

// The values of ibv_wc_status.
enum class wc_status : std::uint8_t {
  success = 0,
  loc_len_err,
  loc_qp_op_err,
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,
  mw_bind_err,
  bad_resp_err,
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,
  rem_op_err,
  retry_exc_err,
  rnr_retry_exc_err,
  loc_rdd_viol_err,
  rem_inv_rd_req_err,
  rem_abort_err,
  inv_eecn_err,
  inv_eec_state_err,
  fatal_err,
  resp_timeout_err,
  general_err,
  tm_err,
  tm_rndv_incomplete,
};
inline constexpr std::size_t wc_status_count = 24;
static_assert(static_cast<std::size_t>(wc_status::tm_rndv_incomplete) + 1 == wc_status_count);
[[nodiscard]] std::string_view name(wc_status s) noexcept;
// Every status maps to exactly one code.
[[nodiscard]] errc to_errc(wc_status s) noexcept;

// A piece of local memory (ibv_sge). Native pointers and sizes; never sent.
struct segment {
  std::byte* addr;
  std::uint32_t length;  // bytes
  std::uint32_t lkey;    // of the queue pair's domain; 0 only for inline data
};
static_assert(sizeof(segment) == 16 && offsetof(segment, length) == 8);
static_assert(std::is_trivially_copyable_v<segment>, "lists of them are copied into slots");

// Destination or source of a datagram (address handle, queue pair number, qkey).
struct datagram_peer {
  std::array<std::byte, 28> address{};  // the transport's own form; compare and copy only
  std::uint32_t address_length = 0;     // bytes used of `address`
  std::uint32_t queue_pair = 0;
  std::uint32_t qkey = 0;
};
static_assert(sizeof(datagram_peer) == 40 && offsetof(datagram_peer, address_length) == 28);
static_assert(std::is_trivially_copyable_v<datagram_peer>);

// The qkey of every port that is bound to an address: rdma_cm assigns this one to all of them
// (RDMA_UDP_QKEY).
inline constexpr std::uint32_t bound_qkey = 0x01234567;

namespace post_flag {
inline constexpr std::uint8_t fence = 1;        // starts after earlier reads and atomics are done
inline constexpr std::uint8_t inline_data = 2;  // payload is copied before post_send returns
inline constexpr std::uint8_t more = 4;         // may stay invisible to the peer until ring()
inline constexpr std::uint8_t solicited = 8;    // wakes a peer that waits for such messages only
// Some of the payload is device memory, which only the device reads: never sent inline.
inline constexpr std::uint8_t device_memory = 16;
static_assert((fence | inline_data | more | solicited | device_memory) == 31, "a bit for each");
}  // namespace post_flag

struct send_request {
  std::uint64_t id = 0;  // returned in the completion, opaque to the transport
  opcode op = opcode::send;
  std::uint8_t flags = 0;
  std::uint16_t segment_count = 0;
  std::uint32_t imm = 0;  // host order here, big endian on every wire
  const segment* segments = nullptr;
  std::uint64_t remote_addr = 0;  // address in the owner's address space
  std::uint64_t rkey = 0;
  std::uint64_t operand =
      0;  // the addend, the value expected by compare_swap, or the window to bind
  std::uint64_t swap = 0;
  const datagram_peer* to = nullptr;  // service::ud only; valid until the completion
};

struct recv_request {
  std::uint64_t id = 0;
  std::uint16_t segment_count = 0;
  const segment* segments = nullptr;
  datagram_peer* from = nullptr;  // service::ud only: filled before the completion is reported
};

class queue_pair;
class receive_queue;

struct completion {
  std::uint64_t id = 0;
  std::uint32_t byte_len = 0;  // receives: bytes of the message or of the write
  std::uint32_t imm = 0;       // host order; valid if has_imm
  std::uint32_t vendor_err = 0;
  wc_status status = wc_status::success;
  opcode op = opcode::send;  // valid only on success, as in verbs
  bool has_imm = false;
  // On success: for a bind, the new key; for a receive, the key its message invalidated; else 0.
  std::uint64_t key = 0;
  // Only for receives of a receive_queue: the receiving queue pair. Null: it is destroyed.
  queue_pair* from = nullptr;
};
static_assert(sizeof(completion) <= 40, "polls hand out arrays of them");
static_assert(std::is_trivially_copyable_v<completion>);

// Result of a post.
enum class posted : std::uint8_t {
  pending,  // a completion will be polled
  done,     // `now` holds the completion; none will be polled
};

// The rights and limits of one queue pair. A connect or accept may lower them; actual() returns the
// result. A value above the transport's capabilities is refused with invalid_value, unless it is at
// most the default: then it is lowered.
struct queue_pair_options {
  service type = service::rc;
  std::uint32_t send_depth = 128;  // send queue entries; at least this number is granted
  std::uint32_t recv_depth = 128;
  std::uint32_t max_segments = 4;     // per request, up to capabilities.max_segments
  std::uint32_t inline_bytes = 64;    // 0 ... capabilities.max_inline
  std::uint32_t read_depth = 16;      // reads and atomics in flight; more wait in the transport
  access remote_access = all_remote;  // rights of the peer to regions that grant them
  // A message that finds no receive is sent again every rnr_timer, rnr_retry times; 7 = forever, as
  // in verbs. Then the sender fails with rnr_retry_exc_err. On Soft-RoCE such a message, with none
  // behind it, fails after about a peer_timeout in any case.
  std::uint8_t rnr_retry = 7;
  duration rnr_timer = std::chrono::milliseconds(1);
  // A peer that owes a response and shows no sign of life for this long is considered dead. A
  // process that is stopped, or does not poll, shows none. On verbs the device responds for the
  // process. There this is the longest silence of an rc peer until every waiter is notified:
  // timeout, retry count and the time until an idle peer is probed, together. The README of verbs
  // lists the devices that keep this limit.
  duration peer_timeout = std::chrono::seconds(5);
  duration connect_timeout = std::chrono::seconds(5);  // both timeouts: greater than zero
  std::uint32_t qkey = 0;                              // service::ud
  // Connecting: the kind of the peer. Accepting: ignored, the listener's setting applies.
  peer_kind peer = peer_kind::cordma;
  // With capabilities::shared_receive_queues and service rc: the queue that supplies the receives;
  // recv_depth becomes 0. REQUIRES the same adapter, and that it outlives the queue pair.
  receive_queue* shared = nullptr;
};

// State of a queue pair on a device, as in the InfiniBand specification.
enum class queue_pair_state : std::uint8_t { reset, init, rtr, rts, sqd, sqe, error };
[[nodiscard]] std::string_view name(queue_pair_state s) noexcept;

// Events that wake a sleeping adapter.
enum class wake_reason : std::uint8_t {
  everything,
  solicited,  // messages sent with post_flag::solicited, errors, and its own requests
};

// Abilities and limits of a transport on this machine. They are data, not promises: factories check
// again. Code that depends on one tests it, never the kind; an ability that a transport does not
// claim is false.
struct capabilities {
  kind transport = kind::shm;
  // Bit (1 << opcode) per service.
  std::array<std::uint32_t, service_count> operations{};
  std::uint32_t max_send_depth = 0;
  std::uint32_t max_recv_depth = 0;
  std::uint32_t max_segments = 0;
  std::uint32_t max_inline = 0;  // bytes
  std::uint32_t max_read_depth = 0;
  std::uint32_t max_queue_pairs = 0;   // per adapter
  std::uint32_t max_shared_depth = 0;  // receives of a receive_queue
  std::uint64_t max_message = 0;       // bytes
  std::uint64_t rate = 0;              // of its device's port, megabits per second; 0: unknown
  std::uint32_t max_datagram = 0;      // bytes; 0 = no datagrams
  // Default of message_options::eager_bytes: above about this size, a rendezvous costs less than a
  // copy. Measured by bench-thresholds, or estimated if that has no result.
  std::uint32_t eager_bytes = 8192;
  std::uint32_t max_connect_data = 56;  // bytes of private data with a request
  std::uint32_t max_accept_data = 196;  // bytes of private data with an accept or a reject
  bool event_driven = false;            // has a wait fd
  // One-sided operations wait until the target polls. With remote_access_is_copy, only the first
  // one with a key does, and those on memory that Context::allocate() did not allocate.
  bool needs_target_progress = false;
  // One-sided access to memory of Context::allocate() is a copy that the initiator makes when it
  // posts.
  bool remote_access_is_copy = false;
  bool whole_words = false;  // eight aligned bytes are never observed half written
  // Writes and sends of one queue pair arrive in the order of their posts.
  bool ordered_path = false;
  // fetch_add and compare_swap are atomic with the atomics of the target's CPUs.
  bool atomic_with_cpu = false;
  bool locks_memory = false;  // registered memory counts against RLIMIT_MEMLOCK
  // Its ports are separate from the network's: both may use the same number.
  bool own_ports = false;
  bool every_address = false;          // it listens on any address of this machine
  bool plain_peers = false;            // peer_kind::plain
  bool wakes_selectively = false;      // adapter::wake_for(wake_reason::solicited)
  bool tells_device_events = false;    // cm_event::type::device
  bool has_native_handles = false;     // domain::native_pd() and native_mr()
  bool shared_receive_queues = false;  // adapter::make_receive_queue(), queue_pair_options::shared
  bool in_place = false;               // queue_pair::in_place with queue_pair_options::shared
  bool plain_in_place = false;         // ... and without
  bool posts_now = false;              // queue_pair::post_now()
  // The kinds of memory that domain::register_memory() takes: bit (1 << memory_kind).
  std::uint32_t memory = 1U << static_cast<unsigned>(memory_kind::host);
  // True if one-sided access to memory of Context::allocate() needs no CPU of the target, after a
  // key has been used once.
  [[nodiscard]] bool target_idle() const noexcept {
    return remote_access_is_copy || !needs_target_progress;
  }
  [[nodiscard]] bool supports(service s, opcode op) const noexcept {
    return (operations[static_cast<std::size_t>(s)] & (1U << static_cast<unsigned>(op))) != 0;
  }
  [[nodiscard]] bool takes(memory_kind k) const noexcept {
    return (memory & (1U << static_cast<unsigned>(k))) != 0;
  }
};

// "host" as the user wrote it (name, IPv4, IPv6, empty = every local address), and a port.
struct address {
  std::string host;
  std::uint16_t port = 0;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(const address&) const = default;
};

}  // namespace cordma::transport
