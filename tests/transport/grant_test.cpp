// The options that a transport grants for requested ones.
#include <doctest/doctest.h>

#include <cordma/net/transport/grant.hpp>

using namespace cordma;
using namespace cordma::transport;

namespace {

// A small device: less of everything than programs request by default.
capabilities little() {
  capabilities c;
  c.operations[static_cast<std::size_t>(service::rc)] = 1U << static_cast<unsigned>(opcode::send);
  c.max_send_depth = 30;
  c.max_recv_depth = 20;
  c.max_segments = 2;
  c.max_inline = 0;
  c.max_read_depth = 4;
  return c;
}

}  // namespace

TEST_CASE("B5: options that nobody chose are lowered to what the device has") {
  const queue_pair_options granted = grant({}, little()).value();
  CHECK(granted.send_depth == 30);
  CHECK(granted.recv_depth == 20);
  CHECK(granted.max_segments == 2);
  CHECK(granted.inline_bytes == 0);
  CHECK(granted.read_depth == 4);
}

TEST_CASE("B5: more than the default, and than the device has, is refused, and named") {
  const result<queue_pair_options> refused = grant({.inline_bytes = 65}, little());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.code() == errc::invalid_value);
  CHECK(refused.why().message().find("inline_bytes 65 is more than") != std::string::npos);
  CHECK(grant({.send_depth = 129}, little()).code() == errc::invalid_value);
  CHECK(grant({.recv_depth = 129}, little()).code() == errc::invalid_value);
  CHECK(grant({.max_segments = 5}, little()).code() == errc::invalid_value);
  CHECK(grant({.read_depth = 17}, little()).code() == errc::invalid_value);
  CHECK(grant({.rnr_retry = 8}, little()).code() == errc::invalid_value);
}
