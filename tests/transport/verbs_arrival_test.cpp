// Detection of a UC connection that is stuck. Needs no device.
#include <doctest/doctest.h>

#include <cordma/net/transport/verbs/arrival_watch.hpp>

using cordma::transport::verbs::arrival_watch;

namespace {

constexpr std::uint16_t many = arrival_watch::enough;

// One check, after the peer has reported the total number of messages that it sent.
bool look(arrival_watch& w, int sent, bool receiving = true) {
  w.on_told(static_cast<std::uint16_t>(sent));
  return w.is_over(receiving);
}

}  // namespace

TEST_CASE("UC arrivals: over when many were sent twice, a receive was there, and none came") {
  arrival_watch w;
  CHECK_FALSE(look(w, many));  // the time at which a receive was posted is unknown
  CHECK_FALSE(look(w, 2 * many));
  CHECK(look(w, 3 * many));
}

TEST_CASE("UC arrivals: one that comes begins it all anew") {
  arrival_watch w;
  CHECK_FALSE(look(w, many));
  CHECK_FALSE(look(w, 2 * many));
  w.on_arrival();
  CHECK_FALSE(look(w, 3 * many));
  CHECK_FALSE(look(w, 4 * many));
  CHECK(look(w, 5 * many));
}

TEST_CASE("UC arrivals: without a receive all the time nothing is due") {
  arrival_watch w;
  for (int i = 1; i < 9; ++i) CHECK_FALSE(look(w, i * many, i % 2 == 0));
}

TEST_CASE("UC arrivals: a peer that sends nothing owes nothing, and a few are no sign") {
  arrival_watch w;
  for (int i = 0; i < 100; ++i) CHECK_FALSE(look(w, 0));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(look(w, many - 1));
}

TEST_CASE("UC arrivals: few at a time add up; the peer's count wraps") {
  arrival_watch w;
  int sent = 65530;
  CHECK_FALSE(look(w, sent));
  int looks = 0;
  while (!look(w, ++sent)) ++looks;
  CHECK(looks == 2 * many - 1);
}

TEST_CASE(
    "UC arrivals: what is told are the messages of few packets, and whether there are new ones") {
  arrival_watch w;
  CHECK_FALSE(w.to_tell().news);
  constexpr std::uint32_t mtu = 1024;
  w.on_send(0, mtu);
  w.on_send(arrival_watch::most_packets * mtu, mtu);
  w.on_send(arrival_watch::most_packets * mtu + 1, mtu);
  const arrival_watch::word_of_sent first = w.to_tell();
  CHECK(first.news);
  CHECK(first.sent == 2);
  CHECK_FALSE(w.to_tell().news);
  for (int i = 0; i < 65536 - 2; ++i) w.on_send(1, mtu);
  const arrival_watch::word_of_sent wrapped = w.to_tell();
  CHECK(wrapped.news);
  CHECK(wrapped.sent == 0);
}
