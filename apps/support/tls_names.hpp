// Readable texts for certificates and for OpenSSL's errors.
#pragma once

#include <ctime>
#include <string>

#include <openssl/err.h>
#include <openssl/x509.h>

namespace support {

// Always printable, for any content.
[[nodiscard]] inline std::string text_of(const X509_NAME* name) {
  char text[256];
  return ::X509_NAME_oneline(name, text, sizeof text) != nullptr ? text : "?";
}

[[nodiscard]] inline std::string text_of(const ASN1_TIME* when) {
  std::tm t{};
  char text[64];
  if (::ASN1_TIME_to_tm(when, &t) != 1) return "?";
  return std::strftime(text, sizeof text, "%F %T UTC", &t) != 0 ? text : "?";
}

[[nodiscard]] inline std::string text_of(unsigned long error) {
  const char* const reason = ::ERR_reason_error_string(error);
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace support
