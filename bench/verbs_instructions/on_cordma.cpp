#include "on_cordma.hpp"

#include <cordma/net/cordma.hpp>

#include <vector>

#include "../verbs_stand_in/device.hpp"

namespace stand_in {
namespace {

using namespace cordma;

// Each operation is constructed, awaited and destroyed.
template <class Make>
task<> one_by_one(Make make, int operations) {
  for (int i = 0; i < operations; ++i) co_await make();
}

template <class Make>
task<> together(Make make, int operations, int at_a_time) {
  std::vector<decltype(make())> under_way;
  under_way.reserve(static_cast<std::size_t>(at_a_time));
  for (int i = 0; i < operations; i += at_a_time) {
    for (int k = 0; k < at_a_time; ++k) {
      under_way.push_back(make());
      under_way.back().start();
    }
    for (auto& one : under_way) co_await one;
    under_way.clear();
  }
}

template <class Make>
task<> kept(Make make, Slice memory, int operations, int at_a_time) {
  std::vector<decltype(make())> all;
  for (int k = 0; k < at_a_time; ++k) all.push_back(make());
  for (auto& one : all) co_await one;
  stepping::begin();
  for (int i = 0; i < operations; i += at_a_time) {
    for (auto& one : all) {
      one.again(memory);
      one.start();
    }
    for (auto& one : all) co_await one;
  }
  stepping::end();
}

template <class Make>
task<> count_made_by(Make make, Slice memory, plan p) {
  if (p.keeps) {
    co_await kept(make, memory, p.operations, p.at_a_time);
    co_return;
  }
  for (int warm = 0; warm < 2; ++warm) {
    if (warm != 0) stepping::begin();
    if (p.at_a_time == 1) {
      co_await one_by_one(make, p.operations);
    } else {
      co_await together(make, p.operations, p.at_a_time);
    }
  }
  stepping::end();
}

task<> connect_and_count(Context* context, Worker* worker, plan p) {
  Endpoint near = worker->prepare().value();
  Endpoint far = worker->prepare().value();
  const std::vector<std::byte> of_near = near.descriptor().value();
  const std::vector<std::byte> of_far = far.descriptor().value();
  near.connect(of_far).value();
  far.connect(of_near).value();
  while (near.state() == endpoint_state::connecting) co_await near.state_changed();
  const MemoryRegion memory = context->allocate(bytes, access::remote_write).value();
  const RemoteMemory remote = RemoteMemory::import(memory.export_blob().value()).value();
  const RemoteSlice to = remote.all();
  const Slice at = memory.all();
  Endpoint* const e = &near;
  const auto write = [e, &to, &at] { return e->write(to, at); };
  const auto send = [e, &at] { return e->send(at); };
  const auto recv = [e, &at] { return e->recv(at); };
  switch (p.op) {
    case what::write: co_await count_made_by(write, at, p); break;
    case what::send: co_await count_made_by(send, at, p); break;
    case what::recv: co_await count_made_by(recv, at, p); break;
  }
}

void play(const plan& p) {
  context_options options;
  options.transports = {transport::kind::verbs};
  options.verbs.pd = make_device();
  options.verbs.calls = transport::verbs_calls::plain;  // as on raw verbs
  Context context(options);
  Worker worker(context, reactor_options{.mode = wait_mode::polling});
  worker.run(connect_and_count(&context, &worker, p));
}

}  // namespace

stepping::counted count_cordma(const plan& p) {
  return stepping::count([&p] { play(p); }, is_device_code);
}

}  // namespace stand_in
