#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/protocol/stream_window.hpp>

#include <deque>

using namespace cordma;
using namespace cordma::protocol;
using namespace cordma::test;

namespace {

struct word {
  std::uint64_t bytes = 0;  // 0: a window update
  std::uint64_t consumed = 0;
  std::uint64_t given = 0;
  bool other = false;  // for mapped memory, or the end
};

struct side {
  side(std::uint64_t window, std::uint32_t notices)
      : sender(window, notices), reader(window, notices) {}
  stream_sender sender;
  stream_reader reader;
  std::deque<word> wire;  // to the other side, in order
  std::uint64_t to_send = 0;
  std::uint64_t to_say = 0;  // other messages
};

void tell(side& s) {
  if (!s.reader.has_to_tell() || !s.sender.may_speak()) return;
  s.sender.speak();
  s.wire.push_back({.consumed = s.reader.consumed(), .given = s.reader.given()});
  s.reader.told();
}

// One random step; false: it found nothing to do.
bool step(side& me, side& other, dice& d) {
  const std::uint64_t room = std::min(me.sender.room(), me.to_send);
  switch (d.below(4)) {
    case 0: {
      if (room == 0) return false;
      const std::uint64_t n = 1 + d.below(room);
      me.sender.send(n);
      me.to_send -= n;
      me.wire.push_back({.bytes = n});
      return true;
    }
    case 1: {
      if (other.wire.empty()) return false;
      const word w = other.wire.front();
      other.wire.pop_front();
      if (w.other) {
        CHECK(w.bytes == 0);
      } else if (w.bytes != 0) {
        REQUIRE(me.reader.on_arrived(w.bytes));
      } else {
        REQUIRE(me.sender.on_told(w.consumed, w.given));
      }
      me.reader.give_back();
      tell(me);
      return true;
    }
    case 2: {
      if (me.to_say == 0 || !me.sender.has_notice()) return false;
      --me.to_say;
      me.sender.speak();
      me.wire.push_back({.other = true});
      return true;
    }
    default: {
      if (me.reader.available() == 0) return false;
      me.reader.consume(1 + d.below(me.reader.available()));
      tell(me);
      return true;
    }
  }
}

}  // namespace

TEST_CASE("N2: two sides with tiny windows never stand still while there is something to send") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    dice d(seed);
    const std::uint64_t window = 1 + d.below(20);
    const auto notices = static_cast<std::uint32_t>(least_notices + d.below(8));
    side a(window, notices);
    side b(window, notices);
    a.to_send = d.below(3000);
    b.to_send = d.below(2) * d.below(3000);
    a.to_say = d.below(2) * d.below(100);
    b.to_say = d.below(2) * d.below(100);
    std::uint64_t idle = 0;
    const auto left = [&] { return a.to_send + b.to_send + a.to_say + b.to_say; };
    while (left() != 0 && idle < 2000) {
      side& me = d.below(2) == 0 ? a : b;
      idle = step(me, &me == &a ? b : a, d) ? 0 : idle + 1;
      REQUIRE(a.wire.size() <= notices);
      REQUIRE(b.wire.size() <= notices);
    }
    REQUIRE(left() == 0);
  }
}

TEST_CASE("a count that cannot be is refused, a late one does no harm") {
  stream_sender s(100, least_notices);
  s.send(60);
  CHECK_FALSE(s.on_told(61, 0));
  CHECK_FALSE(s.on_told(0, least_notices + 2));
  CHECK(s.on_told(60, least_notices + 1));
  CHECK(s.room() == 100);
  CHECK(s.on_told(10, 3));
  CHECK(s.room() == 100);
  stream_reader r(100, least_notices);
  CHECK_FALSE(r.on_arrived(0));
  CHECK_FALSE(r.on_arrived(101));
  CHECK(r.on_arrived(100));
  CHECK_FALSE(r.on_arrived(1));
}
