#include "digest.hpp"

#include <openssl/evp.h>
#include <array>
#include <new>

namespace kv {
namespace {

std::string digest_of(std::string_view text, const EVP_MD* how) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &bytes, how, nullptr) != 1) {
    throw std::bad_alloc();
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < bytes; ++i) {
    out += digits[digest[i] >> 4];
    out += digits[digest[i] & 15];
  }
  return out;
}

}  // namespace

std::string sha1(std::string_view text) { return digest_of(text, EVP_sha1()); }
std::string sha256(std::string_view text) { return digest_of(text, EVP_sha256()); }

}  // namespace kv
