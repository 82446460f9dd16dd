// Who may: a token that both sides know and neither sends.
#pragma once

#include "wire.hpp"

#include <span>
#include <string_view>

namespace copy {

// From the kernel's generator. Throws std::system_error.
[[nodiscard]] nonce random_nonce();

// Which side proves that it knows the token.
enum class prover : std::uint8_t { client = 1, server = 2 };

// HMAC-SHA-256 with the token as its key (RFC 2104) of: "cordma-cp", the prover (one byte), the client's nonce, the
// server's nonce, and the hello as it was sent: who was listened to can use it for no other request.
[[nodiscard]] nonce proof_of(std::string_view token, prover who, const nonce& client,
                             const nonce& server, std::span<const std::byte> hello);
// In a time that does not tell where they differ.
[[nodiscard]] bool equal(const nonce& a, const nonce& b) noexcept;

}  // namespace copy
