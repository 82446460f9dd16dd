// Two ends of TLS without a network: each reads the other's data, and rejects data changed on the
// way.
#include "../../apps/support/tls_channel.hpp"
#include "certificates.hpp"

#include "../../apps/cp/protocol/auth.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

using namespace copy;
using copy::test::certificates;
using support::tls_channel;
using support::tls_context;

namespace {

using bytes = std::vector<std::byte>;

bytes some(std::size_t count, unsigned seed = 1) {
  bytes b(count);
  for (std::size_t i = 0; i < count; ++i) b[i] = static_cast<std::byte>(i * 131 + seed + i / 251);
  return b;
}

bytes taken_from(tls_channel& c) {
  bytes b(c.sealed().begin(), c.sealed().end());
  c.gone(b.size());
  return b;
}

struct ends {
  explicit ends(const std::string& shows = "server", const std::string& trusts = "ca",
                const std::string& host = "localhost")
      : server_side(tls_context::server(certificates::shared().of(shows),
                                        certificates::shared().key_of(shows))),
        client_side(tls_context::client(certificates::shared().of(trusts))),
        server(server_side),
        client(client_side, host) {}

  // Returns the first failure of either end, or an empty string if both are done.
  std::string shake_hands() {
    bool server_done = false;
    bool client_done = false;
    bytes for_server;
    bytes for_client;
    for (int i = 0; i < 10 && (!server_done || !client_done); ++i) {
      if (!client_done) client_done = step_of(client, for_client, client_why);
      for_server = taken_from(client);
      if (!server_done) server_done = step_of(server, for_server, server_why);
      for_client = taken_from(server);
    }
    if (!client_why.empty()) return client_why;
    return server_why.empty() && !(server_done && client_done) ? "neither" : server_why;
  }
  static bool step_of(tls_channel& c, bytes& arrived, std::string& why) {
    if (!why.empty()) return false;
    const cordma::result<tls_channel::step> s = c.shake_hands(arrived);
    if (!s) {
      why = s.why().message();
      return false;
    }
    CHECK(s->taken == arrived.size());
    return s->over;
  }

  tls_context server_side;
  tls_context client_side;
  tls_channel server;
  tls_channel client;
  std::string server_why;
  std::string client_why;
};

// Returns all bytes that `to` reads from `sealed`, fed in pieces of `piece` bytes.
bytes read(tls_channel& to, bytes sealed, std::size_t piece) {
  bytes all;
  bytes room(tls_channel::record_bytes);
  std::span<const std::byte> left(sealed);
  for (;;) {
    const auto now = left.first(std::min(piece, left.size()));
    const tls_channel::step s = to.open(now, room).value();
    left = left.subspan(s.taken);
    all.insert(all.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(s.given));
    if (left.empty() && s.given == 0) return all;
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what is sealed here is read there, in whatever pieces it comes [piece]") {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    CAPTURE(piece);
    ends e;
    REQUIRE(e.shake_hands() == "");
    for (const std::size_t n : {std::size_t{1}, std::size_t{300}, tls_channel::record_bytes}) {
      CAPTURE(n);
      const bytes text = some(n);
      CHECK(e.client.seal(text) == n);
      CHECK(read(e.server, taken_from(e.client), piece) == text);
      CHECK(e.server.seal(text) == n);
      CHECK(read(e.client, taken_from(e.server), piece) == text);
    }
  }
}

TEST_CASE("no more is sealed than there is room for, until it has left") {
  ends e;
  REQUIRE(e.shake_hands() == "");
  const bytes text = some(tls_channel::record_bytes);
  std::size_t records = 0;
  while (e.client.seal(text) != 0) ++records;
  CHECK(records >= 4);
  const std::byte* const at = e.client.sealed().data();
  bytes all = taken_from(e.client);
  CHECK(e.client.seal(text) == text.size());
  CHECK(e.client.sealed().data() == at);
  const bytes more = taken_from(e.client);
  all.insert(all.end(), more.begin(), more.end());
  CHECK(read(e.server, all, all.size()).size() == (records + 1) * text.size());
}

TEST_CASE("a wrong bit, wherever it is, is refused [byte]") {
  const bytes text = some(100);
  const auto sealed_by = [&](ends& e) {
    REQUIRE(e.shake_hands() == "");
    CHECK(e.client.seal(text) == text.size());
    return taken_from(e.client);
  };
  ends first;
  const std::size_t length = sealed_by(first).size();
  for (std::size_t at = 0; at < length; ++at) {
    if (at == 3 || at == 4)
      continue;  // the record's length: with another it waits for more, or for less
    CAPTURE(at);
    ends e;
    bytes sealed = sealed_by(e);
    sealed[at] ^= std::byte{1};
    bytes room(tls_channel::record_bytes);
    const cordma::result<tls_channel::step> got = e.server.open(sealed, room);
    REQUIRE_FALSE(got);
    CHECK(got.why().code() == cordma::errc::invalid_value);
    CHECK(has(got.why().message(), "not what the peer sent"));
  }
}

TEST_CASE("a record that is left out, or comes twice, is refused") {
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    ends e;
    REQUIRE(e.shake_hands() == "");
    CHECK(e.client.seal(some(10)) == 10);
    const bytes one = taken_from(e.client);
    CHECK(e.client.seal(some(10)) == 10);
    const bytes two = taken_from(e.client);
    bytes room(100);
    if (twice) CHECK(e.server.open(one, room).value().given == 10);
    CHECK_FALSE(e.server.open(twice ? one : two, room));
  }
}

TEST_CASE("the end is told, and is not the end of what the other side says") {
  ends e;
  REQUIRE(e.shake_hands() == "");
  e.client.close();
  bytes room(100);
  CHECK(e.server.open(taken_from(e.client), room).value().over);
  CHECK(e.server.seal(some(10)) == 10);
  CHECK(read(e.client, taken_from(e.server), 1000) == some(10));
}

TEST_CASE("with a new key now and then all goes on") {
  ends e;
  e.client.change_key_after(3);
  REQUIRE(e.shake_hands() == "");
  bytes all;
  bytes told;
  for (unsigned i = 0; i < 20; ++i) {
    const bytes text = some(1000, i);
    CHECK(e.client.seal(text) == text.size());
    const bytes got = read(e.server, taken_from(e.client), 100);
    CHECK(got == text);
  }
}

TEST_CASE("a certificate is trusted for a name and for an address, and not otherwise") {
  struct attempt {
    const char* shows;
    const char* trusts;
    const char* host;
    const char* client_says;
    const char* server_says;
  };
  for (const attempt& a : {
           attempt{"server", "ca", "localhost", "", ""},
           attempt{"server", "ca", "127.0.0.1", "", ""},
           attempt{"server", "ca", "::1", "", ""},
           attempt{"strange", "stranger", "localhost", "", ""},
           attempt{"server", "ca", "127.0.0.2", "is not one for \"127.0.0.2\"", "it says no: "},
           attempt{"server", "ca", "localhost.example", "is not one for", "it says no: "},
           attempt{"elsewhere", "ca", "localhost", "\"/CN=elsewhere\" is not one for \"localhost\"",
                   "it says no: "},
           attempt{"expired", "ca", "localhost", "\"/CN=expired\" has expired, on 20", "expired"},
           attempt{"strange", "ca", "localhost", "signed by \"/CN=stranger\", which is not trusted",
                   "it says no: "},
           attempt{"server", "stranger", "localhost", "--tls-ca FILE", "unknown CA"},
       }) {
    CAPTURE(std::string(a.shows));
    CAPTURE(std::string(a.host));
    ends e(a.shows, a.trusts, a.host);
    const std::string said = e.shake_hands();
    CHECK_MESSAGE(has(said, a.client_says), said);
    CHECK(said.empty() == (std::string_view(a.client_says).empty()));
    CHECK_MESSAGE(has(e.server_why, a.server_says), e.server_why);
  }
}

TEST_CASE("what is no TLS, and an older one, is refused") {
  ends e;
  const bytes text = some(100);
  const cordma::result<tls_channel::step> got = e.server.shake_hands(text);
  REQUIRE_FALSE(got);
  CHECK(got.why().code() == cordma::errc::connection_aborted);
  ends other;
  const cordma::result<tls_channel::step> said = other.client.shake_hands({});
  REQUIRE(said);
  bytes greeting = taken_from(other.client);
  // An attacker offers an older version: "supported_versions" is made unknown to the server.
  const std::byte tls13[] = {std::byte{0}, std::byte{43}, std::byte{0}};
  const auto at = std::ranges::search(greeting, tls13).begin();
  REQUIRE(at != greeting.end());
  at[1] = std::byte{99};
  const cordma::result<tls_channel::step> answer = other.server.shake_hands(greeting);
  REQUIRE_FALSE(answer);
  CHECK_MESSAGE(has(answer.why().message(), "unsupported protocol"), answer.why().message());
}

TEST_CASE(
    "what a connection exports both ends know, each purpose and each connection has its own") {
  ends a;
  ends b;
  REQUIRE(a.shake_hands() == "");
  REQUIRE(b.shake_hands() == "");
  CHECK(a.client.exported(label_of_proofs) == a.server.exported(label_of_proofs));
  CHECK(a.client.exported(label_of_proofs) != a.client.exported(label_of_lanes));
  CHECK(a.client.exported(label_of_proofs) != b.client.exported(label_of_proofs));
}

TEST_CASE("a proof is worth something on its own channel alone") {
  ends e;
  REQUIRE(e.shake_hands() == "");
  const nonce channel = e.client.exported(label_of_proofs);
  nonce other = channel;
  other[5] ^= std::byte{1};
  const nonce n{};
  const bytes hello = some(40);
  const auto proof = [&](const std::optional<nonce>& c) {
    return proof_of("a token", prover::client, n, n, hello, c);
  };
  CHECK(equal(proof(channel), proof(channel)));
  CHECK_FALSE(equal(proof(channel), proof(other)));
  CHECK_FALSE(equal(proof(channel), proof(std::nullopt)));
  CHECK_FALSE(equal(lane_proof_of(n, prover::client, 1, channel),
                    lane_proof_of(n, prover::client, 2, channel)));
  CHECK_FALSE(equal(lane_proof_of(n, prover::client, 1, channel),
                    lane_proof_of(n, prover::server, 1, channel)));
  CHECK_FALSE(equal(lane_proof_of(n, prover::client, 1, channel),
                    lane_proof_of(n, prover::client, 1, other)));
}

TEST_CASE("what is wrong with the files is said by the file's name") {
  const certificates& c = certificates::shared();
  const auto refuses = [](const std::function<tls_context()>& make, const std::string& file,
                          std::string_view what) {
    try {
      [[maybe_unused]] const tls_context t = make();
      FAIL_CHECK(file << ": nothing is wrong");
    } catch (const std::invalid_argument& e) {
      CHECK_MESSAGE(has(e.what(), file), e.what());
      CHECK_MESSAGE(has(e.what(), what), e.what());
    }
  };
  const auto serve = [](const std::string& certificate, const std::string& key) {
    return [=] { return tls_context::server(certificate, key); };
  };
  const std::string good = c.of("server");
  const std::string key = c.key_of("server");
  c.tree().file("text", "not a certificate");
  ::chmod(c.tree().at("text").c_str(), 0600);
  const std::string text = c.tree().at("text");
  refuses(serve(text + "s", key), text + "s", "No such file");
  refuses(serve(good, text + "s"), text + "s", "No such file");
  refuses(serve(c.tree().root(), key), c.tree().root(), "is no file");
  refuses(serve(text, key), text, "has no certificate in PEM");
  refuses(serve(good, text), text, "has no private key in PEM");
  refuses(serve(good, c.key_of("also")), c.key_of("also"),
          "is not the key of the certificate in " + good);
  refuses([&] { return tls_context::client(text); }, text, "has no certificate in PEM");
  refuses([&] { return tls_context::client(text + "s"); }, text + "s", "No such file");
  const std::string locked = c.tree().at("locked");
  const std::string lock =
      "openssl ec -aes128 -passout pass:words -in " + key + " -out " + locked + " 2> /dev/null";
  REQUIRE(std::system(lock.c_str()) == 0);
  ::chmod(locked.c_str(), 0600);
  refuses(serve(good, locked), locked, "passphrase");
  std::filesystem::copy_file(key, c.tree().at("open"));
  ::chmod(c.tree().at("open").c_str(), 0644);
  refuses(serve(good, c.tree().at("open")), c.tree().at("open"), "others may read it");
}

TEST_CASE("a certificate that has expired is doubted before anybody asks") {
  const certificates& c = certificates::shared();
  CHECK(tls_context::server(c.of("server"), c.key_of("server")).doubt().empty());
  const std::string doubt = tls_context::server(c.of("expired"), c.key_of("expired")).doubt();
  CHECK_MESSAGE(has(doubt, "\"/CN=expired\" has expired, on 20"), doubt);
  CHECK(tls_context::client(c.of("ca")).doubt().empty());
}
