// CLIENT PAUSE: waiting clients are counted, and no key is erased during the pause.
#include "resp_ground.hpp"

using namespace kv_test;

namespace {
std::string blocked(client& c) {
  const std::string text = c("INFO clients");
  const std::size_t at = text.find("blocked_clients:");
  return text.substr(at, text.find('\r', at) - at);
}
}  // namespace

TEST_CASE("clients whose command waits for the end of a pause are blocked") {
  server s;
  client admin(s);
  client writer(s);
  client other(s);
  CHECK(admin("CLIENT PAUSE 1000 WRITE") == ok);
  CHECK(blocked(admin) == "blocked_clients:0");
  CHECK(writer("SET a 1") == "");
  CHECK(other("GET a") == null);
  CHECK(blocked(admin) == "blocked_clients:1");
  CHECK(admin("CLIENT LIST").find(" flags=b ") != std::string::npos);
  CHECK(admin("CLIENT UNPAUSE") == ok);
  CHECK(writer.take() == ok);
  CHECK(blocked(admin) == "blocked_clients:0");
}

TEST_CASE("WATCH erases nothing that expires during a pause") {
  server s;
  client c(s);
  CHECK(c("SET k v PX 10") == ok);
  CHECK(c("CLIENT PAUSE 1000 WRITE") == ok);
  s.pass(20);
  CHECK(c("WATCH k") == ok);
  CHECK(c("DBSIZE") == integer(1));
}

TEST_CASE("what expires during a pause is not found, and is erased after it") {
  server s({}, 2);
  client c(s);
  for (int i = 0; i < 8; ++i) CHECK(c("SET k" + std::to_string(i) + " v PX 10") == ok);
  CHECK(c("CLIENT PAUSE 1000 WRITE") == ok);
  s.pass(20);
  s.of.tick(0);
  for (int i = 0; i < 8; ++i) CHECK(c("GET k" + std::to_string(i)) == null);
  CHECK(c("DBSIZE") == integer(8));
  CHECK(c("INFO stats").find("expired_keys:0\r\n") != std::string::npos);
  CHECK(c("CLIENT UNPAUSE") == ok);
  CHECK(c("GET k0") == null);
  CHECK(c("DBSIZE") == integer(7));
  s.pass(1000);
  s.of.tick(0);
  CHECK(c("DBSIZE") == integer(0));
}
