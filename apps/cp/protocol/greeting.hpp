// What the client's and the server's half of shaking hands have in common.
#pragma once

#include "lane.hpp"
#include "wire.hpp"

#include <cordma/cordma.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

namespace copy {

inline constexpr auto patience = std::chrono::seconds(30);  // for the other side's next word
// Where the network loses what begins a connection, rdma_cm sends it again after four seconds.
inline constexpr auto time_to_connect = std::chrono::seconds(20);

// Private data of a connection, which anybody on the way can read: "ccp2", 1 where TLS begins at once or 0, the
// session's id (zeros: a new one), the lane's number.
inline constexpr std::size_t greeting_bytes = 4 + 1 + nonce_bytes + 1;
struct greeting {
  bool tls = false;
  nonce session{};
  std::uint32_t number = 0;
};
[[nodiscard]] std::array<std::byte, greeting_bytes> encode(const greeting& g);
// Throws cordma::error where it is none.
[[nodiscard]] greeting decode_greeting(std::span<const std::byte> data);

// Why a connection is not accepted, as private data of the rejection: "ccp2" and one byte.
enum class unfit : std::uint8_t { needs_tls = 1, has_no_tls = 2, tls_only_on_tcp = 3 };
[[nodiscard]] std::array<std::byte, 5> encode(unfit why);
// For the people of the client, where the server was at `address`; empty: it is no such thing.
[[nodiscard]] std::string describe_rejection(std::span<const std::byte> data,
                                             const std::string& address);

// The endpoint is new.
[[nodiscard]] cordma::task<std::unique_ptr<lane>> open_lane(cordma::Context context,
                                                            cordma::Endpoint made);
// Throws connection_reset where the stream ends, timed_out.
[[nodiscard]] cordma::task<void> hear_in_time(lane& l, std::chrono::seconds time = patience);
// What was heard, which must be of that kind. Throws what a refusal says.
[[nodiscard]] frame_reader expect(lane& l, frame_kind kind);
[[nodiscard]] nonce read_nonce(frame_reader& in);
// What binds proofs to the TLS connection that they are given on; none without TLS.
[[nodiscard]] std::optional<nonce> channel_of(const lane& l);

}  // namespace copy
