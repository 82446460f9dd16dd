// TLS at a front door.
#include "../../apps/kv/server/tls.hpp"
#include "../copy/certificates.hpp"
#include "door_stage.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

using namespace kv;
using namespace kv::test;

namespace {

const copy::test::certificates& papers() { return copy::test::certificates::shared(); }

using asked = support::tls_client_papers::asked;

tls_options server_papers(asked how = asked::none) {
  return {.certificate = papers().of("server"),
          .key = papers().key_of("server"),
          .papers = {.how = how, .authorities = papers().of("ca")}};
}

const tls_acceptor* acceptor = nullptr;  // set by the running case: the maker is a plain function

conversation_maker encrypted(conversation_maker plain) {
  return [plain = std::move(plain)](session_origin o, session::wake_function wake, void* context) {
    return acceptor->open(std::move(o), plain, wake, context);
  };
}

struct freed {
  void operator()(SSL* s) const noexcept { ::SSL_free(s); }
  void operator()(SSL_CTX* c) const noexcept { ::SSL_CTX_free(c); }
};

class tls_visitor {
 public:
  tls_visitor(std::uint16_t port, const char* certificate = nullptr, int most = TLS1_3_VERSION)
      : plain_(port), context_(::SSL_CTX_new(::TLS_client_method())) {
    SSL_CTX* const c = context_.get();
    ::SSL_CTX_load_verify_locations(c, papers().of("ca").c_str(), nullptr);
    ::SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_max_proto_version(c, most);
    if (certificate != nullptr) {
      ::SSL_CTX_use_certificate_file(c, papers().of(certificate).c_str(), SSL_FILETYPE_PEM);
      ::SSL_CTX_use_PrivateKey_file(c, papers().key_of(certificate).c_str(), SSL_FILETYPE_PEM);
    }
    tls_.reset(::SSL_new(c));
    ::SSL_set_fd(tls_.get(), plain_.fd());
    greeted_ = insist([&] { return ::SSL_connect(tls_.get()); }) == 1;
  }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] bool say(std::string_view text) const {
    const int bytes = static_cast<int>(text.size());
    return insist([&] { return ::SSL_write(tls_.get(), text.data(), bytes); }) == bytes;
  }
  [[nodiscard]] std::string hear(std::size_t bytes) const {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const int n = insist(
          [&] { return ::SSL_read(tls_.get(), text.data() + got, static_cast<int>(bytes - got)); });
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    text.resize(got);
    return text;
  }
  // Shuts the socket down for writing, after a TLS close_notify if `properly`.
  void say_no_more(bool properly) const {
    if (properly) insist([&] { return ::SSL_shutdown(tls_.get()); });
    plain_.say_no_more();
  }
  [[nodiscard]] bool hears_the_end_properly() const {
    char c = 0;
    const int n = insist([&] { return ::SSL_read(tls_.get(), &c, 1); });
    return n <= 0 && ::SSL_get_error(tls_.get(), n) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  // Repeats an interrupted call, as uninterrupted() does.
  template <class Call>
  int insist(Call call) const {
    for (;;) {
      ::ERR_clear_error();
      errno = 0;
      const int n = call();
      if (n > 0 || errno != EINTR) return n;
      const int why = ::SSL_get_error(tls_.get(), n);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return n;
    }
  }

  visitor plain_;
  std::unique_ptr<SSL_CTX, freed> context_;
  std::unique_ptr<SSL, freed> tls_;
  bool greeted_ = false;
};

}  // namespace

TEST_CASE("over TLS messages of any length come back, and the end is said properly") {
  const tls_acceptor a(server_papers());
  acceptor = &a;
  for (const io_choice io : engines()) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      CAPTURE(int(io));
      open_house house(io);
      const tls_visitor c(house.listen(&encrypted), nullptr, version);
      REQUIRE(c.greeted());
      const std::string text = long_text(400'000);
      for (const std::size_t n : {1U, 100U, 16'384U, 16'385U, 60'000U}) {
        REQUIRE(c.say(text.substr(0, n)));
        CHECK((c.hear(n) == text.substr(0, n)));
      }
      CHECK(c.say("farewell!"));
      CHECK(c.hear(9) == "farewell!");
      CHECK(c.hears_the_end_properly());
      CHECK(house.soon([&] { return house.clients() == 0; }));
    }
  }
}

namespace {

conversation_maker encrypted_and_late(conversation_maker plain) {
  return encrypted(late(std::move(plain)));
}

}  // namespace

TEST_CASE("over TLS who says no more hears what is answered later, too") {
  const tls_acceptor a(server_papers());
  acceptor = &a;
  for (const io_choice io : engines()) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      for (const bool properly : {true, false}) {
        CAPTURE(int(io));
        CAPTURE(version);
        CAPTURE(properly);
        open_house house(io);
        const tls_visitor c(house.listen(&encrypted_and_late), nullptr, version);
        const std::string text = long_text(60'000);
        REQUIRE(c.say(text));
        c.say_no_more(properly);
        REQUIRE(house.soon([&] {
          bool heard = false;
          house.front().call([&] { heard = late_parrot::last && late_parrot::last->heard_all(); });
          return heard;
        }));
        house.front().call([] { late_parrot::release(); });
        CHECK((c.hear(text.size()) == text));
        CHECK(c.hears_the_end_properly());
        CHECK(house.soon([&] { return house.clients() == 0; }));
        late_parrot::last = nullptr;
      }
    }
  }
}

TEST_CASE("what is no TLS, and what is too old, is sent away") {
  const tls_acceptor a(server_papers());
  acceptor = &a;
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen(&encrypted);
    const visitor plain(port);
    REQUIRE(plain.say("PING\r\nPING\r\nPING\r\n"));
    CHECK(plain.hear(1000).find("PONG") == std::string::npos);
    CHECK_FALSE(tls_visitor(port, nullptr, TLS1_1_VERSION).greeted());
    const tls_visitor good(port);
    REQUIRE(good.say("hello"));
    CHECK(good.hear(5) == "hello");
  }
}

TEST_CASE("where clients must show certificates, only those of the authority are let in") {
  const tls_acceptor a(server_papers(asked::required));
  acceptor = &a;
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen(&encrypted);
    const tls_visitor known(port, "also");
    REQUIRE(known.say("hello"));
    CHECK(known.hear(5) == "hello");
    for (const char* who : {static_cast<const char*>(nullptr), "strange"}) {
      const tls_visitor c(port, who);
      static_cast<void>(c.say("hello"));  // with TLS 1.3 the client sees the refusal later
      CHECK(c.hear(5).empty());
    }
  }
}

TEST_CASE("what is wrong with certificates is said with the file") {
  const auto refusal = [](tls_options o) -> std::string {
    try {
      const tls_acceptor a(o);
      return "";
    } catch (const cordma::error& e) {
      return e.why().message();
    }
  };
  CHECK(refusal({}).starts_with("tls-cert-file: "));
  tls_options o = server_papers();
  o.key = papers().key_of("also");
  CHECK(refusal(o).find("is not the key of") != std::string::npos);
  o.key = "/nowhere.key";
  CHECK(refusal(o).find("/nowhere.key") != std::string::npos);
  o = server_papers(asked::required);
  o.papers.authorities.clear();
  CHECK(refusal(o).find("tls-auth-clients no") != std::string::npos);
}
