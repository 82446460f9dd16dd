#include "session.hpp"

#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <cmath>

namespace perf {
namespace {

constexpr std::uint64_t first_guess = 16;  // iterations, while their duration is not known
constexpr double warm_share = 0.1;         // of the duration goes to warming up,
constexpr double longest_warm_s = 0.2;     // but not more than this
constexpr double fastest_growth = 16;      // of the guess from round to round

// Room for the window, as far as every transport that may be chosen has it; the rest waits its turn.
cordma::endpoint_options depths(const cordma::Context& context, std::uint32_t outstanding) {
  cordma::endpoint_options o;
  std::uint32_t sends = outstanding;
  std::uint32_t receives = outstanding;
  std::uint32_t reads = outstanding;
  for (const cordma::transport::capabilities& c : context.transports()) {
    sends = std::min(sends, c.max_send_depth);
    receives = std::min(receives, c.max_recv_depth);
    reads = std::min(reads, c.max_read_depth);
  }
  o.send_depth = std::max(o.send_depth, sends);
  o.recv_depth = std::max(o.recv_depth, receives);
  o.read_depth = std::max(o.read_depth, reads);
  return o;
}

// Whether the server does more than to make progress.
bool server_acts(const plan& p) noexcept {
  const shape form = facts(p.what).form;
  return form == shape::ping_pong || form == shape::to_receiver;
}

// A phase as the client saw it.
struct phase {
  std::uint64_t count = 0;
  double elapsed_s = 0;
  double ns_per_tick = 0;
  usage client;
  closing server;
};

cordma::task<phase> run_phase(cordma::Worker& worker, lane& l, channel& control,
                              std::uint64_t count) {
  l.samples.clear();
  std::string go = encode(order{order::kind::run, count});
  const std::string ready = co_await control.ask(std::move(go));
  const shape form = facts(l.what.what).form;
  const usage before = take_usage(worker.loop());
  const instant began = now();
  cordma::recv_operation answer = control.expect();
  // In ping-pong the receive of the answer has to stand behind those of the messages.
  if (form != shape::ping_pong) answer.start();
  co_await client_side(l, count);
  instant ended = now();
  usage after = take_usage(worker.loop());
  if (form == shape::ping_pong) answer.start();
  const std::string over = encode(order{order::kind::stop, count});
  cordma::send_operation stop = control.tell(over);
  if (!server_acts(l.what)) co_await stop;
  const cordma::Received got = co_await answer;
  if (form == shape::to_receiver) {  // it is over when the server has it all
    ended = now();
    after = take_usage(worker.loop());
  }
  phase result;
  result.count = count;
  result.elapsed_s = static_cast<double>(ended.ns - began.ns) / 1e9;
  result.ns_per_tick =
      static_cast<double>(ended.ns - began.ns) / static_cast<double>(ended.ticks - began.ticks);
  result.client = after - before;
  result.server = decode_closing(control.text(got));
  co_return result;
}

// Runs longer and longer phases until one says how many iterations the duration will take.
cordma::task<std::uint64_t> warm_up_and_count(cordma::Worker& worker, lane& l, channel& control) {
  const double duration = l.what.duration_s;
  const double enough = std::min(duration * warm_share, longest_warm_s);
  std::uint64_t guess = first_guess;
  for (;;) {
    const phase p = co_await run_phase(worker, l, control, guess);
    if (p.elapsed_s >= enough) {
      const double wanted = static_cast<double>(guess) * duration / p.elapsed_s;
      co_return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
    }
    const double growth = std::clamp(1.5 * enough / p.elapsed_s, 2.0, fastest_growth);
    guess = static_cast<std::uint64_t>(static_cast<double>(guess) * growth);
  }
}

latency summary(const histogram& samples, double us_per_tick) noexcept {
  latency t;
  t.mean = samples.mean() * us_per_tick;
  t.p50 = samples.at(0.50) * us_per_tick;
  t.p90 = samples.at(0.90) * us_per_tick;
  t.p99 = samples.at(0.99) * us_per_tick;
  t.p999 = samples.at(0.999) * us_per_tick;
  t.max = static_cast<double>(samples.max()) * us_per_tick;
  return t;
}

void judge(outcome& o, const lane& l, const phase& p) {
  if (l.wrong != 0) {
    o.complaints.push_back(std::to_string(l.wrong) + " messages were wrong at the client");
  }
  if (p.server.wrong != 0) {
    o.complaints.push_back(std::to_string(p.server.wrong) + " messages were wrong at the server");
  }
  if (facts(o.asked.what).latency() && l.samples.count() != p.count) {
    o.complaints.push_back(std::to_string(l.samples.count()) + " samples of " +
                           std::to_string(p.count) + " iterations");
  }
}

outcome conclude(const lane& l, const phase& p) {
  outcome o;
  o.asked = l.what;
  o.iterations = p.count;
  o.transport = cordma::transport::name(l.endpoint.transport());
  o.reason = l.endpoint.transport_reason();
  o.peer = l.endpoint.peer_address();
  o.elapsed_s = p.elapsed_s;
  o.client = p.client;
  o.server = p.server.spent;
  o.counters = l.endpoint.counters();
  if (facts(l.what.what).latency()) {
    const double ways = facts(l.what.what).form == shape::ping_pong ? 2 : 1;
    o.time = summary(l.samples, p.ns_per_tick / 1e3 / ways);
  }
  judge(o, l, p);
  return o;
}

}  // namespace

namespace {

void prepare_second(cordma::Worker& worker, lane& l) {
  if (facts(l.what.what).over == carrier::plain) return;
  l.other = std::make_unique<beside>(worker);
  l.other->messages.on(the_handler,
                       [&l](cordma::ActiveMessage m) { return answer(&l, std::move(m)); });
}

cordma::connect_options second_options(cordma::Context& context, lane& l) {
  cordma::connect_options o;
  o.endpoint = depths(context, l.what.outstanding);
  o.transport = l.endpoint.transport();
  if (facts(l.what.what).over == carrier::messages) o.messages = &l.other->messages;
  return o;
}

cordma::task<void> use_second(cordma::Context* context, lane* l, cordma::Endpoint made) {
  if (facts(l->what.what).over == carrier::messages) {
    l->other->endpoint = std::move(made);
  } else {
    l->other->stream = co_await cordma::Stream::open(*context, std::move(made));
  }
}

cordma::task<void> connect_second(cordma::Context& context, cordma::Worker& worker, lane& l,
                                  std::string address, std::uint16_t port) {
  prepare_second(worker, l);
  if (l.other == nullptr) co_return;
  cordma::transport::address to = cordma::parse_address(address).value();
  to.port = port;
  cordma::Endpoint made = co_await worker.connect(to.text(), second_options(context, l));
  co_await use_second(&context, &l, std::move(made));
}

cordma::task<void> accept_second(cordma::Context* context, lane* l) {
  cordma::ConnectionRequest request = co_await l->other->listener.next();
  cordma::Endpoint made = co_await request.accept(second_options(*context, *l));
  co_await use_second(context, l, std::move(made));
}

}  // namespace

cordma::task<outcome> measure(cordma::Context& context, cordma::Worker& worker, std::string address,
                              plan what, progress_line& progress) {
  const auto hello = greeting(what.outstanding);
  cordma::connect_options options;
  options.endpoint = depths(context, what.outstanding);
  options.private_data = hello;
  options.transport = what.transport;
  cordma::Endpoint endpoint = co_await worker.connect(address, options);
  channel control(context, endpoint);
  lane l(context, endpoint, what);
  std::string first = encode(opening{what, l.blob()});
  const std::string answered = co_await control.ask(std::move(first));
  const welcome greeted = decode_welcome(answered);
  if (!greeted.complaint.empty()) {
    cordma::throw_error({cordma::errc::rejected, "the server: " + greeted.complaint});
  }
  l.attach(greeted.blob);
  co_await connect_second(context, worker, l, address, greeted.port);

  std::uint64_t count = what.iterations;
  std::uint64_t warmup = what.warmup.value_or(count / 10);
  if (count == 0) count = co_await warm_up_and_count(worker, l, control);
  if (warmup != 0) co_await run_phase(worker, l, control, warmup);
  l.progress.store(0);
  progress.start(std::string(facts(what.what).name), l.progress, count);
  const phase measured = co_await run_phase(worker, l, control, count);
  progress.stop();
  outcome result = conclude(l, measured);
  result.server_wait = greeted.wait;
  const std::string bye = encode(order{order::kind::bye, 0});
  co_await control.tell(bye);
  co_await endpoint.close();
  co_return result;
}

namespace {

cordma::task<closing> serve_phase(cordma::Worker& worker, lane& l, channel& control,
                                  std::uint64_t count) {
  prepare_memory(l);
  const usage before = take_usage(worker.loop());
  std::string ready = "{}";
  if (server_acts(l.what)) {
    cordma::send_operation told = control.tell(ready);
    told.start();
    co_await server_side(l, count);
    co_await told;
  } else {
    const std::string stop = co_await control.ask(std::move(ready));
    static_cast<void>(decode_order(stop));
  }
  closing result;
  result.spent = take_usage(worker.loop()) - before;
  inspect_memory(l, count);
  result.wrong = l.wrong;
  co_return result;
}

// A lane for what the client asks for, or why there is none.
std::unique_ptr<lane> prepare(cordma::Context& context, cordma::Worker& worker,
                              cordma::Endpoint& endpoint, std::string_view asked, welcome& answer) {
  try {
    const opening o = decode_opening(asked);
    auto l = std::make_unique<lane>(context, endpoint, o.what);
    l->attach(o.blob);
    answer.blob = l->blob();
    prepare_second(worker, *l);
    if (l->other != nullptr) {
      cordma::listen_options where;
      where.transport = endpoint.transport();
      const std::string at = context.own_host(endpoint.transport()) + ":0";
      l->other->listener = worker.listen(at, where).value();
      answer.port = l->other->listener.bound().port;
    }
    return l;
  } catch (const cordma::error& e) {
    answer.complaint = e.what();
    return nullptr;
  }
}

}  // namespace

cordma::task<void> serve(cordma::Context& context, cordma::Worker& worker,
                         cordma::ConnectionRequest request) {
  cordma::connect_options options;
  options.endpoint = depths(context, outstanding_of(request.private_data()));
  cordma::Endpoint endpoint = co_await request.accept(options);
  channel control(context, endpoint);
  cordma::recv_operation first = control.expect();
  const cordma::Received got = co_await first;
  welcome answer;
  answer.wait = cordma::name(worker.loop().mode());
  const std::unique_ptr<lane> l = prepare(context, worker, endpoint, control.text(got), answer);
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope second(me);
  if (l != nullptr && l->other != nullptr) second.spawn(accept_second(&context, l.get()));
  std::string text = encode(answer);
  for (;;) {
    const std::string asked = co_await control.ask(std::move(text));
    const order next = decode_order(asked);
    if (next.what != order::kind::run || l == nullptr) break;
    co_await second.join();
    const closing phase_cost = co_await serve_phase(worker, *l, control, next.count);
    text = encode(phase_cost);
  }
  co_await endpoint.close();
}

}  // namespace perf
