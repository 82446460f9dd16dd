// Features that only some transports have: which have them, and how the others refuse them.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <array>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

template <class Result>
void refused(const Result& r, std::string_view saying) {
  REQUIRE(r.code() == errc::not_supported);
  const std::string said = r.why().message();
  CAPTURE(said);
  CHECK(said.find(saying) != std::string::npos);
}

}  // namespace

TEST_CASE("Q9: events of a device are waited for where there is one, and refused otherwise") {
  stage s;
  device_event_operation op = s.client().next_device_event().start();
  CHECK(op.done() != s.caps().tells_device_events);
  if (op.done())
    refused(op.take_result(), "no transport of this Worker tells of a device's events");
}

TEST_CASE("Q12: sleeping through plain messages is refused where every message wakes") {
  stage s;
  const result<void> r = s.client().wake_for(wake_reason::solicited);
  CHECK(r.ok() == s.caps().wakes_selectively);
  if (!r) refused(r, "every message wakes its receiver on " + std::string(name(s.over())));
  CHECK(s.client().wake_for(wake_reason::everything).ok());
}

TEST_CASE("H1: handles of libibverbs are had where it is in use, and refused otherwise") {
  stage s;
  const bool has = s.caps().has_native_handles;
  const result<ibv_pd*> pd = s.client_context().native_pd();
  MemoryRegion memory = client_memory(s, 64);
  const result<ibv_mr*> mr = memory.native_mr();
  CHECK(pd.ok() == has);
  CHECK(mr.ok() == has);
  if (!pd) refused(pd, "stands on libibverbs");
  const result<void> extra = s.client_context().require("asynchronous events");
  CHECK(extra.ok() == has);
  if (!extra) refused(extra, "stands on libibverbs");
  const result<ConnectionRequest> none = s.client().adopt(nullptr);
  if (has) CHECK(none.code() == errc::invalid_value);
  if (!has) refused(none, "stands on libibverbs");
  if (!mr) refused(mr, "stands on libibverbs");
  CHECK(memory.lkey(s.over()) != 0);
  const auto another =
      s.over() == transport::kind::shm ? transport::kind::tcp : transport::kind::shm;
  CHECK(memory.lkey(another) == 0);
  CHECK(MemoryRegion().lkey(s.over()) == 0);
}

namespace {

// A queue that belongs to no transport.
class no_queue final : public transport::receive_queue {
 public:
  [[nodiscard]] std::uint32_t depth() const noexcept override { return 0; }
  void post_recv(const transport::recv_request&) noexcept override {}
  result<void> arm_limit(std::uint32_t) noexcept override { return {}; }
};

}  // namespace

TEST_CASE("Q3: a shared receive queue is had where there is one, and refused otherwise") {
  stage s;
  BufferPool pool(s.server_context(), 64, 8);
  const result<SharedReceive> made = SharedReceive::on_device(s.server(), pool, {.depth = 8});
  const bool has = s.caps().shared_receive_queues;
  CHECK(made.ok() == has);
  CHECK((s.caps().max_shared_depth != 0) == has);
  CHECK((has || s.over() == transport::kind::verbs));  // depends on the device
  if (!made) refused(made, "has shared receive queues");
  no_queue none;
  endpoint_options o;
  o.shared = &none;
  const result<Endpoint> e = s.client().prepare(o);
  CHECK(name(e.code()) == name(has ? errc::invalid_value : errc::not_supported));
  s.play(
      [](stage& on, transport::receive_queue* queue, bool can) -> task<> {
        Listener listener = on.server().listen(on.server_address()).value();
        connect_options to;
        to.endpoint.shared = queue;
        const result<Endpoint> c = co_await on.client().connect(on.reach(listener), to).result();
        CHECK(name(c.code()) == name(can ? errc::invalid_value : errc::not_supported));
        if (!can) refused(c, "has no shared receive queues");
      },
      &none, has);
}

TEST_CASE("Q3: a SharedReceive without a queue has no limit, and is asked for as if it had") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 8);
    SharedReceive arrivals(on.server(), pool, 2);
    CHECK(arrivals.queue() == nullptr);
    const result<void> low = co_await arrivals.low_watermark().result();
    refused(low, "no queue of a transport");
    endpoint_options o;
    o.shared = arrivals.queue();
    wire w = co_await connect(on, endpoint_options(), o);
    CHECK(arrivals.attach(w.server).ok());
    MemoryRegion out = client_memory(on, 64);
    send_operation sending = w.client.send(out).start();
    const Arrival a = co_await arrivals.next();
    CHECK(a.from() == &w.server);
    co_await sending;
  });
}

TEST_CASE("Q12: a solicited message arrives like any other, on every transport, in every mode") {
  for (const wait_mode mode :
       waits_under_test({wait_mode::polling, wait_mode::event, wait_mode::adaptive})) {
    CAPTURE(name(mode));
    stage s({.mode = mode});
    s.play([](stage& on) -> task<> {
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, 64);
      MemoryRegion in = server_memory(on, 64);
      MemoryRegion target = server_memory(on, 64);
      const RemoteMemory remote = exported(target);
      fill(out.bytes(), 1);
      recv_operation first = w.server.recv(in).start();
      co_await w.client.send(out).solicited();
      co_await first;
      CHECK(filled(in.bytes(), 1));
      recv_operation second = w.server.recv(in).start();
      co_await w.client.send_imm(out, 7).solicited();
      const Received with_imm = co_await second;
      CHECK(with_imm.imm == 7);
      recv_operation third = w.server.recv(in).start();
      co_await w.client.write_imm(remote, out, 8).solicited();
      const Received written = co_await third;
      CHECK(written.imm == 8);
      CHECK(filled(target.bytes(), 1));
    });
  }
}

TEST_CASE("Q12: a solicited datagram arrives where there are datagrams" *
          not_on({transport::kind::shm, transport::kind::tcp}, "they carry connections only")) {
  stage s;
  s.play([](stage& on) -> task<> {
    DatagramEndpoint from = on.client().datagram().value();
    DatagramEndpoint to = on.server().datagram().value();
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    fill(out.bytes(), 5);
    datagram_recv_operation receiving = to.recv_from(in).start();
    const datagram_peer peer = to.self().value();
    co_await from.send_to(peer, out).solicited();
    const Datagram got = co_await receiving;
    CHECK(got.bytes == 64);
    CHECK(filled(in.bytes(), 5));
  });
}

TEST_CASE("Q12: what is sent again is solicited again; what the peer does not receive cannot be") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    send_operation sending = w.client.send(out).solicited();
    for (int i = 0; i < 3; ++i) {
      if (i != 0) sending.again(out);
      recv_operation receiving = w.server.recv(in).start();
      co_await sending;
      co_await receiving;
    }
    const RemoteMemory remote = exported(in);
    std::array<send_operation, 3> wrong{w.client.read(remote, out).solicited(),
                                        w.client.write(remote, out).solicited(),
                                        w.client.flush().solicited()};
    for (send_operation& op : wrong) {
      const result<void> r = co_await op.result();
      CHECK(r.code() == errc::invalid_value);
    }
    CHECK(w.client.state() == endpoint_state::connected);
  });
}
