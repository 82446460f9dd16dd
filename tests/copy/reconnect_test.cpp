// The failures after which a client reconnects, the number of attempts, and the time limit.
#include "../../apps/cp/transfer/reconnect.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace copy;
using cordma::errc;
using cordma::failure;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr stage all_stages[] = {stage::first_connect, stage::transfer, stage::reconnect};

bool is_among(errc code, const std::vector<errc>& codes) {
  return std::ranges::find(codes, code) != codes.end();
}

failure flushed_by(failure cause) {
  failure f(errc::flushed);
  f.with_cause(std::make_shared<const failure>(std::move(cause)));
  return f;
}

// Fails repeatedly at once, from `now` on, without progress after `progress`. Returns the pauses
// until the policy gives up.
std::vector<cordma::duration> pauses(reconnect_policy& policy, cordma::time_point& now,
                                     std::uint64_t progress) {
  std::vector<cordma::duration> all;
  for (;;) {
    const reconnect_policy::verdict v = policy.failed(now, progress);
    CHECK(v.is_new == all.empty());
    if (!v.goes_on) return all;
    all.push_back(v.pause);
    now += v.pause;
    REQUIRE(all.size() < 1000);
  }
}

}  // namespace

TEST_CASE(
    "errors of the network and of a killed process are transient, all other codes are final") {
  const std::vector<errc> transient = {
      errc::timed_out,     errc::shutdown,         errc::connection_reset, errc::connection_aborted,
      errc::not_connected, errc::unreachable,      errc::flushed,          errc::truncated,
      errc::io_failed,     errc::remote_not_ready, errc::remote_access};
  for (int i = 0; i < cordma::errc_count; ++i) {
    const auto code = static_cast<errc>(i);
    CAPTURE(cordma::name(code));
    CHECK_FALSE(is_transient(code, stage::first_connect));
    CHECK(is_transient(code, stage::transfer) == is_among(code, transient));
    CHECK(is_transient(code, stage::reconnect) == is_among(code, transient));
  }
}

TEST_CASE("a completion with the status retry exceeded is transient") {
  failure f(errc::connection_reset);
  f.with_status(12, 0x81).with_operation("write");
  CHECK(is_transient(f, stage::transfer));
  CHECK(is_transient(flushed_by(f), stage::transfer));
}

TEST_CASE("a flushed operation is as transient as the end of its connection") {
  for (const stage during : all_stages) {
    CHECK_FALSE(is_transient(flushed_by(errc::not_permitted), during));
    CHECK_FALSE(is_transient(flushed_by(flushed_by(errc::no_memory)), during));
  }
  CHECK(is_transient(flushed_by(flushed_by(errc::timed_out)), stage::transfer));
}

TEST_CASE("an error of the system that is not of the network is final") {
  constexpr int some_errno = 5;
  for (const errc code : {errc::io_failed, errc::truncated}) {
    CAPTURE(cordma::name(code));
    CHECK_FALSE(is_transient(failure(code).with_errno(some_errno), stage::transfer));
  }
  CHECK(is_transient(failure(errc::connection_reset).with_errno(some_errno), stage::transfer));
}

TEST_CASE("a rejection without a reason, by a listener that ends, is transient") {
  failure by_listener(errc::rejected, "the peer rejected the request");
  by_listener.with_operation("connect");
  CHECK(is_transient(by_listener, stage::reconnect));
  CHECK_FALSE(is_transient(by_listener, stage::transfer));
  CHECK_FALSE(is_transient(by_listener, stage::first_connect));
  CHECK_FALSE(is_transient(failure(errc::rejected, "no module"), stage::reconnect));
}

TEST_CASE("pauses double from 0.1 s to 5 s, and the last attempt is when the time is over") {
  reconnect_policy policy(seconds(20));
  cordma::time_point now{seconds(1000)};
  const std::vector<cordma::duration> all = pauses(policy, now, 7);
  CHECK(all == std::vector<cordma::duration>{milliseconds(100), milliseconds(200),
                                             milliseconds(400), milliseconds(800),
                                             milliseconds(1600), milliseconds(3200), seconds(5),
                                             seconds(5), milliseconds(3700)});
  CHECK(now == cordma::time_point(seconds(1020)));
  CHECK(policy.attempts() == all.size());
  CHECK_FALSE(policy.failed(now, 7).goes_on);
}

TEST_CASE("progress resets the time and the pauses, and starts a new interruption") {
  reconnect_policy policy(seconds(10));
  cordma::time_point now{};
  CHECK(pauses(policy, now, 0).size() > 4);
  const std::vector<cordma::duration> again = pauses(policy, now, 1);
  CHECK(again.front() == reconnect_policy::first_pause);
  CHECK(policy.attempts() == again.size());
  now += seconds(1000);
  CHECK(pauses(policy, now, 2).size() > 4);
}

TEST_CASE("connections without progress do not make the time longer") {
  reconnect_policy policy(seconds(10));
  const cordma::time_point began{seconds(5)};
  CHECK(policy.failed(began, 3).goes_on);
  // The client was connected, and failed again.
  const reconnect_policy::verdict soon = policy.failed(began + seconds(9), 3);
  CHECK(soon.goes_on);
  CHECK_FALSE(soon.is_new);
  CHECK(soon.pause == 2 * reconnect_policy::first_pause);
  CHECK_FALSE(policy.failed(began + seconds(10), 3).goes_on);
  CHECK(policy.failed(began + seconds(10), 4).goes_on);
}

TEST_CASE("an attempt may take the time that is left, at least 2 s; the first one has no limit") {
  reconnect_policy policy(seconds(10));
  const cordma::time_point began{seconds(5)};
  CHECK(policy.time_to_connect(began) == cordma::duration::max());
  CHECK(policy.failed(began, 0).goes_on);
  CHECK(policy.time_to_connect(began + seconds(3)) == seconds(7));
  CHECK(policy.time_to_connect(began + seconds(10)) == reconnect_policy::shortest_attempt);
}

TEST_CASE("without any time the first failure is the last") {
  reconnect_policy policy{cordma::duration::zero()};
  const reconnect_policy::verdict v = policy.failed(cordma::time_point(seconds(1)), 0);
  CHECK_FALSE(v.goes_on);
  CHECK(v.pause == cordma::duration::zero());
}

TEST_CASE("the longest time there is does not overflow") {
  reconnect_policy policy{cordma::duration::max()};
  CHECK(policy.failed(cordma::time_point(seconds(1)), 0).pause == reconnect_policy::first_pause);
}
