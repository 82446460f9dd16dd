// Authentication by a token that both sides know and neither sends.
#pragma once

#include "wire.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace copy {

// Returns random bytes from the kernel. Throws std::system_error.
[[nodiscard]] nonce random_nonce();

// The side that proves its knowledge of the token.
enum class prover : std::uint8_t { client = 1, server = 2 };

// Returns HMAC-SHA-256 with the token as its key (RFC 2104) of: "cordma-cp", the prover (one byte),
// the client's nonce, the server's nonce, and the hello as it was sent. An observer cannot reuse a
// proof for another request. Over TLS it covers "cordma-cp over TLS", the same fields, and the
// channel's exported key. This excludes a man in the middle with a TLS connection to each end and
// any certificate.
[[nodiscard]] nonce proof_of(std::string_view token, prover who, const nonce& client,
                             const nonce& server, std::span<const std::byte> hello,
                             const std::optional<nonce>& channel);
inline constexpr const char* label_of_proofs = "EXPORTER-cordma-cp";

// Returns the proof that a lane over TLS belongs to a session: HMAC-SHA-256 with the exported key
// of the session's first lane, of "cordma-cp lane", the prover, the lane's number (one byte), and
// the exported key of this lane. It is valid for this lane only.
[[nodiscard]] nonce lane_proof_of(const nonce& key, prover who, std::uint32_t number,
                                  const nonce& channel);
inline constexpr const char* label_of_lanes = "EXPORTER-cordma-cp-lanes";

// Compares in constant time.
[[nodiscard]] bool equal(const nonce& a, const nonce& b) noexcept;

}  // namespace copy
