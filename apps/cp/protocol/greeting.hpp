// Common parts of the client's and the server's half of the handshake.
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

inline constexpr auto patience = std::chrono::seconds(30);  // limit for the peer's next frame
// rdma_cm retransmits a lost connection request after four seconds.
inline constexpr auto time_to_connect = std::chrono::seconds(20);

// Private data of a connection, which is not encrypted: "ccp2"; 1 if TLS begins at once, else 0;
// the session's id (zeros: a new session); the lane's number.
inline constexpr std::size_t greeting_bytes = 4 + 1 + nonce_bytes + 1;
struct greeting {
  bool tls = false;
  nonce session{};
  std::uint32_t number = 0;
};
[[nodiscard]] std::array<std::byte, greeting_bytes> encode(const greeting& g);
// Throws cordma::error if `data` is not a greeting.
[[nodiscard]] greeting decode_greeting(std::span<const std::byte> data);

// The reason why a connection is not accepted, as private data of the rejection: "ccp2" and one
// byte.
enum class unfit : std::uint8_t { needs_tls = 1, has_no_tls = 2, tls_only_on_tcp = 3 };
[[nodiscard]] std::array<std::byte, 5> encode(unfit why);
// Returns a text for the client's user; `address` is that of the server. Empty if `data` is not
// such a rejection.
[[nodiscard]] std::string describe_rejection(std::span<const std::byte> data,
                                             const std::string& address);

// REQUIRES: the endpoint is new.
[[nodiscard]] cordma::task<std::unique_ptr<lane>> open_lane(cordma::Context context,
                                                            cordma::Endpoint made);
// Waits for the next frame. Throws connection_reset if the stream ends; timed_out.
[[nodiscard]] cordma::task<void> hear_in_time(lane& l, std::chrono::seconds time = patience);
// Returns the received frame, which must be of `kind`. Throws the error of a refusal.
[[nodiscard]] frame_reader expect(lane& l, frame_kind kind);
[[nodiscard]] nonce read_nonce(frame_reader& in);
// Returns the key that binds proofs to the TLS connection; none without TLS.
[[nodiscard]] std::optional<nonce> channel_of(const lane& l);

}  // namespace copy
