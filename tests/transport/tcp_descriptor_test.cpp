// Connecting by descriptors that are exchanged out of band.
#include <cordma/net/transport/tcp/descriptor.hpp>

#include "tcp_support.hpp"

using namespace tcp_test;

namespace {

struct two_pairs : rig {
  two_pairs() : left(std::move(*a.adapter->create({}))), right(std::move(*b.adapter->create({}))) {}
  std::unique_ptr<tp::queue_pair> left;
  std::unique_ptr<tp::queue_pair> right;
};

}  // namespace

TEST_CASE("tcp: two queue pairs find each other by their descriptors, whoever connects first") {
  for (int round = 0; round < 8; ++round) {
    two_pairs r;
    const auto left = r.left->descriptor().value();
    const auto right = r.right->descriptor().value();
    memory m(*r.domain, 8);
    post_recv(*r.right, 1, m.all());
    tp::queue_pair& first = round % 2 == 0 ? *r.left : *r.right;
    tp::queue_pair& second = round % 2 == 0 ? *r.right : *r.left;
    REQUIRE(first.connect(round % 2 == 0 ? right : left).ok());
    r.settle(200);
    CHECK(r.a.events.empty());
    REQUIRE(second.connect(round % 2 == 0 ? left : right).ok());
    CHECK(r.event(r.a).what == tp::cm_event::type::established);
    CHECK(r.event(r.b).what == tp::cm_event::type::established);
    CHECK(first.connect(left).code() == errc::bad_state);
    CHECK(first.descriptor().code() == errc::bad_state);
    const tp::segment s = m.all();
    post(*r.left, request(opcode::send, 2, s));
    CHECK(r.next(r.b).status == wc_status::success);
    CHECK(r.next(r.a).status == wc_status::success);
  }
}

TEST_CASE("tcp: a descriptor damaged in any byte, or cut off anywhere, is refused") {
  two_pairs r;
  const auto good = r.right->descriptor().value();
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{16};
    CHECK(r.left->connect(bad).code() == errc::connection_aborted);
    bad.resize(i);
    CHECK(r.left->connect(bad).code() == errc::connection_aborted);
  }
  CHECK(r.right->connect(good).code() == errc::connection_aborted);  // its own descriptor
}

TEST_CASE("tcp: a descriptor names one address at least, and most_places at most") {
  namespace tcp = tp::tcp;
  for (std::size_t places = 0; places <= tcp::most_places + 1; ++places) {
    CAPTURE(places);
    tcp::pair_descriptor d;
    d.places.resize(places);
    const auto read = tcp::decode_descriptor(tcp::encode(d));
    const bool allowed = places != 0 && places <= tcp::most_places;
    CHECK(read.code() == (allowed ? errc::ok : errc::connection_aborted));
    if (allowed) CHECK(read->places.size() == places);
  }
}

TEST_CASE("tcp: a descriptor of a queue pair that is gone is refused") {
  for (int round = 0; round < 8; ++round) {
    two_pairs r;
    const auto stale = r.right->descriptor().value();
    r.right = std::move(*r.b.adapter->create({.connect_timeout = std::chrono::milliseconds(50)}));
    const auto left = r.left->descriptor().value();
    REQUIRE(r.left->connect(stale).ok());
    REQUIRE(r.right->connect(left).ok());
    // The dialing side is refused; the listening side times out.
    const tp::cm_event e = r.event(r.b);
    CHECK(e.what == tp::cm_event::type::failed);
    CHECK((e.why.code() == errc::connection_aborted || e.why.code() == errc::timed_out));
  }
}
