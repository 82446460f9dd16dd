#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

shm_options in(const scratch& s) {
  shm_options o;
  o.directory = s.path;
  return o;
}

// Token of a descriptor: the side with the smaller one dials.
std::uint64_t token_of(std::span<const std::byte> descriptor) {
  std::uint64_t token = 0;
  std::memcpy(&token, descriptor.data() + 8, sizeof token);
  return token;
}

}  // namespace

TEST_CASE("shm: two queue pairs connect by exchanging descriptors") {
  for (int round = 0; round < 8; ++round) {  // the dialing side is random
    scratch dir;
    host x(in(dir));
    host y(in(dir));
    x.q = std::move(*x.a->create({}));
    y.q = std::move(*y.a->create({}));
    const auto dx = *x.q->descriptor();
    const auto dy = *y.q->descriptor();
    CHECK(x.q->connect(dx).code() == errc::invalid_value);
    memory mx(*x.d, 64, everything, true);
    memory my(*y.d, 64, everything, true);
    x.recv(1, mx.at(0, 8));  // legal before the connection is up
    REQUIRE(x.q->connect(dy).ok());
    REQUIRE(y.q->connect(dx).ok());
    CHECK(x.q->connect(dy).code() == errc::bad_state);
    REQUIRE(pump(x, y, [&] {
      return x.saw(cm_event::type::established) != nullptr &&
             y.saw(cm_event::type::established) != nullptr;
    }));
    CHECK(x.q->connect(dy).code() == errc::bad_state);
    CHECK(x.q->descriptor().code() == errc::bad_state);
    y.send(2, my.at(0, 8));
    CHECK(pump(x, y, [&] { return x.find(1) != nullptr; }));
    // A descriptor is valid for one connection; after a restart it is stale.
    host z(in(dir));
    z.q = std::move(*z.a->create({}));
    const auto late = z.q->connect(dx);
    if (!late.ok()) CHECK(late.code() == errc::unreachable);
  }
}

TEST_CASE("shm: a queue pair whose call reached nobody calls again, by the same descriptor") {
  scratch dir;
  host x(in(dir));
  host y(in(dir));
  x.q = std::move(*x.a->create({}));
  y.q = std::move(*y.a->create({}));
  const bool x_calls = token_of(*x.q->descriptor()) < token_of(*y.q->descriptor());
  host& caller = x_calls ? x : y;
  host& other = x_calls ? y : x;
  const auto own = *caller.q->descriptor();
  const auto stale = *other.q->descriptor();
  other.q.reset();
  for (int i = 0; i < 2; ++i) {
    CHECK(caller.q->connect(stale).code() == errc::unreachable);
    CHECK(*caller.q->descriptor() == own);
  }
  other.q = std::move(*other.a->create({}));
  REQUIRE(caller.q->connect(*other.q->descriptor()).ok());
  REQUIRE(other.q->connect(own).ok());
  CHECK(pump(x, y, [&] {
    return x.saw(cm_event::type::established) != nullptr &&
           y.saw(cm_event::type::established) != nullptr;
  }));
}

TEST_CASE("shm: every damaged descriptor is connection_aborted [all bits, all lengths]") {
  scratch dir;
  host x(in(dir));
  host y(in(dir));
  x.q = std::move(*x.a->create({}));
  y.q = std::move(*y.a->create({}));
  const auto good = *y.q->descriptor();
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    CAPTURE(bit);
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CHECK(x.q->connect(bad).code() == errc::connection_aborted);
  }
  for (std::size_t n = 0; n < good.size(); ++n) {
    CHECK(x.q->connect(std::span(good).first(n)).code() == errc::connection_aborted);
  }
  CHECK(x.q->connect(good).ok());
}

TEST_CASE("shm: a peer that never comes is timed_out [virtual time]") {
  scratch dir;
  virtual_clock time;
  host x(in(dir), wait_mode::polling, &time);
  host y(in(dir));
  x.q = std::move(*x.a->create({}));
  y.q = std::move(*y.a->create({}));
  REQUIRE(x.q->connect(*y.q->descriptor()).ok());
  time.advance_to(time.now() + std::chrono::seconds(5));
  REQUIRE(pump(x, [&] { return x.saw(cm_event::type::failed) != nullptr; }));
  CHECK(x.saw(cm_event::type::failed)->why.code() == errc::timed_out);
}

}  // namespace cordma::transport::shm_test
