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
  // Reads of up to 256 bytes are complete.
  if (::getrandom(n.data(), n.size(), 0) != static_cast<ssize_t>(n.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return n;
}

namespace {

class keyed_sum {
 public:
  keyed_sum& add(std::span<const std::byte> bytes) {
    told_.insert(told_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  keyed_sum& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  keyed_sum& add(std::uint8_t byte) {
    told_.push_back(static_cast<std::byte>(byte));
    return *this;
  }
  [[nodiscard]] nonce with(std::string_view key) const {
    nonce sum{};
    unsigned length = 0;
    const unsigned char* const made =
        ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(told_.data()), told_.size(),
               reinterpret_cast<unsigned char*>(sum.data()), &length);
    if (made == nullptr || length != sum.size()) throw std::runtime_error("libcrypto: no HMAC");
    return sum;
  }

 private:
  std::vector<std::byte> told_;
};

}  // namespace

nonce proof_of(std::string_view token, prover who, const nonce& client, const nonce& server,
               std::span<const std::byte> hello, const std::optional<nonce>& channel) {
  keyed_sum sum;
  sum.add(std::string_view(channel ? "cordma-cp over TLS" : "cordma-cp"));
  sum.add(static_cast<std::uint8_t>(who)).add(client).add(server).add(hello);
  if (channel) sum.add(*channel);
  return sum.with(token);
}

nonce lane_proof_of(const nonce& key, prover who, std::uint32_t number, const nonce& channel) {
  keyed_sum sum;
  sum.add(std::string_view("cordma-cp lane")).add(static_cast<std::uint8_t>(who));
  sum.add(static_cast<std::uint8_t>(number)).add(channel);
  return sum.with({reinterpret_cast<const char*>(key.data()), key.size()});
}

bool equal(const nonce& a, const nonce& b) noexcept {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace copy
