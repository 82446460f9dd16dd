// Every guarantee of the protocols that is broken on purpose is detected, and the message contains
// the values.
#include <doctest/doctest.h>

#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/stream_window.hpp>

#include "support/last_words.hpp"

using namespace cordma;
using testing::last_words;
using testing::says;

TEST_CASE("credits are never negative: none is taken that was not given") {
  const std::string said = last_words([] {
    protocol::send_credits credits(2);
    for (int i = 0; i < 3; ++i) credits.take();
  });
  CAPTURE(said);
  CHECK(says(said, "REQUIRE failed: available() != 0, with 0 and 0"));
}

TEST_CASE("credits are never negative: none is put back that was not taken") {
  const std::string said = last_words([] {
    protocol::send_credits credits(2);
    credits.put_back();
  });
  CAPTURE(said);
  CHECK(says(said, "REQUIRE failed: available() < window_, with 2 and 2"));
}

TEST_CASE("a stream's writer stays within the window") {
  const std::string said = last_words([] {
    protocol::stream_sender sender(100, protocol::least_notices);
    sender.send(60);
    sender.send(60);
  });
  CAPTURE(said);
  CHECK(says(said, "REQUIRE failed: bytes <= room(), with 60 and 40"));
}
