#include "tls.hpp"

#include <cordma/runtime/result.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

namespace kv {
namespace {

constexpr std::size_t most_ahead = 64 << 10;  // encrypted, and not sent
constexpr std::size_t record = 16 << 10;
constexpr std::size_t most_at_rest = 4 << 10;  // of buffers of a client that is silent

struct connection_deleter {
  void operator()(SSL* s) const noexcept { ::SSL_free(s); }
};

class tls_conversation final : public conversation {
 public:
  tls_conversation(ssl_ctx_st* context, session::wake_function wake, void* of);
  void begin(session_origin origin, const conversation_maker& maker) {
    inner_ = maker(std::move(origin), &woken, this);
  }

  void received(std::span<const char> bytes) override;
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return std::span(out_).subspan(sent_);
  }
  void no_more_input() override;
  void resume() override;
  void sent(std::size_t bytes) noexcept override;
  [[nodiscard]] bool wants_input() const noexcept override {
    return state_ != state::over && !heard_all_ && inner_->wants_input() &&
           out_.size() - sent_ < most_ahead;
  }
  [[nodiscard]] session::ending ended() const noexcept override;

 private:
  enum class state : std::uint8_t { greeting, open, over };

  static void woken(void* context) noexcept;
  void go_on();
  void go_on_or_end() noexcept;
  void greet();
  bool read_some();
  bool write_some();
  void collect();
  void fail() noexcept;

  std::unique_ptr<conversation> inner_;
  std::unique_ptr<SSL, connection_deleter> tls_;
  BIO* in_ = nullptr;  // tls_ owns both
  BIO* encrypted_ = nullptr;
  std::string out_;
  std::size_t sent_ = 0;
  session::wake_function wake_;
  void* context_;
  state state_ = state::greeting;
  bool last_came_ = false;  // encrypted bytes
  bool heard_all_ = false;  // and so has inner_
  bool said_goodbye_ = false;
  bool busy_ = false;
};

tls_conversation::tls_conversation(ssl_ctx_st* context, session::wake_function wake, void* of)
    : tls_(::SSL_new(context)), in_(::BIO_new(::BIO_s_mem())), wake_(wake), context_(of) {
  encrypted_ = ::BIO_new(::BIO_s_mem());
  if (tls_ == nullptr || in_ == nullptr || encrypted_ == nullptr) {
    ::BIO_free(in_);
    ::BIO_free(encrypted_);
    throw std::bad_alloc();
  }
  ::BIO_set_mem_eof_return(in_, -1);  // empty is not the end
  ::BIO_set_mem_eof_return(encrypted_, -1);
  ::SSL_set_bio(tls_.get(), in_, encrypted_);
  ::SSL_set_accept_state(tls_.get());
}

void tls_conversation::received(std::span<const char> bytes) {
  if (state_ == state::over) return;
  if (::BIO_write(in_, bytes.data(), static_cast<int>(bytes.size())) !=
      static_cast<int>(bytes.size())) {
    throw std::bad_alloc();
  }
  go_on();
}

// Not from within itself: one that is woken by what it is told has its turn in the same loop.
void tls_conversation::go_on() {
  if (std::exchange(busy_, true)) return;
  struct leave {
    ~leave() { busy = false; }
    bool& busy;
  } const at_last{busy_};
  if (state_ == state::greeting) greet();
  bool more = state_ == state::open;
  while (more) {
    const bool wrote = write_some();
    more = (wants_input() && read_some()) || wrote;
  }
  const bool through =
      state_ == state::open && inner_->pending().empty() && inner_->ended() != session::ending::no;
  if (through && !said_goodbye_) {
    said_goodbye_ = true;
    ::SSL_shutdown(tls_.get());
  }
  collect();
}

void tls_conversation::greet() {
  ::ERR_clear_error();
  const int outcome = ::SSL_do_handshake(tls_.get());
  if (outcome == 1) {
    state_ = state::open;
  } else if (::SSL_get_error(tls_.get(), outcome) != SSL_ERROR_WANT_READ) {
    fail();
  }
}

// Whether there was something.
bool tls_conversation::read_some() {
  std::array<char, record> clear;
  ::ERR_clear_error();
  const int n = ::SSL_read(tls_.get(), clear.data(), static_cast<int>(clear.size()));
  if (n > 0) {
    inner_->received(std::span(clear).first(static_cast<std::size_t>(n)));
    return true;
  }
  const int why = ::SSL_get_error(tls_.get(), n);
  if (why == SSL_ERROR_ZERO_RETURN || (why == SSL_ERROR_WANT_READ && last_came_)) {
    heard_all_ = true;
    inner_->no_more_input();
  } else if (why != SSL_ERROR_WANT_READ) {
    fail();
  }
  return false;
}

bool tls_conversation::write_some() {
  bool any = false;
  while (state_ == state::open && out_.size() - sent_ < most_ahead) {
    const std::span<const char> next = inner_->pending();
    if (next.empty()) break;
    ::ERR_clear_error();
    const int n =
        ::SSL_write(tls_.get(), next.data(), static_cast<int>(std::min(next.size(), record)));
    if (n <= 0) {
      fail();
      break;
    }
    inner_->sent(static_cast<std::size_t>(n));
    collect();
    any = true;
  }
  return any;
}

void tls_conversation::collect() {
  char* data = nullptr;
  const long n = ::BIO_get_mem_data(encrypted_, &data);
  if (n <= 0) return;
  if (sent_ != 0) out_.erase(0, std::exchange(sent_, 0));
  out_.append(data, static_cast<std::size_t>(n));
  static_cast<void>(BIO_reset(encrypted_));
}

void tls_conversation::sent(std::size_t bytes) noexcept {
  sent_ += bytes;
  if (sent_ == out_.size()) {
    sent_ = 0;
    out_.clear();
    if (out_.capacity() > most_at_rest) std::string().swap(out_);
  }
  go_on_or_end();
}

session::ending tls_conversation::ended() const noexcept {
  if (state_ == state::over) return session::ending::when_sent;  // what it was told, or why not
  const session::ending e = inner_->ended();
  // When the inner one has said all, the rest of it is in out_.
  return e == session::ending::when_sent && !said_goodbye_ ? session::ending::no : e;
}

void tls_conversation::fail() noexcept { state_ = state::over; }

void tls_conversation::go_on_or_end() noexcept try {
  if (state_ != state::over) go_on();
} catch (const std::exception&) {
  fail();
}

void tls_conversation::woken(void* context) noexcept {
  auto& self = *static_cast<tls_conversation*>(context);
  self.wake_(self.context_);
}

// The inner one hears of it when it has all that came.
void tls_conversation::no_more_input() {
  last_came_ = true;
  if (state_ == state::greeting) fail();
  go_on_or_end();
}

void tls_conversation::resume() {
  inner_->resume();
  go_on_or_end();
}

[[noreturn]] void refuse(const std::string& what) {
  char text[256] = "";
  const unsigned long code = ::ERR_get_error();
  if (code != 0) ::ERR_error_string_n(code, text, sizeof text);
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value,
                                      what + (code != 0 ? std::string(": ") + text : "")));
}

}  // namespace

void tls_acceptor::deleter::operator()(ssl_ctx_st* c) const noexcept { ::SSL_CTX_free(c); }

tls_acceptor::tls_acceptor(const tls_options& o) : context_(::SSL_CTX_new(::TLS_server_method())) {
  SSL_CTX* const c = context_.get();
  if (c == nullptr) throw std::bad_alloc();
  ::ERR_clear_error();
  ::SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  ::SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_options(
      c, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  constexpr unsigned char name[] = "cordma-kv";
  ::SSL_CTX_set_session_id_context(c, name, sizeof name - 1);
  if (o.certificate.empty()) refuse("tls-cert-file: TLS takes a certificate, as a PEM file");
  if (o.key.empty()) refuse("tls-key-file: TLS takes the key of the certificate, as a PEM file");
  if (::SSL_CTX_use_certificate_chain_file(c, o.certificate.c_str()) != 1) {
    refuse("tls-cert-file: " + o.certificate);
  }
  if (::SSL_CTX_use_PrivateKey_file(c, o.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    // It is compared with the certificate as it is taken.
    const bool other = ERR_GET_REASON(::ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH;
    if (other) ::ERR_clear_error();
    refuse("tls-key-file: " + o.key + (other ? " is not the key of " + o.certificate : ""));
  }
  if (o.certificates_of_clients == tls_options::clients::none) return;
  if (o.authorities.empty()) {
    refuse(
        "tls-ca-cert-file: whom to trust is not said; tls-auth-clients no asks clients for no "
        "certificate");
  }
  if (::SSL_CTX_load_verify_locations(c, o.authorities.c_str(), nullptr) != 1) {
    refuse("tls-ca-cert-file: " + o.authorities);
  }
  ::SSL_CTX_set_client_CA_list(c, ::SSL_load_client_CA_file(o.authorities.c_str()));
  const bool must = o.certificates_of_clients == tls_options::clients::required;
  ::SSL_CTX_set_verify(c, SSL_VERIFY_PEER | (must ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
}

std::unique_ptr<conversation> tls_acceptor::open(session_origin origin,
                                                 const conversation_maker& inner,
                                                 session::wake_function wake, void* context) const {
  auto made = std::make_unique<tls_conversation>(context_.get(), wake, context);
  made->begin(std::move(origin), inner);
  return made;
}

}  // namespace kv
