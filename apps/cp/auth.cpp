#include "auth.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <sys/random.h>

namespace copy {

nonce random_nonce() {
  nonce n{};
  // Up to 256 bytes come whole.
  if (::getrandom(n.data(), n.size(), 0) != static_cast<ssize_t>(n.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return n;
}

nonce proof_of(std::string_view token, prover who, const nonce& client, const nonce& server,
               std::span<const std::byte> hello) {
  constexpr std::string_view label = "cordma-cp";
  const auto bytes = std::as_bytes(std::span(label));
  std::vector<std::byte> told(bytes.begin(), bytes.end());
  told.push_back(static_cast<std::byte>(who));
  told.insert(told.end(), client.begin(), client.end());
  told.insert(told.end(), server.begin(), server.end());
  told.insert(told.end(), hello.begin(), hello.end());
  nonce proof{};
  unsigned length = 0;
  const unsigned char* const made =
      ::HMAC(::EVP_sha256(), token.data(), static_cast<int>(token.size()),
             reinterpret_cast<const unsigned char*>(told.data()), told.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr || length != proof.size()) throw std::runtime_error("libcrypto: no HMAC");
  return proof;
}

bool equal(const nonce& a, const nonce& b) noexcept {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace copy
