// cordma and hand-written verbs in one program, on one protection domain, created by either of
// them.
#include "own_device.hpp"
#include "raw_loop.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>

using namespace cordma;
using namespace cordma::test;
using transport::kind;

namespace {

context_options on_domain(ibv_pd* pd) {
  context_options o;
  o.transports = {kind::verbs};
  o.verbs.pd = pd;
  return o;
}

// A message over a cordma connection, on one Context.
task<> exchange(Context* context, Worker* worker) {
  Listener listener = worker->listen(own_host() + ":0").value();
  const std::string where = own_host() + ":" + std::to_string(listener.bound().port);
  wire w = co_await connect(*worker, listener, where);
  MemoryRegion out = context->allocate(256).value();
  MemoryRegion in = context->allocate(256).value();
  fill(out.bytes(), 4);
  recv_operation receiving = w.server.recv(in).start();
  co_await w.client.send(out);
  co_await receiving;
  CHECK(filled(in.bytes(), 4));
  co_await w.client.close();
}

void loop_a_message(raw_loop& raw, const MemoryRegion& out, const MemoryRegion& in) {
  raw.post_recv(in.data(), 64, in.lkey(kind::verbs));
  raw.post_send(out.data(), 64, out.lkey(kind::verbs));
  CHECK(raw.next() == IBV_WC_SUCCESS);
  CHECK(raw.next() == IBV_WC_SUCCESS);
}

}  // namespace

TEST_CASE("H1: a hand-written queue pair on our protection domain sends from our memory") {
  const host h;
  Context context = h.context;
  ibv_pd* const pd = context.native_pd().value();
  REQUIRE(pd != nullptr);
  MemoryRegion out = context.allocate(64, every_right).value();
  MemoryRegion in = context.allocate(64, every_right).value();
  ibv_mr* const mr = in.native_mr().value();
  CHECK(mr->pd == pd);
  CHECK(mr->addr == in.data());
  CHECK(mr->lkey == in.lkey(kind::verbs));
  CHECK(in.lkey(kind::shm) == 0);
  raw_loop raw(pd);
  fill(out.bytes(), 1);
  loop_a_message(raw, out, in);
  CHECK(filled(in.bytes(), 1));
  fill(out.bytes(), 2);
  raw.post_write(out.data(), 64, out.lkey(kind::verbs),
                 mr->rkey == 0 ? 0 : exported(in).all().addr(), mr->rkey);
  CHECK(raw.next() == IBV_WC_SUCCESS);
  CHECK(filled(in.bytes(), 2));
  // After its deregistration the device refuses it, for every queue pair.
  const std::uint64_t at = exported(in).all().addr();
  const std::uint32_t stale = mr->rkey;
  REQUIRE(in.deregister().ok());
  raw.post_write(out.data(), 64, out.lkey(kind::verbs), at, stale);
  CHECK(raw.next() == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("H1: a Context on the program's own protection domain leaves it as it was") {
  own_device own;
  raw_loop raw(own.pd());
  {
    Context context(on_domain(own.pd()));
    CHECK(context.native_pd().value() == own.pd());
    Worker worker(context);
    worker.run(exchange(&context, &worker));
    MemoryRegion out = context.allocate(64, every_right).value();
    MemoryRegion in = context.allocate(64, every_right).value();
    fill(out.bytes(), 3);
    loop_a_message(raw, out, in);
    CHECK(filled(in.bytes(), 3));
    // The program reads the device's events.
    device_event_operation op = worker.next_device_event().start();
    REQUIRE(op.done());
    CHECK(op.take_result().code() == errc::not_supported);
  }
  std::array<std::byte, 128> memory{};
  constexpr unsigned writable = IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* const mr = ibv_reg_mr(own.pd(), memory.data(), memory.size(), writable);
  REQUIRE(mr != nullptr);
  fill(std::span(memory).first(64), 5);
  raw.post_recv(&memory[64], 64, mr->lkey);
  raw.post_send(memory.data(), 64, mr->lkey);
  CHECK(raw.next() == IBV_WC_SUCCESS);
  CHECK(raw.next() == IBV_WC_SUCCESS);
  CHECK(filled(std::span(memory).subspan(64), 5));
  CHECK(ibv_dereg_mr(mr) == 0);
}

TEST_CASE("H1: two Contexts share the program's domain, and go in any order") {
  own_device own;
  std::optional<Context> first(on_domain(own.pd()));
  Context second(on_domain(own.pd()));
  Worker worker(second);
  first.reset();
  worker.run(exchange(&second, &worker));
}

TEST_CASE("H1: a device that is not the domain's is refused, and so is a default without it") {
  own_device own;
  context_options o = on_domain(own.pd());
  o.verbs.device = "mlx5_7";
  for (const bool by_name : {true, false}) {
    CAPTURE(by_name);
    if (!by_name) o.transports.clear();
    try {
      const Context context(o);
      FAIL("it was taken");
    } catch (const error& e) {
      CHECK(e.why().code() == errc::invalid_value);
      const std::string said = e.what();
      CAPTURE(said);
      CHECK(said.find("is not the device of the protection domain, rxe0") != std::string::npos);
    }
  }
}
