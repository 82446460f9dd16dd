#include "pair.hpp"

#include <cordma/runtime/scope.hpp>

#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace instructions {
namespace {

using namespace cordma;

constexpr std::size_t half = 4096;  // bytes to send from, and as many to receive into
constexpr int longest_sleep_ms = 60'000;
constexpr int idle_passes = 32;

void until_asleep(reactor& r) {
  do {
    while (r.turn()) continue;
  } while (r.prepare_wait() != arm_state::armed);
}

// Returns the waits that have ended. Sleeps until one has.
std::array<pollfd, 2> woken(reactor& a, reactor& b) {
  std::array<pollfd, 2> both{{{.fd = a.fd(), .events = POLLIN, .revents = 0},
                              {.fd = b.fd(), .events = POLLIN, .revents = 0}}};
  int ended = -1;
  do {
    ended = ::poll(both.data(), both.size(), longest_sleep_ms);
  } while (ended < 0 && errno == EINTR);
  if (ended <= 0) throw std::runtime_error("both sides sleep, and neither is woken");
  return both;
}

context_options only(transport::kind over) {
  context_options o;
  o.transports = {over};
  return o;
}

// Two running tasks, one on each side.
class both {
 public:
  both(pair& p, task<> of_near, task<> of_far)
      : pair_(p), near_(p.near.worker.loop()), far_(p.far.worker.loop()) {
    near_.spawn(std::move(of_near));
    far_.spawn(std::move(of_far));
  }
  // Runs the far side first, which then has posted its receives before anything is sent.
  void turn_to_the_end() {
    if (near_loop().mode() == wait_mode::polling) return poll_to_the_end();
    sleep_to_the_end();
  }
  // Throws the exceptions of the tasks.
  void join() {
    pair_.near.worker.run(near_.join());
    pair_.far.worker.run(far_.join());
  }

 private:
  [[nodiscard]] reactor& near_loop() { return pair_.near.worker.loop(); }
  [[nodiscard]] reactor& far_loop() { return pair_.far.worker.loop(); }

  void poll_to_the_end() {
    while (near_.running() + far_.running() != 0) {
      (void)far_loop().turn();
      (void)near_loop().turn();
    }
  }
  void sleep_to_the_end() {
    until_asleep(far_loop());
    until_asleep(near_loop());
    while (near_.running() + far_.running() != 0) {
      const std::array<pollfd, 2> over = woken(far_loop(), near_loop());
      if (over[0].revents != 0) wake(far_loop());
      if (over[1].revents != 0) wake(near_loop());
    }
    far_loop().finish_wait();
    near_loop().finish_wait();
  }
  static void wake(reactor& r) {
    r.finish_wait();
    until_asleep(r);
  }

  pair& pair_;
  scope near_;
  scope far_;
};

task<> until_connected(Endpoint* e) {
  while (e->state() == endpoint_state::connecting) co_await e->state_changed();
}

task<> open_stream(side* s) {
  s->stream = co_await Stream::open(s->context, std::move(s->endpoint));
}

Endpoint prepared(side& s, carries what) {
  if (what == carries::messages) s.messages.emplace(s.worker);
  endpoint_options o;
  o.peer_timeout = std::chrono::minutes(10);  // counted code takes ten thousand times as long
  return s.worker.prepare(o, {}, s.messages ? &*s.messages : nullptr).value();
}

RemoteSlice exported(const MemoryRegion& region) {
  return RemoteMemory::import(region.export_blob().value()).value().all();
}

}  // namespace

side::side(const context_options& options, wait_mode waiting)
    : context(options),
      worker(context, reactor_options{.mode = waiting}),
      memory(context.allocate(2 * half).value()),
      offered(context.allocate(half, access::local_write | transport::all_remote).value()) {}

Slice side::out(std::size_t bytes) const { return memory.slice(0, bytes).value(); }
Slice side::in(std::size_t bytes) const { return memory.slice(half, bytes).value(); }

pair::pair(transport::kind over, carries what, wait_mode waiting)
    : pair(only(over), only(over), what, waiting) {}

pair::pair(const context_options& near_options, const context_options& far_options, carries what,
           wait_mode waiting)
    : near(near_options, waiting), far(far_options, waiting) {
  near.peer = exported(far.offered);
  far.peer = exported(near.offered);
  near.endpoint = prepared(near, what);
  far.endpoint = prepared(far, what);
  const std::vector<std::byte> of_near = near.endpoint.descriptor().value();
  const std::vector<std::byte> of_far = far.endpoint.descriptor().value();
  near.endpoint.connect(of_far).value();
  far.endpoint.connect(of_near).value();
  play(until_connected(&near.endpoint), until_connected(&far.endpoint));
  // Messages of the handshake are acknowledged in idle passes, of which a counted round has none.
  for (int i = 0; i < idle_passes; ++i) {
    (void)far.worker.loop().turn();
    (void)near.worker.loop().turn();
  }
  if (what == carries::stream) play(open_stream(&near), open_stream(&far));
}

void pair::play(task<> of_near, task<> of_far) {
  both tasks(*this, std::move(of_near), std::move(of_far));
  tasks.turn_to_the_end();
  tasks.join();
}

}  // namespace instructions
