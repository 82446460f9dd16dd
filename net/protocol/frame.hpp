// The frames of a connection between two sides: every message of the transport is one frame, a head
// of 16 bytes and a body. Little-endian, offsets in bytes. Pure.
#pragma once

#include <cordma/net/protocol/rails.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cordma::protocol {

inline constexpr std::uint8_t frame_version = 3;

// Kinds up to am_ready take a credit; the others have separate receives, because they must arrive
// even if unexpected messages hold every credit.
enum class frame_kind : std::uint8_t {
  tag_eager = 1,  // word: tag; body: the message
  tag_ready = 2,  // word: tag; body: an offer
  am_eager = 3,   // word: see am_word; body: the header, then the data
  am_ready = 4,   // word: see am_word; body: an offer, then the header
  hello = 5,      // the first frame of each side; word: frame_version; body: parameters
  given = 6,      // carries only the count in the head
  done = 7,       // to the side that made the offer; word: see done_word; no body
  want = 8,  // to the side that made an unreadable offer; word: number of the offer; body: see want
  part = 9,  // word: number of the offer; body: the next bytes of it
  // all wanted bytes were written to their destination; word: number of the offer; no body
  wrote = 10,
  // One more connection for reads: its descriptor, see `hello`; word: its number, from 1 on. No
  // body: this side cannot create it. Sent by both sides, once for each connection.
  rail = 11,
};
inline constexpr frame_kind last_kind = frame_kind::rail;
[[nodiscard]] constexpr bool takes_credit(frame_kind k) noexcept {
  return k <= frame_kind::am_ready;
}

// ---- head ----
// offset 0  u8  kind
//        1  u8  zero
//        2  u16 total of receives granted (see credit_window.hpp)
//        4  u32 bytes of the body
//        8  u64 word
inline constexpr std::size_t head_bytes = 16;
static_assert(takes_credit(frame_kind::am_ready) && !takes_credit(frame_kind::hello));
struct frame_head {
  frame_kind kind = frame_kind::given;
  std::uint16_t given = 0;
  std::uint32_t body = 0;
  std::uint64_t word = 0;
};
// The two words of the head, in registers: a frame is copied in words, and smaller stores would
// have to reach memory first.
[[nodiscard]] constexpr std::uint64_t first_word(const frame_head& h) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(h.kind)} | std::uint64_t{h.given} << 16 |
         std::uint64_t{h.body} << 32;
}
[[nodiscard]] constexpr frame_head head_of(std::uint64_t first, std::uint64_t second) noexcept {
  return {.kind = static_cast<frame_kind>(first),
          .given = static_cast<std::uint16_t>(first >> 16),
          .body = static_cast<std::uint32_t>(first >> 32),
          .word = second};
}
static_assert(first_word(head_of(0x0123'4567'89AB'0001, 0)) == 0x0123'4567'89AB'0001);
void encode(const frame_head& h, std::span<std::byte, head_bytes> out) noexcept;
// connection_aborted: too short, an unknown kind, or a body of another length than in the head. `h`
// is then unspecified.
[[nodiscard]] result<void> decode(std::span<const std::byte> frame, frame_head& h);

// ---- am_word: id of the handler : 16, bytes of the header : 16, zero : 32, from the low bit on ----
struct am_word {
  std::uint16_t id = 0;
  std::uint16_t header = 0;
};
[[nodiscard]] constexpr std::uint64_t to_word(am_word w) noexcept {
  return w.id | std::uint64_t{w.header} << 16;
}
[[nodiscard]] constexpr am_word am_of(std::uint64_t word) noexcept {
  return {static_cast<std::uint16_t>(word), static_cast<std::uint16_t>(word >> 16)};
}
static_assert(am_of(to_word(am_word{.id = 0xFFFF, .header = 256})).id == 0xFFFF);
static_assert(am_of(to_word(am_word{.id = 0xFFFF, .header = 256})).header == 256);

// ---- done_word: number of the offer : 32, outcome : 8, zero : 24, from the low bit on ----
enum class offer_outcome : std::uint8_t {
  taken = 0,      // all of it was read
  truncated = 1,  // the receive was shorter: the bytes that fit were read
  refused = 2,    // no receive matches it
  failed = 3,     // it could not be read
};
struct done_word {
  std::uint32_t offer = 0;
  offer_outcome outcome = offer_outcome::taken;
};
[[nodiscard]] constexpr std::uint64_t to_word(done_word w) noexcept {
  return w.offer | std::uint64_t{static_cast<std::uint8_t>(w.outcome)} << 32;
}
[[nodiscard]] result<done_word> done_of(std::uint64_t word);

// ---- offer: memory of the sender that the receiver reads after a match ----
// offset 0  u64 total bytes
//        8  u32 number, chosen by the sender
//       12  u16 parts; none: it cannot be read, and is sent on a `want`
//       14  u16 keys of each part: one per device of the sender, in their order, for reading it
//       16  per part: u64 address, u64 bytes, and for each key u64 rkey
inline constexpr std::size_t most_parts = 8;
inline constexpr std::size_t most_devices = 8;
inline constexpr std::size_t offer_head_bytes = 16;
inline constexpr std::size_t part_bytes = 16;  // without its keys
inline constexpr std::size_t key_bytes = 8;
struct offer_part {
  std::uint64_t addr = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, most_devices> rkeys{};
};
struct offer {
  std::uint64_t total = 0;
  std::uint32_t number = 0;
  std::uint16_t parts = 0;
  std::uint16_t keys = 1;
  std::array<offer_part, most_parts> part{};
};
[[nodiscard]] constexpr std::size_t bytes_of_offer(std::size_t parts, std::size_t keys) noexcept {
  return offer_head_bytes + parts * (part_bytes + keys * key_bytes);
}
[[nodiscard]] constexpr std::size_t bytes_of(const offer& o) noexcept {
  return bytes_of_offer(o.parts, o.keys);
}
inline constexpr std::size_t longest_offer = bytes_of_offer(most_parts, most_devices);
// REQUIRES out.size() >= bytes_of(o), o.parts <= most_parts, and o.keys from 1 to most_devices.
void encode(const offer& o, std::span<std::byte> out) noexcept;
// Uses bytes_of() of the body; more may follow. connection_aborted: cut off, no part or too many,
// no key or too many, a part that is empty or wraps, parts that do not add up.
[[nodiscard]] result<offer> decode_offer(std::span<const std::byte> body);

// ---- want: the part of an offer to send ----
// offset 0  u64 bytes, from the start of the message; includes earlier wants
//        8  u64 address, 16 u64 rkey: memory of the receiver to write them to. No rkey: they are
//           sent as `part` frames. The same in all wants of one offer
inline constexpr std::size_t want_bytes = 24;
struct want {
  std::uint64_t bytes = 0;
  std::uint64_t addr = 0;
  std::uint64_t rkey = 0;
};
void encode(const want& w, std::span<std::byte, want_bytes> out) noexcept;
// connection_aborted: cut off, or memory that wraps.
[[nodiscard]] result<want> decode_want(std::span<const std::byte> body);

// ---- hello: the parameters of each side, sent first ----
// body: per parameter u16 name, u16 zero, u32 value; unknown names are ignored.
enum class parameter : std::uint16_t {
  eager_bytes = 1,  // longest frame that the sender of this hello accepts
  credits = 2,      // receives posted for frames that take a credit
  offers = 3,       // offers that may be open towards it at once
  // connections by which it wants to receive rendezvous messages; 0: one per common device
  rails = 4,
  devices = 5,  // of this transport, for rails
};
struct hello {
  std::uint32_t eager_bytes = 0;
  std::uint32_t credits = 0;
  std::uint32_t offers = 0;
  std::uint32_t rails = 0;
  std::uint32_t devices = 0;
};
inline constexpr std::size_t parameter_bytes = 8;
inline constexpr std::size_t hello_bytes = 5 * parameter_bytes;
// The result of both hellos for a connection: rail 0 is the connection itself, rail n goes from
// device n % devices to the peer's device of the same number.
struct agreed_rails {
  std::uint32_t rails = 1;
  std::uint32_t devices = 1;
};
[[nodiscard]] agreed_rails agree(const hello& mine, const hello& theirs) noexcept;
inline constexpr std::size_t longest_descriptor = 256;  // bytes, of a `rail` frame
inline constexpr std::uint32_t least_eager_bytes = 512;
inline constexpr std::uint32_t most_eager_bytes = 1U << 20;
inline constexpr std::uint32_t most_offers = 1024;
static_assert(least_eager_bytes >= head_bytes + bytes_of_offer(most_parts, 1),
              "an offer of any number of parts fits");
static_assert(least_eager_bytes >= head_bytes + longest_descriptor);
void encode(const hello& h, std::span<std::byte, hello_bytes> out) noexcept;
// unsupported_version: naming both versions. connection_aborted: a parameter that is missing,
// repeated, or outside its bounds, by name.
[[nodiscard]] result<hello> decode_hello(const frame_head& head, std::span<const std::byte> body);

}  // namespace cordma::protocol
