// Requests and their responses, as headers of active messages with a reserved id. Little-endian,
// offsets in bytes. Pure.
#pragma once

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cordma::protocol {

inline constexpr std::uint8_t request_version = 1;
// Ids of active messages from here on are reserved for the library.
inline constexpr std::uint16_t first_reserved_id = 0xFF00;
inline constexpr std::uint16_t request_id_of_messages = first_reserved_id;

enum class request_kind : std::uint8_t {
  hello = 1,    // the first of each side; `given` is the number of requests it accepts at once
  request = 2,  // the message's data is the request
  response =
      3,       // the response to the request of that id; with data unless it was written to `room`
  cancel = 4,  // the caller no longer needs the response; it is still sent, once
  given = 5,   // carries only the count
};
inline constexpr request_kind last_request_kind = request_kind::given;

// Flags of a request.
namespace request_flag {
inline constexpr std::uint8_t one_way = 1;  // no response
inline constexpr std::uint8_t receipt =
    2;  // of one_way: an empty response once its handler has ended
inline constexpr std::uint8_t writable = 4;  // `room` may be written to
}  // namespace request_flag
// Flags of a response.
namespace response_flag {
inline constexpr std::uint8_t written = 1;  // the data is in the room
}  // namespace response_flag

enum class request_outcome : std::uint8_t {
  ok = 0,
  truncated = 1,   // `bytes` did not fit the room
  no_handler = 2,  // no handler for that method
  failed = 3,      // its handler failed
  unanswered = 4,  // its handler gave no response
  canceled = 5,    // as requested
  timed_out = 6,   // its deadline passed at the server
  redirected = 7,  // to be sent to another server: `address`
};
inline constexpr request_outcome last_outcome = request_outcome::redirected;

// ---- all kinds ----
// offset 0  u8  version
//        1  u8  kind
//        2  u8  flags
//        3  u8  outcome; of a response
//        4  u16 given: total of requests that the peer may have sent (credit_window.hpp)
//        6  u16 method; of a request
//        8  u64 id, chosen by the caller; of a request, response or cancel
// ---- request, behind these fields ----
//       16  u64 microseconds until the deadline of the caller; 0: none
//       24  u64 capacity of the room for the response, in bytes
//       32  u64 address of the room, and
//       40  u64 its rkey, if it is writable; else zero
// ---- response, behind these fields ----
//       16  u64 bytes of the response
//       24  the address as text, to the end: only if it is redirected
inline constexpr std::size_t request_head_bytes = 16;
inline constexpr std::size_t request_bytes = 48;
inline constexpr std::size_t response_bytes = 24;
inline constexpr std::size_t longest_redirect = 128;
inline constexpr std::size_t longest_response = response_bytes + longest_redirect;
static_assert(longest_response <= 256, "headers of active messages are no longer");

struct request_header {
  request_kind kind = request_kind::given;
  std::uint8_t flags = 0;
  request_outcome outcome = request_outcome::ok;
  std::uint16_t given = 0;
  std::uint16_t method = 0;
  std::uint64_t id = 0;
  std::uint64_t microseconds_left = 0;
  std::uint64_t room_bytes = 0;
  std::uint64_t room_addr = 0;
  std::uint64_t room_rkey = 0;
  std::uint64_t bytes = 0;
  std::string_view address = {};  // decoded: points into the decoded header
};

[[nodiscard]] std::size_t bytes_of(const request_header& h) noexcept;
// REQUIRES out.size() >= bytes_of(h), and h.address.size() <= longest_redirect.
void encode(const request_header& h, std::span<std::byte> out) noexcept;
// unsupported_version: naming both versions. connection_aborted: another length than its kind has,
// an unknown kind, flag or outcome, fields of another kind, memory that wraps.
[[nodiscard]] result<request_header> decode_request(std::span<const std::byte> header);

// ---- redirect: the private data with which a connection is rejected ----
// offset 0  4 bytes "cRdr"
//        4  u8 version
//        5  u8 bytes of the address
//        6  the address as text; later bytes are ignored
inline constexpr std::size_t redirect_head_bytes = 6;
inline constexpr std::size_t longest_redirect_data = redirect_head_bytes + longest_redirect;
// REQUIRES out.size() >= redirect_head_bytes + address.size(), which is at most longest_redirect.
void encode_redirect(std::string_view address, std::span<std::byte> out) noexcept;
// Empty if it is no redirect.
[[nodiscard]] std::string_view redirect_of(std::span<const std::byte> data) noexcept;

}  // namespace cordma::protocol
