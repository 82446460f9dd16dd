#include "tls.hpp"

#include "../../support/tls_channel.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <exception>
#include <stdexcept>
#include <utility>

namespace kv {
namespace {

using support::tls_channel;

constexpr std::size_t most_ahead = 64 << 10;   // encrypted bytes not sent yet
constexpr std::size_t most_at_rest = 4 << 10;  // input buffer kept for an idle client

class tls_conversation final : public conversation {
 public:
  tls_conversation(const support::tls_context& context, session::wake_function wake, void* of)
      : tls_(context), wake_(wake), context_(of) {}
  void begin(session_origin origin, const conversation_maker& maker) {
    inner_ = maker(std::move(origin), &woken, this);
  }

  void received(std::span<const char> bytes) override;
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    const std::span<const std::byte> sealed = tls_.sealed();
    return {reinterpret_cast<const char*>(sealed.data()), sealed.size()};
  }
  void no_more_input() override;
  void resume() override;
  void sent(std::size_t bytes) noexcept override;
  [[nodiscard]] bool wants_input() const noexcept override {
    return state_ != state::over && !heard_all_ && inner_->wants_input() && may_seal();
  }
  [[nodiscard]] session::ending ended() const noexcept override;

 private:
  enum class state : std::uint8_t { greeting, open, over };

  static void woken(void* context) noexcept;
  [[nodiscard]] bool may_seal() const noexcept { return tls_.sealed().size() < most_ahead; }
  [[nodiscard]] std::span<const std::byte> unread() const noexcept {
    return std::as_bytes(std::span(in_)).subspan(taken_);
  }
  void go_on();
  void go_on_or_end() noexcept;
  void greet();
  bool read_some();
  bool write_some();
  void drop_taken() noexcept;
  void fail() noexcept { state_ = state::over; }

  std::unique_ptr<conversation> inner_;
  tls_channel tls_;
  std::string in_;  // encrypted input
  std::size_t taken_ = 0;
  session::wake_function wake_;
  void* context_;
  state state_ = state::greeting;
  bool last_came_ = false;  // end of encrypted input
  bool heard_all_ = false;  // end of input, which inner_ has been notified of
  bool said_goodbye_ = false;
  bool busy_ = false;
};

void tls_conversation::received(std::span<const char> bytes) {
  if (state_ == state::over) return;
  in_.append(bytes.data(), bytes.size());
  go_on();
}

// Does not recurse: a nested call returns, and the loop of the outer call does its work.
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
  drop_taken();
  const bool through =
      state_ == state::open && inner_->pending().empty() && inner_->ended() != session::ending::no;
  if (through && !said_goodbye_) {
    said_goodbye_ = true;
    tls_.close();
  }
}

void tls_conversation::greet() {
  const cordma::result<tls_channel::step> s = tls_.shake_hands(unread());
  if (!s) return fail();
  taken_ += s->taken;
  if (s->over) state_ = state::open;
}

// Returns true if it read something.
bool tls_conversation::read_some() {
  std::array<std::byte, tls_channel::record_bytes> clear;
  const cordma::result<tls_channel::step> s = tls_.open(unread(), clear);
  if (!s) {
    fail();
    return false;
  }
  taken_ += s->taken;
  if (s->given != 0) {
    inner_->received({reinterpret_cast<const char*>(clear.data()), s->given});
    return true;
  }
  if (s->over || last_came_) {
    heard_all_ = true;
    inner_->no_more_input();
  }
  return false;
}

bool tls_conversation::write_some() {
  bool any = false;
  while (state_ == state::open && may_seal()) {
    const std::span<const char> next = inner_->pending();
    if (next.empty()) break;
    inner_->sent(tls_.seal(std::as_bytes(next)));
    any = true;
  }
  return any;
}

void tls_conversation::drop_taken() noexcept {
  in_.erase(0, std::exchange(taken_, 0));
  if (in_.empty() && in_.capacity() > most_at_rest) std::string().swap(in_);
}

void tls_conversation::sent(std::size_t bytes) noexcept {
  tls_.gone(bytes);
  go_on_or_end();
}

session::ending tls_conversation::ended() const noexcept {
  if (state_ == state::over) return session::ending::when_sent;  // sends the alert, if any
  const session::ending e = inner_->ended();
  // When the inner conversation has ended, its last bytes are in pending().
  return e == session::ending::when_sent && !said_goodbye_ ? session::ending::no : e;
}

void tls_conversation::go_on_or_end() noexcept try {
  if (state_ != state::over) go_on();
} catch (const std::exception&) {
  fail();
}

void tls_conversation::woken(void* context) noexcept {
  auto& self = *static_cast<tls_conversation*>(context);
  self.wake_(self.context_);
}

// The inner conversation is notified after it has received all input.
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
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value, what));
}

support::tls_context context_of(const tls_options& o) try {
  if (o.certificate.empty()) refuse("tls-cert-file: TLS takes a certificate, as a PEM file");
  if (o.key.empty()) refuse("tls-key-file: TLS takes the key of the certificate, as a PEM file");
  return support::tls_context::server(o.certificate, o.key, support::tls_use::many_clients,
                                      o.papers);
} catch (const std::invalid_argument& e) {
  const std::string what = e.what();  // begins with the file
  const bool is_certificate = what.starts_with(o.certificate + ": ");
  const bool is_key = what.starts_with(o.key + ": ");
  if (!is_certificate && !is_key && o.papers.authorities.empty()) {
    refuse(
        "tls-ca-cert-file: whom to trust is not said; tls-auth-clients no asks clients for no "
        "certificate");
  }
  refuse((is_certificate ? "tls-cert-file: "
          : is_key       ? "tls-key-file: "
                         : "tls-ca-cert-file: ") +
         what);
}

}  // namespace

tls_acceptor::tls_acceptor(const tls_options& o) : context_(context_of(o)) {}

std::unique_ptr<conversation> tls_acceptor::open(session_origin origin,
                                                 const conversation_maker& inner,
                                                 session::wake_function wake, void* context) const {
  auto made = std::make_unique<tls_conversation>(context_, wake, context);
  made->begin(std::move(origin), inner);
  return made;
}

}  // namespace kv
