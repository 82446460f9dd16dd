#include "tls_context.hpp"

#include "tls_names.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace support {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::invalid_argument(file + ": " + what);
}

// OpenSSL has no clear error message for a missing file.
void look_at(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat s{};
  if (fd < 0 || ::fstat(fd, &s) != 0) fail(file, std::strerror(errno));
  ::close(fd);
  if (!S_ISREG(s.st_mode)) fail(file, "is no file");
}

void look_at_rights(const std::string& file) {
  struct stat s{};
  constexpr mode_t of_others = 07;
  if (::stat(file.c_str(), &s) == 0 && (s.st_mode & of_others) != 0) {
    fail(file, "is a private key, and others may read it: chmod o= it");
  }
}

void trust(SSL_CTX* c, const std::string& authorities) {
  look_at(authorities);
  if (::SSL_CTX_load_verify_file(c, authorities.c_str()) != 1) {
    fail(authorities, "has no certificate in PEM (" + text_of(::ERR_peek_last_error()) + ")");
  }
}

// Prevents a prompt on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

SSL_CTX* make(const SSL_METHOD* method) {
  SSL_CTX* const c = ::SSL_CTX_new(method);
  if (c == nullptr) throw std::runtime_error("libssl: " + text_of(::ERR_get_error()));
  return c;
}

void set_up_for_transfers(SSL_CTX* c) {
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  // As secure as 256 bits, and a fifth faster.
  ::SSL_CTX_set_ciphersuites(
      c, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(c, 0);
  ::SSL_CTX_set_default_passwd_cb(c, no_passphrase);
}

void set_up_for_many_clients(SSL_CTX* c) {
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_options(
      c, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  constexpr unsigned char name[] = "cordma";
  ::SSL_CTX_set_session_id_context(c, name, sizeof name - 1);
}

}  // namespace

void tls_context::deleter::operator()(ssl_ctx_st* c) const noexcept { ::SSL_CTX_free(c); }

tls_context tls_context::server(const std::string& certificate, const std::string& key, tls_use use,
                                const tls_client_papers& papers) {
  tls_context t(make(::TLS_server_method()), use);
  if (use == tls_use::transfers) {
    set_up_for_transfers(t.get());
  } else {
    set_up_for_many_clients(t.get());
  }
  ::ERR_clear_error();
  look_at(certificate);
  if (::SSL_CTX_use_certificate_chain_file(t.get(), certificate.c_str()) != 1) {
    fail(certificate, "has no certificate in PEM (" + text_of(::ERR_peek_last_error()) + ")");
  }
  look_at(key);
  if (use == tls_use::transfers) look_at_rights(key);
  if (::SSL_CTX_use_PrivateKey_file(t.get(), key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      ::SSL_CTX_check_private_key(t.get()) == 1) {
    t.demand(papers);
    return t;
  }
  const unsigned long error = ::ERR_peek_last_error();
  if (ERR_GET_LIB(error) == ERR_LIB_X509 && (ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH ||
                                             ERR_GET_REASON(error) == X509_R_KEY_TYPE_MISMATCH)) {
    fail(key, "is not the key of the certificate in " + certificate);
  }
  fail(key, "has no private key in PEM without a passphrase (" + text_of(error) + ")");
}

void tls_context::demand(const tls_client_papers& papers) {
  using asked = tls_client_papers::asked;
  if (papers.how == asked::none) return;
  trust(get(), papers.authorities);
  ::SSL_CTX_set_client_CA_list(get(), ::SSL_load_client_CA_file(papers.authorities.c_str()));
  const bool must = papers.how == asked::required;
  ::SSL_CTX_set_verify(get(), SSL_VERIFY_PEER | (must ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
}

tls_context tls_context::client(const std::string& trusted) {
  tls_context t(make(::TLS_client_method()), tls_use::transfers);
  set_up_for_transfers(t.get());
  ::ERR_clear_error();
  if (trusted.empty()) {
    ::SSL_CTX_set_default_verify_paths(t.get());
  } else {
    trust(t.get(), trusted);
  }
  return t;
}

std::string tls_context::doubt() const {
  const X509* const c = ::SSL_CTX_get0_certificate(get());
  if (c == nullptr) return {};
  const std::string whose = "the certificate \"" + text_of(::X509_get_subject_name(c)) + "\" ";
  if (X509_cmp_current_time(::X509_get0_notAfter(c)) < 0) {
    return whose + "has expired, on " + text_of(::X509_get0_notAfter(c));
  }
  if (X509_cmp_current_time(::X509_get0_notBefore(c)) > 0) {
    return whose + "is good from " + text_of(::X509_get0_notBefore(c)) + " on, not yet";
  }
  return {};
}

}  // namespace support
