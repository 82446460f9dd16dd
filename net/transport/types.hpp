// The vocabulary of the transport interface: kinds, rights, opcodes, completion statuses, requests.
// Names and numbers follow libibverbs, so that verbs needs no translation and the software
// transports promise the same.
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

// The list of transports. Blobs carry their numbers: a number never comes to mean another transport.
// `test` is for the transports of tests: no setting has it, no name finds it, only
// context_options::domains brings it.
enum class kind : std::uint8_t { shm = 0, tcp = 1, sim = 2, verbs = 3, test = 4 };
inline constexpr std::array kinds{kind::shm, kind::tcp, kind::sim, kind::verbs, kind::test};
inline constexpr std::size_t kind_count = kinds.size();
[[nodiscard]] std::string_view name(kind k) noexcept;
// Whether this build has a transport of that number; a peer of another release may have more.
[[nodiscard]] constexpr bool is_known(kind k) noexcept {
  return static_cast<std::size_t>(k) < kind_count;
}
// Whether settings and programs choose it by its name. A domain of another one is handed in.
[[nodiscard]] constexpr bool has_setting(kind k) noexcept {
  return k == kind::shm || k == kind::tcp || k == kind::verbs;
}

// The queue pair types of the InfiniBand specification: reliable connected, unreliable connected,
// unreliable datagram.
enum class service : std::uint8_t { rc = 0, uc = 1, ud = 2 };
inline constexpr std::size_t service_count = 3;
static_assert(static_cast<std::size_t>(service::ud) + 1 == service_count);
[[nodiscard]] std::string_view name(service s) noexcept;

// What a connection's other end is. A plain one is a program on rdma_cm and libibverbs that knows nothing
// of cordma, at either end of the connection. With it, beside what capabilities say:
//  * Service rc only. The private data is all the program's own, as long as capabilities say, 8 bytes less
//    than rdma_cm carries; what comes is as long as rdma_cm makes it, with zeros behind what was said.
//    Keys of memory travel as the two programs agree: a RemoteSlice can be made of an address and a key.
//  * The peer says no goodbye. That it closed and that it died are one: not_connected. What is posted
//    here when it disconnects ends as flushed.
//  * Of depths and MTU what rdma_cm tells holds; the pause before a message is offered again is what
//    each side says of its own receives. The peer grants what rdma_cm gives a queue pair: writes, and
//    reads and atomics where it answers any.
enum class peer_kind : std::uint8_t { cordma = 0, plain = 1 };

// Bytes of a peer that are mapped here, and stay so while `mapping` is kept.
struct peer_view {
  std::shared_ptr<const void> mapping;
  std::span<const std::byte> bytes;
};

// Rights to memory, granted on the region AND on the connection: both are needed.
enum class access : std::uint8_t {
  local_read = 0,   // always there
  local_write = 1,  // receives and reads may land in it
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
// With the rights that others imply added.
[[nodiscard]] constexpr access normalized(access a) noexcept {
  const bool remote_change = has(a, access::remote_write) || has(a, access::remote_atomic);
  return remote_change ? (a | access::local_write) : a;
}
static_assert(normalized(access::remote_read) == access::remote_read);
static_assert(has(normalized(access::remote_write), access::local_write));
static_assert(has(normalized(access::remote_atomic), access::local_write));

// Where memory lies. Which kinds a transport takes, capabilities say.
enum class memory_kind : std::uint8_t {
  host = 0,    // the CPU reads and writes it
  device = 1,  // of a GPU, for instance: the CPU never reads or writes it, devices do
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
  flush,           // complete when everything posted before is done here and visible at the target
  recv,            // in completions: a send arrived
  recv_write_imm,  // in completions: a write with immediate arrived; the data is not in the receive
  bind,  // rc: `operand` is the window; its key is in the completion, and valid from there on
  send_invalidate,  // rc: a send that ends the window of `rkey` at the receiver, before it completes there
};
inline constexpr std::size_t opcode_count = 12;
static_assert(static_cast<std::size_t>(opcode::send_invalidate) + 1 == opcode_count);
static_assert(opcode_count <= 32, "capabilities::operations has a bit for each");
[[nodiscard]] const char* name(opcode op) noexcept;

// ibv_wc_status, number by number.
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

// A piece of local memory (ibv_sge). Native pointers and sizes; never on the wire.
struct segment {
  std::byte* addr;
  std::uint32_t length;  // bytes
  std::uint32_t lkey;    // of the domain the queue pair belongs to; 0 only for inline data
};
static_assert(sizeof(segment) == 16 && offsetof(segment, length) == 8);
static_assert(std::is_trivially_copyable_v<segment>, "lists of them are copied into slots");

// Where a datagram goes to or comes from (address handle, queue pair number, qkey).
struct datagram_peer {
  std::array<std::byte, 28> address{};  // the transport's own form; compare and copy only
  std::uint32_t address_length = 0;     // bytes used of `address`
  std::uint32_t queue_pair = 0;
  std::uint32_t qkey = 0;
};
static_assert(sizeof(datagram_peer) == 40 && offsetof(datagram_peer, address_length) == 28);
static_assert(std::is_trivially_copyable_v<datagram_peer>);

// The key of every port that is bound to an address: rdma_cm tells it of each (RDMA_UDP_QKEY).
inline constexpr std::uint32_t bound_qkey = 0x01234567;

namespace post_flag {
inline constexpr std::uint8_t fence = 1;        // not before earlier reads and atomics are done
inline constexpr std::uint8_t inline_data = 2;  // payload is copied before post_send returns
inline constexpr std::uint8_t more = 4;         // may stay unseen by the peer until ring()
inline constexpr std::uint8_t solicited = 8;    // wakes a peer that wakes for such messages only
// Some of the payload is device memory, which the device alone reads: it goes without inline_data.
inline constexpr std::uint8_t device_memory = 16;
static_assert((fence | inline_data | more | solicited | device_memory) == 31, "a bit for each");
}  // namespace post_flag

struct send_request {
  std::uint64_t id = 0;  // comes back in the completion, opaque to the transport
  opcode op = opcode::send;
  std::uint8_t flags = 0;
  std::uint16_t segment_count = 0;
  std::uint32_t imm = 0;  // host order here, big endian on every wire
  const segment* segments = nullptr;
  std::uint64_t remote_addr = 0;  // the address in the owner's address space
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
  std::uint32_t imm = 0;       // host order; valid where has_imm
  std::uint32_t vendor_err = 0;
  wc_status status = wc_status::success;
  opcode op = opcode::send;  // only valid on success, as in verbs
  bool has_imm = false;
  // On success: of a bind, the new key; of a receive, the key that its message invalidated; else 0.
  std::uint64_t key = 0;
  // Receives of a receive_queue only: whose message it was. Null: of a queue pair that is gone.
  queue_pair* from = nullptr;
};
static_assert(sizeof(completion) <= 40, "polls hand out arrays of them");
static_assert(std::is_trivially_copyable_v<completion>);

// What became of a post.
enum class posted : std::uint8_t {
  pending,  // a completion will be polled
  done,     // `now` holds the completion; none will be polled
};

// The rights and limits of one queue pair. A connect or accept may lower them; actual() tells. More than the
// transport has (capabilities) is refused, invalid_value, but for what is no more than the default: that is lowered.
struct queue_pair_options {
  service type = service::rc;
  std::uint32_t send_depth = 128;  // send-queue entries; at least granted
  std::uint32_t recv_depth = 128;
  std::uint32_t max_segments = 4;     // per request, up to capabilities.max_segments
  std::uint32_t inline_bytes = 64;    // 0 ... capabilities.max_inline
  std::uint32_t read_depth = 16;      // reads and atomics in flight; more wait in the transport
  access remote_access = all_remote;  // what the peer may do with regions that allow it
  // A message that finds no receive is offered again every rnr_timer, rnr_retry times; 7 = for ever,
  // as in verbs. Then the sender fails with rnr_retry_exc_err. On Soft-RoCE a message that waits so, with
  // nothing behind it, is given up after about a peer_timeout all the same.
  std::uint8_t rnr_retry = 7;
  duration rnr_timer = std::chrono::milliseconds(1);
  // A peer that owes an answer and shows no sign of life for this long is dead. A process that is
  // stopped, or does not poll, shows none. On verbs the device answers for it, and this is the most
  // that silence of an rc peer lasts until every waiter learns of it: timeout and retry count, and
  // the time until an idle peer is asked, in one. Its README says which devices keep that.
  duration peer_timeout = std::chrono::seconds(5);
  duration connect_timeout = std::chrono::seconds(5);  // both: more than none
  std::uint32_t qkey = 0;                              // service::ud
  // Connecting, whom; accepting, what the listener says counts.
  peer_kind peer = peer_kind::cordma;
  // Where capabilities::shared_receive_queues, service rc: receives come from there, and recv_depth
  // becomes 0. Of the same adapter, and outlives the queue pair.
  receive_queue* shared = nullptr;
};

// Of a queue pair on a device, as the InfiniBand specification has them.
enum class queue_pair_state : std::uint8_t { reset, init, rtr, rts, sqd, sqe, error };
[[nodiscard]] std::string_view name(queue_pair_state s) noexcept;

// What wakes an adapter's sleeper.
enum class wake_reason : std::uint8_t {
  everything,
  solicited,  // messages sent with post_flag::solicited, errors, and its own requests
};

// What one transport can do here. Data, not promises: factories check again. Code that depends on
// one of these asks for it, never for the kind; an ability that a transport does not claim is false.
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
  // What message_options::eager_bytes are by default: from about there on, asking for a message costs less than
  // copying it. Found by bench-thresholds; where that says nothing, a guess.
  std::uint32_t eager_bytes = 8192;
  std::uint32_t max_connect_data = 56;  // bytes of private data with a request
  std::uint32_t max_accept_data = 196;  // bytes of private data with an accept or a reject
  bool event_driven = false;            // has a wait fd
  // One-sided operations wait for the target to poll; with remote_access_is_copy only the first with
  // a key, and those on memory that Context::allocate() did not make.
  bool needs_target_progress = false;
  // One-sided access to memory of Context::allocate() is a copy that the initiator makes as it posts.
  bool remote_access_is_copy = false;
  bool whole_words = false;   // eight aligned bytes are never observed half written
  bool ordered_path = false;  // what one queue pair writes and sends arrives in the order of posts
  bool atomic_with_cpu = false;  // fetch_add, compare_swap and the atomics of the target's CPUs
  bool locks_memory = false;     // registered memory counts against RLIMIT_MEMLOCK
  bool own_ports = false;        // its port numbers are not the network's: others may have the same
  bool every_address = false;    // it listens on any address of this machine
  bool plain_peers = false;      // peer_kind::plain
  bool wakes_selectively = false;      // adapter::wake_for(wake_reason::solicited)
  bool tells_device_events = false;    // cm_event::type::device
  bool has_native_handles = false;     // domain::native_pd() and native_mr()
  bool shared_receive_queues = false;  // adapter::make_receive_queue(), queue_pair_options::shared
  bool in_place = false;               // queue_pair::in_place, beside queue_pair_options::shared
  bool plain_in_place = false;         // ... and without
  bool posts_now = false;              // queue_pair::post_now()
  // The kinds of memory that domain::register_memory() takes: bit (1 << memory_kind).
  std::uint32_t memory = 1U << static_cast<unsigned>(memory_kind::host);
  // One-sided access to memory of Context::allocate() takes nothing of the target's CPU, once a key
  // has been used.
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
