// The server's half of a run.
#include "party.hpp"
#include "session.hpp"
#include "syscall_counter.hpp"
#include "tests.hpp"

#include <cordma/runtime/scope.hpp>

namespace perf {
namespace {

using cordma::task;

constexpr double longest_greeting_s = 10;  // from the connection to the first request
// between two phases, and beyond the expected duration of a phase
constexpr double longest_pause_s = 60;
constexpr double most_times_expected = 20;  // because the first estimate may be far off

// Closes the connection of a client that is silent for too long, so that the next one is served.
class patience final : public cordma::timer {
 public:
  patience(cordma::reactor& loop, cordma::Endpoint& client, cordma::scope& connections) noexcept
      : timer([](timer& t) noexcept {
          auto& self = static_cast<patience&>(t);
          self.connections_.cancel();
          self.client_.abort();
        }),
        loop_(loop),
        client_(client),
        connections_(connections) {}
  void wait_for(double seconds) noexcept {
    loop_.add(*this, cordma::after(loop_.now(),
                                   cordma::duration(static_cast<std::int64_t>(seconds * 1e9))));
  }
  void rest() noexcept { loop_.remove(*this); }

 private:
  cordma::reactor& loop_;
  cordma::Endpoint& client_;
  cordma::scope& connections_;
};

// Only the middle of the phase matters, and only on a side that acts.
void prepare(party& p, const order& o) {
  for (const std::unique_ptr<lane>& l : p.lanes) {
    prepare_memory(*l);
    l->stall_at = ~std::uint64_t{0};
  }
  if (!o.stalls || p.what.stall_ms == 0) return;
  lane& first = *p.lanes.front();
  const std::uint64_t before = p.what.facts().what == verb::am ? first.handler.handled : 0;
  first.stall_at = before + o.count / 2;
}

task<closing> serve_phase(party& p, channel& control, syscall_counter& counter, order o) {
  prepare(p, o);
  const test_facts& f = p.what.facts();
  const cordma::reactor& loop = p.worker().loop();
  const usage before = take_usage(loop);
  const std::string ready = "{}";
  cordma::recv_operation over = control.expect();
  if (f.server_is_told()) over.start();
  cordma::send_operation told = control.tell(ready);
  told.start();
  if (o.count_syscalls) counter.start();
  if (f.server_acts()) co_await p.run(server_side, o.count);
  closing result;
  if (o.count_syscalls && f.server_acts()) result.syscalls = counter.stop();
  co_await told;
  bool complete = true;
  if (f.server_is_told()) {
    const cordma::Received got = co_await over;
    const order stop = decode_order(control.text(got));
    complete = stop.count == o.count;
    if (o.count_syscalls && !f.server_acts()) result.syscalls = counter.stop();
  }
  result.spent = take_usage(loop) - before;
  if (loop.mode() == cordma::wait_mode::adaptive) {
    result.wake_cost_ns = std::chrono::nanoseconds(loop.wake_cost()).count();
  }
  for (const std::unique_ptr<lane>& l : p.lanes) {
    if (complete) inspect_memory(*l, o.count);
  }
  result.wrong = p.wrong();
  co_return result;
}

// Creates a side for the client's request, or states in `answer` why it cannot.
std::unique_ptr<party> party_for(cordma::Context& context, cordma::Worker& worker,
                                 cordma::Endpoint& control, std::string_view asked,
                                 welcome& answer) {
  try {
    const opening o = decode_opening(asked);
    auto p = std::make_unique<party>(context, worker, control, o.what);
    p->attach(o.blob);
    answer.blob = p->blob();
    answer.port = p->listen();
    return p;
  } catch (const cordma::error& e) {
    answer.complaint = e.what();
    return nullptr;
  }
}

}  // namespace

task<void> serve(serving& all, cordma::ConnectionRequest request) {
  cordma::connect_options options;
  options.endpoint = options_for(all.context, decode_greeting(request.private_data()));
  cordma::Endpoint endpoint = co_await request.accept(options);
  channel control(all.context, endpoint);
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope connections(me);
  patience limit(all.worker.loop(), endpoint, connections);
  limit.wait_for(longest_greeting_s);
  cordma::recv_operation first = control.expect();
  const cordma::Received got = co_await first;
  limit.rest();
  const cordma::mutex::guard turn = co_await all.turn.lock();
  syscall_counter counter;
  welcome answer;
  answer.wait = all.waits;
  answer.counts_syscalls = counter.obstacle().empty();
  const std::unique_ptr<party> p =
      party_for(all.context, all.worker, endpoint, control.text(got), answer);
  if (p != nullptr) connections.spawn(p->accept());
  std::string text = encode(answer);
  for (;;) {
    limit.wait_for(longest_pause_s);
    const std::string asked = co_await control.ask(std::move(text));
    const order next = decode_order(asked);
    if (next.what != order::kind::run || p == nullptr) break;
    limit.wait_for(longest_pause_s + most_times_expected * next.expected_s);
    co_await connections.join();
    const closing cost = co_await serve_phase(*p, control, counter, next);
    text = encode(cost);
  }
  limit.rest();
  co_await endpoint.close();
}

}  // namespace perf
