// Who may: a token that both sides know and neither sends.
#pragma once

#include "wire.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace copy {

// From the kernel's generator. Throws std::system_error.
[[nodiscard]] nonce random_nonce();

// Which side proves that it knows the token.
enum class prover : std::uint8_t { client = 1, server = 2 };

// HMAC-SHA-256 with the token as its key (RFC 2104) of: "cordma-cp", the prover (one byte), the client's nonce, the
// server's nonce, and the hello as it was sent: who was listened to can use it for no other request. Over TLS of
// "cordma-cp over TLS", the same, and what the channel exports for it: nobody can stand between the two ends with a TLS
// connection to each, whatever certificate he has.
[[nodiscard]] nonce proof_of(std::string_view token, prover who, const nonce& client,
                             const nonce& server, std::span<const std::byte> hello,
                             const std::optional<nonce>& channel);
inline constexpr const char* label_of_proofs = "EXPORTER-cordma-cp";

// That a lane over TLS is of a session, for it alone: HMAC-SHA-256 with what the session's first lane exports for it, of
// "cordma-cp lane", the prover, the lane's number (one byte), and what that lane exports for proofs.
[[nodiscard]] nonce lane_proof_of(const nonce& key, prover who, std::uint32_t number,
                                  const nonce& channel);
inline constexpr const char* label_of_lanes = "EXPORTER-cordma-cp-lanes";

// In a time that does not tell where they differ.
[[nodiscard]] bool equal(const nonce& a, const nonce& b) noexcept;

}  // namespace copy
