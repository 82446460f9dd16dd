// The wire format of the tcp transport after the handshake, without I/O. Every frame is a header,
// an extension if its type has one, and `length` bytes of payload if its type has a payload.
// Integers are little-endian; the immediate is big-endian, as everywhere in RDMA.
#pragma once

#include <array>
#include <bit>
#include <cordma/net/transport/little_endian.hpp>
#include <cordma/net/transport/types.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace cordma::transport::tcp {

inline constexpr std::uint16_t wire_version = 4;
inline constexpr std::uint32_t most_message = 1U << 30;  // bytes of payload in one frame
inline constexpr std::uint32_t most_put = 8U << 10;      // bytes of payload in a put
inline constexpr std::uint32_t most_depth = 4096;        // requests or receives outstanding
inline constexpr std::uint32_t most_reads = 128;         // reads and atomics outstanding
// Counters are transferred modulo 65536 and compared by their distance.
static_assert(most_depth <= (1U << 15));
static_assert(most_reads < most_depth);

enum class frame_type : std::uint8_t {
  // Requests, numbered from 0 in the order of sending and carried out in that order.
  send = 1,          // payload
  send_imm = 2,      // payload
  write = 3,         // target; payload
  write_imm = 4,     // target; payload
  read = 5,          // target; requests `length` bytes, no payload
  fetch_add = 6,     // target, operands; length 8, no payload
  compare_swap = 7,  // target, operands; length 8, no payload
  flush = 8,         // requests the acknowledgement of everything before
  // Answers, in the order of the requests.
  read_response = 9,     // payload
  atomic_response = 10,  // value
  nak = 11,              // `request` failed with `status`: the last frame of its sender
  // Control.
  update = 12,        // acknowledgement and credit only
  probe = 13,         // requests a probe_answer: does the peer have a receive?
  probe_answer = 14,  // the answer is in `credit`
  goodbye = 15,       // no request follows from this side
  // One more request; there was no free number among those above.
  send_invalidate = 16,  // key; payload
  // A side with shared receives promises none in advance.
  not_ready = 17,  // the request behind `ack` found no receive: it and later ones are dropped
  resumed = 18,    // received not_ready: sends them again when `credit` grants the first receive
  // A message of which its sender keeps no copy, to a side that shares its receives: no request,
  // without a number and an acknowledgement. A put never follows an unacknowledged message, so none
  // is ever dropped.
  put = 19,  // payload
};

// Laid out as on the wire, except for the immediate and for the operand of a value_header.
struct frame {
  frame_type type = frame_type::update;
  wc_status status = wc_status::success;  // nak only
  std::uint16_t ack = 0;                  // requests of the other side carried out, modulo 65536
  std::uint16_t credit = 0;               // receives posted by this side so far, modulo 65536
  std::uint16_t request = 0;              // answers: the request's number, modulo 65536
  std::uint32_t length = 0;               // bytes
  std::uint32_t imm = 0;                  // host order here
  std::uint64_t remote_addr = 0;
  std::uint64_t rkey = 0;
  std::uint64_t operand = 0;  // atomic_response: the old value; send_invalidate: the key
  std::uint64_t swap = 0;
};

//  0 type u8, 1 status u8, 2 ack u16, 4 credit u16, 6 request u16, 8 length u32, 12 imm u32 (BE)
// 16 remote_addr u64, 24 rkey u64                       target
// 32 operand u64, 40 swap u64                           operands
// 16 value u64                                          value, of an atomic_response; key
namespace frame_at {
inline constexpr std::size_t type = 0, status = 1, ack = 2, credit = 4, request = 6, length = 8;
inline constexpr std::size_t imm = 12, remote_addr = 16, rkey = 24, operand = 32, swap = 40;
inline constexpr std::size_t value = 16;
}  // namespace frame_at
inline constexpr std::size_t plain_header = 16;
inline constexpr std::size_t value_header = 24;
inline constexpr std::size_t target_header = 32;
inline constexpr std::size_t atomic_header = 48;
inline constexpr std::size_t most_header = atomic_header;
static_assert(frame_at::type == 0 && frame_at::status == frame_at::type + 1);
static_assert(frame_at::ack == frame_at::status + 1);
static_assert(frame_at::credit == frame_at::ack + sizeof(std::uint16_t));
static_assert(frame_at::request == frame_at::credit + sizeof(std::uint16_t));
static_assert(frame_at::length == frame_at::request + sizeof(std::uint16_t));
static_assert(frame_at::imm == frame_at::length + sizeof(std::uint32_t));
static_assert(frame_at::imm + sizeof(std::uint32_t) == plain_header);
static_assert(frame_at::value == plain_header);
static_assert(frame_at::value + sizeof(std::uint64_t) == value_header);
static_assert(frame_at::remote_addr == plain_header);
static_assert(frame_at::rkey == frame_at::remote_addr + sizeof(std::uint64_t));
static_assert(frame_at::swap == frame_at::operand + sizeof(std::uint64_t));
static_assert(frame_at::rkey + sizeof(std::uint64_t) == target_header);
static_assert(frame_at::operand == target_header);
static_assert(frame_at::swap + sizeof(std::uint64_t) == atomic_header);

static_assert(offsetof(frame, type) == frame_at::type && offsetof(frame, ack) == frame_at::ack);
static_assert(offsetof(frame, status) == frame_at::status);
static_assert(offsetof(frame, credit) == frame_at::credit);
static_assert(offsetof(frame, request) == frame_at::request);
static_assert(offsetof(frame, length) == frame_at::length && offsetof(frame, imm) == frame_at::imm);
static_assert(offsetof(frame, remote_addr) == frame_at::remote_addr);
static_assert(offsetof(frame, rkey) == frame_at::rkey);
static_assert(offsetof(frame, operand) == frame_at::operand);
static_assert(offsetof(frame, swap) == frame_at::swap && sizeof(frame) == most_header);
static_assert(std::has_unique_object_representations_v<frame>);

using header_buffer = std::array<std::byte, most_header>;

// Header and extension, in bytes; 0 for a type that does not exist.
[[nodiscard]] constexpr std::size_t header_size(frame_type type) noexcept {
  switch (type) {
    case frame_type::send:
    case frame_type::send_imm:
    case frame_type::flush:
    case frame_type::read_response:
    case frame_type::nak:
    case frame_type::update:
    case frame_type::probe:
    case frame_type::probe_answer:
    case frame_type::goodbye:
    case frame_type::not_ready:
    case frame_type::resumed:
    case frame_type::put: return plain_header;
    case frame_type::write:
    case frame_type::write_imm:
    case frame_type::read: return target_header;
    case frame_type::fetch_add:
    case frame_type::compare_swap: return atomic_header;
    case frame_type::atomic_response:
    case frame_type::send_invalidate: return value_header;
  }
  return 0;
}
static_assert(header_size(static_cast<frame_type>(0)) == 0, "zeros are no frame");
static_assert(header_size(static_cast<frame_type>(20)) == 0, "no type follows the last one");
// True if `value` is one of these, by a test of one bit.
template <auto... Values, class Enum>
[[nodiscard]] constexpr bool is_any(Enum value) noexcept {
  constexpr std::uint32_t all = ((std::uint32_t{1} << static_cast<unsigned>(Values)) | ...);
  return ((all >> (static_cast<unsigned>(value) % 32)) & 1) != 0;
}
[[nodiscard]] constexpr bool has_payload(frame_type type) noexcept {
  using enum frame_type;
  return is_any<send, send_imm, write, write_imm, read_response, send_invalidate, put>(type);
}
[[nodiscard]] constexpr bool has_imm(frame_type type) noexcept {
  return type == frame_type::send_imm || type == frame_type::write_imm;
}
[[nodiscard]] constexpr bool is_atomic(frame_type type) noexcept {
  return type == frame_type::fetch_add || type == frame_type::compare_swap;
}
[[nodiscard]] constexpr bool is_request(frame_type type) noexcept {
  return type <= frame_type::flush || type == frame_type::send_invalidate;
}
[[nodiscard]] constexpr bool is_answer(frame_type type) noexcept {
  return type == frame_type::read_response || type == frame_type::atomic_response ||
         type == frame_type::nak;
}
static_assert(is_request(frame_type::send) && is_request(frame_type::flush));
static_assert(!is_request(frame_type::read_response) && !is_request(frame_type::nak));
static_assert(!is_request(frame_type::not_ready) && !is_request(frame_type::resumed));
static_assert(!is_request(frame_type::put) && !is_answer(frame_type::put));
// Requests are numbered as the operations are, except the last two. A window is bound on this side
// only; its flush makes the bind complete in order.
[[nodiscard]] constexpr frame_type to_frame_type(opcode op) noexcept {
  if (op == opcode::send_invalidate) return frame_type::send_invalidate;
  if (op == opcode::bind) return frame_type::flush;
  return static_cast<frame_type>(static_cast<std::uint8_t>(op) + 1);
}
static_assert(to_frame_type(opcode::send) == frame_type::send);
static_assert(to_frame_type(opcode::write_imm) == frame_type::write_imm);
static_assert(to_frame_type(opcode::compare_swap) == frame_type::compare_swap);
static_assert(to_frame_type(opcode::flush) == frame_type::flush);
static_assert(to_frame_type(opcode::send_imm) == frame_type::send_imm);
static_assert(to_frame_type(opcode::write) == frame_type::write);
static_assert(to_frame_type(opcode::read) == frame_type::read);
static_assert(to_frame_type(opcode::fetch_add) == frame_type::fetch_add);
static_assert(to_frame_type(opcode::send_invalidate) == frame_type::send_invalidate);

namespace detail {
[[nodiscard]] constexpr const char* fault(const frame& f) noexcept {
  const auto status = static_cast<std::uint8_t>(f.status);
  if (f.type == frame_type::nak) {
    if (status == 0 || status >= wc_status_count) return "a nak without a known status";
  } else if (status != 0) {
    return "a status where there is none";
  }
  if (!is_answer(f.type) && f.request != 0) return "a request number where there is none";
  if (!has_imm(f.type) && f.imm != 0) return "an immediate where there is none";
  if (is_atomic(f.type)) return f.length == 8 ? nullptr : "an atomic of other than 8 bytes";
  if (f.length > most_message) return "a length beyond the largest message";
  if (f.type == frame_type::put && f.length > most_put) return "a put beyond the largest one";
  const bool sized = has_payload(f.type) || f.type == frame_type::read;
  return sized || f.length == 0 ? nullptr : "a length where there is no payload";
}

// The rule of a valid header, checked with one comparison per part. A nak never satisfies it:
// fault() decides.
struct header_rule {
  std::uint64_t zero = 0;      // bits of its first eight bytes
  std::uint32_t zero_imm = 0;  // bits
  std::uint32_t least = 0;     // `length`, in bytes
  std::uint32_t more = 0;      // how far `length` may exceed `least`
  std::uint32_t size =
      UINT32_MAX;  // header and extension, in bytes: no input is long enough for an unknown type
};
inline constexpr std::size_t known_types = static_cast<std::size_t>(frame_type::put) + 1;
[[nodiscard]] constexpr header_rule rule_of(frame_type type) noexcept {
  constexpr std::uint64_t type_bits = 0xff, status_bits = 0xff00, request_bits = 0xffffULL << 48;
  const bool sized = has_payload(type) || type == frame_type::read;
  return {.zero = (type == frame_type::nak ? type_bits : status_bits) |
                  (is_answer(type) ? 0 : request_bits),
          .zero_imm = has_imm(type) ? 0 : UINT32_MAX,
          .least = is_atomic(type) ? 8U : 0U,
          .more = type == frame_type::put ? most_put
                  : sized                 ? most_message
                                          : 0,
          .size = static_cast<std::uint32_t>(header_size(type))};
}
// By type; the rule of 0 applies to all unknown types.
inline constexpr std::array<header_rule, known_types> rules = [] {
  std::array<header_rule, known_types> all{};
  for (std::size_t t = 1; t < known_types; ++t) all[t] = rule_of(static_cast<frame_type>(t));
  return all;
}();
// A header at the limits of its rule has no fault.
static_assert([] {
  for (std::size_t t = 1; t < known_types; ++t) {
    const auto type = static_cast<frame_type>(t);
    if (type == frame_type::nak) continue;
    if (fault({.type = type, .length = rules[t].least}) != nullptr) return false;
    if (fault({.type = type, .length = rules[t].least + rules[t].more}) != nullptr) return false;
  }
  return true;
}());
}  // namespace detail

// Returns the number of valid bytes; bytes behind them are written as well.
inline std::size_t encode(const frame& f, std::span<std::byte, most_header> to) noexcept {
  std::memcpy(to.data(), &f, sizeof f);
  store(&to[frame_at::imm], __builtin_bswap32(f.imm));
  const std::size_t size = detail::rules[static_cast<std::size_t>(f.type)].size;
  if (size == value_header) store(&to[frame_at::value], f.operand);
  return size;
}

struct decoded {
  enum class outcome : std::uint8_t { whole, partial, bad };
  outcome what = outcome::partial;
  std::size_t size = plain_header;  // whole: bytes used; partial: bytes needed to continue
  const char* why = "";             // bad: the fault
  frame value;
};

namespace detail {
// For an incomplete header, or one of an unknown type.
[[nodiscard, gnu::noinline]] inline decoded undecoded(std::byte type) noexcept {
  decoded d;
  d.value.type = static_cast<frame_type>(type);
  d.size = header_size(d.value.type);
  if (d.size != 0) return d;
  d.what = decoded::outcome::bad;
  d.why = "an unknown frame type";
  return d;
}
[[gnu::noinline]] inline void judge(decoded& d) noexcept {
  const char* const why = fault(d.value);
  if (why == nullptr) return;
  d.what = decoded::outcome::bad;
  d.why = why;
}
}  // namespace detail

// Decodes the beginning of `bytes`; never reads beyond. The payload is not part of it.
[[nodiscard, gnu::always_inline]] inline decoded decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return {};
  const std::byte* const p = bytes.data();
  const auto type = static_cast<std::size_t>(*p);
  const detail::header_rule& rule = detail::rules[type < detail::known_types ? type : 0];
  if (bytes.size() < rule.size) [[unlikely]]
    return detail::undecoded(*p);
  // As a frame is stored in memory; parts that the header lacks are 0.
  std::array<std::uint64_t, most_header / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), p, plain_header);
  const std::uint64_t too_much = (words[0] & rule.zero) | ((words[1] >> 32) & rule.zero_imm);
  words[1] = (words[1] & UINT32_MAX) |
             std::uint64_t{__builtin_bswap32(static_cast<std::uint32_t>(words[1] >> 32))} << 32;
  if (rule.size == value_header) {
    words[frame_at::operand / 8] = load<std::uint64_t>(p + frame_at::value);
  } else if (rule.size >= target_header) {
    std::memcpy(&words[plain_header / 8], p + plain_header, target_header - plain_header);
    if (rule.size == atomic_header) {
      std::memcpy(&words[target_header / 8], p + target_header, atomic_header - target_header);
    }
  }
  decoded d{.what = decoded::outcome::whole,
            .size = rule.size,
            .why = "",
            .value = std::bit_cast<frame>(words)};
  if (too_much != 0 || d.value.length - rule.least > rule.more) [[unlikely]]
    detail::judge(d);
  return d;
}

}  // namespace cordma::transport::tcp
