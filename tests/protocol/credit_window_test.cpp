// Credits: no message without a receive, no wait without end, counts that wrap.
#include <doctest/doctest.h>

#include <cordma/net/protocol/credit_window.hpp>

#include <deque>
#include <random>

using namespace cordma::protocol;

namespace {

// A frame in flight: a message, or only the fields of every frame.
struct frame {
  bool message;
  std::uint16_t given;
};

struct side {
  explicit side(std::uint16_t window) : out(window), in(window) {}
  send_credits out;
  receive_window in;
  std::deque<frame> arriving;  // in order
  int held = 0;                // messages received without a returned receive
  int sent = 0;
  int received = 0;
};

void send(side& from, side& to, bool message) {
  if (message) {
    from.out.take();
    ++from.sent;
  }
  to.arriving.push_back({message, from.in.say()});
}

// One random step; false if that step is not possible.
bool step(std::mt19937_64& chance, side& me, side& peer, int wanted, int window) {
  switch (chance() % 4) {
    case 0:
      if (me.sent == wanted || me.out.available() == 0) return false;
      send(me, peer, true);
      return true;
    case 1: {
      if (me.arriving.empty()) return false;
      const frame f = me.arriving.front();
      me.arriving.pop_front();
      REQUIRE(me.out.on_given(f.given));
      if (f.message) ++me.held;
      REQUIRE(me.held <= window);  // there was a receive for it
      return true;
    }
    case 2:
      if (me.held == 0) return false;
      --me.held;
      ++me.received;
      REQUIRE(me.in.give_back() == me.in.has_to_say());
      return true;
    default:
      if (!me.in.has_to_say()) return false;
      send(me, peer, false);
      return true;
  }
}

void play(std::uint64_t seed, int window, int wanted_a, int wanted_b) {
  CAPTURE(seed);
  CAPTURE(window);
  std::mt19937_64 chance(seed);
  side a(static_cast<std::uint16_t>(window));
  side b(static_cast<std::uint16_t>(window));
  const std::uint64_t tilt = 1 + chance() % 9;  // one side is slower, or the other
  int idle = 0;
  while (a.received < wanted_b || b.received < wanted_a) {
    const bool went = chance() % 10 < tilt ? step(chance, a, b, wanted_a, window)
                                           : step(chance, b, a, wanted_b, window);
    idle = went ? 0 : idle + 1;
    REQUIRE(idle < 10'000);  // otherwise neither side can make progress
  }
}

}  // namespace

TEST_CASE(
    "N2: by chance, with windows of 1 to 7, nobody waits for ever, and no message lacks its "
    "receive [1000 seeds]") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto window = static_cast<int>(1 + seed % 7);
    play(seed, window, 300, seed % 3 == 0 ? 0 : 300);  // in one direction, too
  }
}

TEST_CASE("N2: counts wrap at 2^16 [200,000 messages]") {
  play(1, 5, 200'000, 1000);
  play(2, most_credits, 200'000, 0);
}

TEST_CASE(
    "N2: a count that goes back, or was said before, changes nothing; one beyond the window is "
    "refused") {
  send_credits credits(8);
  for (int i = 0; i < 5; ++i) credits.take();
  CHECK(credits.available() == 3);
  CHECK(credits.on_given(12));
  CHECK(credits.available() == 7);
  CHECK(credits.on_given(10));
  CHECK(credits.available() == 7);
  CHECK_FALSE(credits.on_given(14));
  CHECK_FALSE(credits.on_given(40'000));
  CHECK(credits.available() == 7);
}

TEST_CASE("N2: a peer that has used all it knows of is told of a single one that is back") {
  receive_window window(8);
  for (int i = 0; i < 7; ++i) REQUIRE(window.take());
  window.give_back();
  CHECK_FALSE(window.has_to_say());  // the peer knows of one more
  REQUIRE(window.take());
  CHECK(window.has_to_say());
  CHECK(window.say() == 9);
  CHECK_FALSE(window.has_to_say());
}
