// The limits of the verbs transport, and the work request ids for the device.
#pragma once

#include <cordma/net/transport/verbs/wire.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cordma::transport::verbs {

inline constexpr std::uint32_t most_depth = 1U << 16;  // requests in one queue
inline constexpr std::uint32_t most_segments = 8;      // per request
inline constexpr std::uint32_t datagram_extra = 2;     // included in these: header and overflow
inline constexpr std::uint32_t most_reads = 128;       // reads and atomics in flight
inline constexpr std::uint32_t most_pairs = 1U << 20;  // queue pairs of an adapter
inline constexpr std::uint32_t most_puts = 32;         // messages of put() on the device at once
// Entries for put() in a queue pair with this number of requests of the layer above; a power of
// two. A device rounds its send queue up to a power of two too, and most depths are one, so these
// entries exist already.
[[nodiscard]] constexpr std::uint32_t puts_beside(std::uint32_t send_depth) noexcept {
  return std::bit_floor(std::clamp(send_depth / 2, 2U, most_puts));
}
static_assert(puts_beside(1) == 2 && puts_beside(15) == 4 && puts_beside(most_depth) == most_puts);
inline constexpr std::size_t most_gids = 1024;        // entries searched
inline constexpr std::uint32_t most_gid_index = 255;  // largest index that fits into a path
inline constexpr std::size_t post_list_length = 128;  // requests behind one doorbell
inline constexpr std::uint32_t control_depth = 64;    // control datagrams each way
// Timeout of one rdma_resolve_addr(), which is repeated until connect_timeout. The kernel queries
// the neighbour during the first 3 s only, and its code can miss an answer that arrives at once:
// with a longer timeout, the remaining time would be lost.
inline constexpr duration address_patience = std::chrono::seconds(1);
// Time for a queue pair in error to complete the receives that it had taken from its receive queue,
// if the device does not report their end. Equal to the time for its own requests.
inline constexpr duration last_receive_patience = std::chrono::milliseconds(500);
// Time until the first `attach` to a peer that has not confirmed the connection; doubled for each
// repetition.
inline constexpr duration first_attach = std::chrono::milliseconds(20);
// The same for a server that waits for the RTU of rdma_cm: a busy machine delivers one within
// 100 ms, and a lost one costs the client its retry count after 3.8 s.
inline constexpr duration first_attach_for_rtu = std::chrono::milliseconds(500);
inline constexpr std::size_t most_untold = 4096;  // device events that an adapter has not read yet

// Completions taken from a completion queue at once.
inline constexpr std::size_t completions_per_poll = 32;

// wr_id: kind 4 bits, generation of the queue pair 20, its index in the adapter's table 20, running
// number of the request 20. A completion of an old generation is dropped.
enum class work : std::uint8_t {
  none = 0,
  send = 1,
  receive = 2,
  probe = 3,  // tests an idle peer
  put = 4,
  control_send = 5,
  control_receive = 6,
  datagram_receive = 7,
  shared_receive = 8  // generation and index are those of the receive queue
};
static_assert(static_cast<unsigned>(work::shared_receive) < (1U << 4), "a kind has four bits");
[[nodiscard]] constexpr bool is_datagram(work w) noexcept {
  return w == work::control_receive || w == work::datagram_receive;
}
// True if the id belongs to a queue pair, not to the adapter or a receive queue.
[[nodiscard]] constexpr bool is_of_pair(work w) noexcept {
  return w <= work::put || w == work::datagram_receive;
}
[[nodiscard]] constexpr bool is_receive(work w) noexcept {
  return w == work::receive || w == work::shared_receive || is_datagram(w);
}
inline constexpr std::uint32_t twenty_bits = (1U << 20) - 1;
static_assert(most_pairs <= twenty_bits + 1);
static_assert(most_depth * 2 <= twenty_bits + 1 && most_puts < most_depth,
              "a running number names one request in flight");
static_assert(control_depth <= most_depth && completions_per_poll <= post_list_length);
static_assert(most_gid_index <= UINT8_MAX, "a path names it by one byte");

struct work_id {
  work what = work::none;
  std::uint32_t generation = 0;
  std::uint32_t place = 0;
  std::uint32_t number = 0;
};
[[nodiscard]] constexpr std::uint64_t pack(const work_id& w) noexcept {
  return (std::uint64_t{static_cast<std::uint8_t>(w.what)} << 60) |
         (std::uint64_t{w.generation & twenty_bits} << 40) |
         (std::uint64_t{w.place & twenty_bits} << 20) | (w.number & twenty_bits);
}
[[nodiscard]] constexpr work_id unpack(std::uint64_t id) noexcept {
  return {.what = static_cast<work>(id >> 60),
          .generation = static_cast<std::uint32_t>(id >> 40) & twenty_bits,
          .place = static_cast<std::uint32_t>(id >> 20) & twenty_bits,
          .number = static_cast<std::uint32_t>(id) & twenty_bits};
}
static_assert(unpack(pack({work::shared_receive, 1, 2, 3})).what == work::shared_receive);
static_assert(unpack(pack({work::send, twenty_bits, 2, 3})).generation == twenty_bits);
static_assert(unpack(pack({work::send, 1, twenty_bits, 3})).place == twenty_bits);
static_assert(unpack(pack({work::send, 1, 2, twenty_bits})).number == twenty_bits);
static_assert(pack({work::none, 0, 0, 0}) == 0, "the low bits are the number");

}  // namespace cordma::transport::verbs
