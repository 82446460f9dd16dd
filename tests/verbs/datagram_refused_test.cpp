// A datagram port with a device or network that refuses its requests: every waiting coroutine
// receives the error.
#include "own_device.hpp"

#include <doctest/doctest.h>
#include <support/fd_count.hpp>

#include <cordma/net/transport/transport.hpp>

#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using namespace cordma::transport;

namespace {

// The program's own device, which refuses receives while it is set to.
class refusing_device {
 public:
  refusing_device() {
    post = device_.context()->ops.post_recv;
    refusing = false;
    device_.context()->ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
      return refusing ? ENOMEM : post(qp, list, bad);
    };
  }
  [[nodiscard]] ibv_pd* pd() noexcept { return device_.pd(); }
  inline static bool refusing = false;

 private:
  inline static decltype(ibv_context_ops::post_recv) post = nullptr;
  own_device device_;
};

verbs_options on(ibv_pd* pd) {
  verbs_options o;
  o.pd = pd;
  return o;
}

queue_pair_options port_options() {
  queue_pair_options o;
  o.type = service::ud;
  return o;
}

bool says(const failure& why, std::string_view words) {
  CAPTURE(why.message());
  return why.message().find(words) != std::string::npos;
}

// Limits the memberships of one socket during its lifetime.
class membership_limit {
 public:
  explicit membership_limit(int most) {
    std::ifstream(path) >> before_;
    set(most);
  }
  membership_limit(const membership_limit&) = delete;
  membership_limit& operator=(const membership_limit&) = delete;
  ~membership_limit() { set(before_); }

 private:
  static constexpr const char* path = "/proc/sys/net/ipv4/igmp_max_memberships";
  static void set(int most) {
    std::ofstream out(path);
    out << most << std::flush;
    REQUIRE(out.good());
  }
  int before_ = 0;
};

}  // namespace

TEST_CASE(
    "L7: a receive that cannot wait on after a datagram too long for it ends as an error, not as "
    "0 bytes") {
  refusing_device hardware;
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  const std::shared_ptr<domain> device = make_verbs(on(hardware.pd())).value();
  const std::unique_ptr<adapter> at = device->open(loop).value();
  const std::unique_ptr<queue_pair> sender = at->create(port_options()).value();
  const std::unique_ptr<queue_pair> receiver = at->create(port_options()).value();
  std::array<std::byte, 128> memory{};
  const memory_keys keys =
      device
          ->register_memory(
              {.addr = memory.data(), .length = memory.size(), .rights = access::local_write})
          .value();
  const segment into{memory.data(), 8, keys.lkey};
  const segment from{memory.data() + 64, 64, keys.lkey};
  const datagram_peer to = receiver->self().value();
  datagram_peer who;
  completion now;
  static_cast<void>(
      receiver->post_recv({.id = 1, .segment_count = 1, .segments = &into, .from = &who}, now));
  refusing_device::refusing = true;
  static_cast<void>(sender->post_send(
      {.id = 2, .op = opcode::send, .segment_count = 1, .segments = &from, .to = &to}, now));
  std::vector<completion> all;
  while (all.size() < 2) {
    std::array<completion, 4> taken;
    bool progressed = false;
    const std::size_t n = at->poll(taken, progressed);
    all.insert(all.end(), taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(n));
  }
  for (const completion& c : all) {
    CHECK(c.status == (c.id == 1 ? wc_status::general_err : wc_status::success));
  }
  REQUIRE(at->has_events());
  const cm_event told = at->next_event();
  CHECK(told.pair == receiver.get());
  CHECK(told.what == cm_event::type::disconnected);
  CHECK(told.why.code() == errc::driver);
  CHECK(told.why.os_errno() == ENOMEM);
  CHECK(says(told.why, "ask for smaller depths"));
  device->deregister_memory(keys.lkey);
}

TEST_CASE("L7: a group of which the network cannot be told is not joined, and can be later") {
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  const std::shared_ptr<domain> device = make_verbs({}).value();
  const std::unique_ptr<adapter> at = device->open(loop).value();
  const std::unique_ptr<queue_pair> port = at->create(port_options()).value();
  const address group{.host = "239.192.7.7"};
  {
    const no_descriptors now;
    const result<void> joined = port->join(group);
    CHECK(joined.code() == errc::no_memory);
    REQUIRE_FALSE(joined.ok());
    CHECK(says(joined.why(), "ulimit -n"));
  }
  {
    const membership_limit none(0);
    const result<void> joined = port->join(group);
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.why().os_errno() == ENOBUFS);
    CHECK(says(joined.why(), "igmp_max_memberships"));
  }
  CHECK(port->leave(group).code() == errc::not_found);
  CHECK(port->join(group).ok());
  CHECK(port->leave(group).ok());
}
