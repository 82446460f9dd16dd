#include "tls_channel.hpp"

#include "tls_names.hpp"

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace support {

using cordma::errc;
using cordma::failure;
using cordma::result;

namespace {

bool is_address(const std::string& host) {
  in6_addr bytes{};
  return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

std::string distrust_of(int error, X509* c, const std::string& host) {
  if (c == nullptr) return ::X509_verify_cert_error_string(error);
  const std::string whose = "its certificate \"" + text_of(::X509_get_subject_name(c)) + "\" ";
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return whose + "has expired, on " + text_of(::X509_get0_notAfter(c));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return whose + "is good from " + text_of(::X509_get0_notBefore(c)) + " on, not yet";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return whose + "is not one for \"" + host + '"';
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return whose + "is signed by \"" + text_of(::X509_get_issuer_name(c)) +
             "\", which is not trusted here: --tls-ca FILE names whom to trust";
    default: return whose + "is not good: " + ::X509_verify_cert_error_string(error);
  }
}

// True if the peer, and not this side, found the fault.
bool is_alert_of_peer(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET;
}

}  // namespace

// A BIO without a buffer transfers the records.
struct tls_channel::transfer {
  static int read(BIO* b, char* into, int most) {
    auto& c = *static_cast<tls_channel*>(::BIO_get_data(b));
    BIO_clear_retry_flags(b);
    const std::size_t n = std::min(c.arrived_.size(), static_cast<std::size_t>(std::max(most, 0)));
    if (n == 0) {
      BIO_set_retry_read(b);
      return -1;
    }
    std::memcpy(into, c.arrived_.data(), n);
    c.arrived_ = c.arrived_.subspan(n);
    return static_cast<int>(n);
  }

  static int write(BIO* b, const char* from, int bytes) {
    auto& c = *static_cast<tls_channel*>(::BIO_get_data(b));
    BIO_clear_retry_flags(b);
    const std::size_t room = most_sealed + for_alerts - c.sealed_.size();
    const std::size_t n = std::min(room, static_cast<std::size_t>(std::max(bytes, 0)));
    if (n == 0) {
      BIO_set_retry_write(b);
      return -1;
    }
    const auto* const first = reinterpret_cast<const std::byte*>(from);
    try {
      c.sealed_.insert(c.sealed_.end(), first, first + n);
    } catch (const std::bad_alloc&) {
      return -1;
    }
    return static_cast<int>(n);
  }

  static long control(BIO*, int what, long, void*) { return what == BIO_CTRL_FLUSH ? 1 : 0; }

  static int create(BIO* b) {
    ::BIO_set_init(b, 1);
    return 1;
  }

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* const m = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "spans");
      ::BIO_meth_set_read(m, read);
      ::BIO_meth_set_write(m, write);
      ::BIO_meth_set_ctrl(m, control);
      ::BIO_meth_set_create(m, create);
      return m;
    }();
    return made;
  }

  // Keeps the first fault only.
  static int verify(int fine, X509_STORE_CTX* checked) {
    const void* const ssl =
        ::X509_STORE_CTX_get_ex_data(checked, ::SSL_get_ex_data_X509_STORE_CTX_idx());
    auto& c = *static_cast<tls_channel*>(SSL_get_app_data(static_cast<const SSL*>(ssl)));
    if (fine == 0 && c.distrust_.empty()) {
      c.distrust_ = distrust_of(::X509_STORE_CTX_get_error(checked),
                                ::X509_STORE_CTX_get_current_cert(checked), c.host_);
    }
    return fine;
  }
};

void tls_channel::deleter::operator()(ssl_st* s) const noexcept { ::SSL_free(s); }

tls_channel::tls_channel(const tls_context& with, std::string host)
    : use_(with.use()), ssl_(::SSL_new(with.get())), host_(std::move(host)) {
  BIO* const through = ::BIO_new(transfer::method());
  if (ssl_ == nullptr || through == nullptr) throw std::bad_alloc();
  ::BIO_set_data(through, this);
  ::SSL_set_bio(ssl_.get(), through, through);
  if (use_ == tls_use::transfers) sealed_.reserve(most_sealed + for_alerts);
  SSL_set_app_data(ssl_.get(), this);
  if (host_.empty()) {
    ::SSL_set_accept_state(ssl_.get());
  } else {
    ::SSL_set_connect_state(ssl_.get());
    demand_host();
  }
}

void tls_channel::demand_host() {
  ::SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, transfer::verify);
  X509_VERIFY_PARAM* const demanded = ::SSL_get0_param(ssl_.get());
  ::X509_VERIFY_PARAM_set_hostflags(demanded, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool set = is_address(host_) ? ::X509_VERIFY_PARAM_set1_ip_asc(demanded, host_.c_str()) == 1
                                     : ::SSL_set1_host(ssl_.get(), host_.c_str()) == 1 &&
                                           ::SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                                      TLSEXT_NAMETYPE_host_name, host_.data()) == 1;
  if (!set) throw std::runtime_error("libssl takes \"" + host_ + "\" for no host");
}

tls_channel::~tls_channel() = default;

result<tls_channel::step> tls_channel::shake_hands(std::span<const std::byte> arrived) {
  ::ERR_clear_error();
  arrived_ = arrived;
  const int done = ::SSL_do_handshake(ssl_.get());
  const int error = ::SSL_get_error(ssl_.get(), done);
  const std::size_t taken = arrived.size() - std::exchange(arrived_, {}).size();
  if (done == 1) return step{.taken = taken, .over = true};
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return step{.taken = taken};
  return why_no_handshake();
}

failure tls_channel::why_no_handshake() const {
  const unsigned long error = ::ERR_peek_last_error();
  const std::string with = host_.empty() ? "TLS with the client: " : "TLS with " + host_ + ": ";
  if (!distrust_.empty()) return {errc::rejected, with + distrust_};
  if (is_alert_of_peer(error)) {
    const std::string said =
        ::SSL_alert_desc_string_long(ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET);
    return {errc::rejected, with + "it says no: " + said};
  }
  return {errc::connection_aborted, with + text_of(error)};
}

result<tls_channel::step> tls_channel::open(std::span<const std::byte> arrived,
                                            std::span<std::byte> into) {
  ::ERR_clear_error();
  step s;
  arrived_ = arrived;
  const int got = ::SSL_read_ex(ssl_.get(), into.data(), into.size(), &s.given);
  const int error = ::SSL_get_error(ssl_.get(), got);
  s.taken = arrived.size() - std::exchange(arrived_, {}).size();
  if (got == 1 || error == SSL_ERROR_WANT_READ) return s;
  if (error == SSL_ERROR_ZERO_RETURN) {
    s.over = true;
    return s;
  }
  const unsigned long why = ::ERR_peek_last_error();
  if (is_alert_of_peer(why)) {
    return failure{errc::connection_reset, "TLS: the peer ended it: " + text_of(why)};
  }
  return failure{errc::invalid_value, "TLS: what came is not what the peer sent: " + text_of(why)};
}

std::size_t tls_channel::seal(std::span<const std::byte> plain) {
  if (most_sealed - std::min(most_sealed, sealed_.size()) < record_bytes + around_record) return 0;
  ::ERR_clear_error();
  if (with_this_key_++ >= key_lasts_ && ::SSL_version(ssl_.get()) == TLS1_3_VERSION) {
    with_this_key_ = 1;
    if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      cordma::throw_error(
          {errc::bad_state, "TLS: no new key: " + text_of(::ERR_peek_last_error())});
    }
  }
  std::size_t sealed = 0;
  const std::size_t n = std::min(plain.size(), record_bytes);
  if (::SSL_write_ex(ssl_.get(), plain.data(), n, &sealed) != 1) {
    cordma::throw_error({errc::bad_state, "TLS: " + text_of(::ERR_peek_last_error())});
  }
  return sealed;
}

void tls_channel::close() noexcept {
  ::ERR_clear_error();
  ::SSL_shutdown(ssl_.get());
}

void tls_channel::gone(std::size_t bytes) noexcept {
  sealed_.erase(sealed_.begin(), sealed_.begin() + static_cast<std::ptrdiff_t>(bytes));
  if (use_ == tls_use::many_clients && sealed_.empty() && sealed_.capacity() > most_at_rest) {
    std::vector<std::byte>().swap(sealed_);
  }
}

std::array<std::byte, 32> tls_channel::exported(const std::string& label) const {
  std::array<std::byte, 32> n{};
  const int made =
      ::SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(n.data()), n.size(),
                                   label.data(), label.size(), nullptr, 0, 0);
  if (made != 1)
    throw std::runtime_error("libssl: no keying material: " + text_of(::ERR_get_error()));
  return n;
}

std::string tls_channel::cipher() const { return ::SSL_get_cipher_name(ssl_.get()); }

}  // namespace support
