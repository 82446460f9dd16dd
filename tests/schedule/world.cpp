#include "world.hpp"

#include "program.hpp"

#include <cordma/runtime/stop.hpp>
#include <cordma/runtime/timeout.hpp>

#include <stop_token>
#include <utility>

namespace cordma::schedule {

using namespace std::chrono_literals;
using test::dice;

namespace {

constexpr duration longest_end = 30s;  // after the last fault, until everything has ended

task<> stop_after(std::stop_source source, duration time) {
  co_await sleep_for(time);
  source.request_stop();
}

// Counts `body` as running until it ends in any way.
task<> counted(world* w, std::string name, task<> body) {
  try {
    co_await std::move(body);
  } catch (const error&) {  // caused by faults
  }
  w->running.erase(w->running.find(name));
}

task<> accept(world* w, link* l, event* accepted) {
  try {
    next_operation next = l->listener.next();
    ConnectionRequest request = co_await with_timeout(5 * patience, std::move(next));
    if (!l->stream && !l->server_at->messages) throw_error(errc::shutdown);
    const connect_options o = options_of(*w, l->stream ? nullptr : l->server_at->messages.get());
    l->server = co_await request.accept(o);
  } catch (const error&) {}
  accepted->set();
}

// One end of the link: starts its sends on `out` and its receives on `in`.
void begin_messages(world& w, Endpoint& end, flow& out, flow& in) {
  out.out = in.in = &end;
  w.receivers->spawn(receive_at_endpoint(&w, &in));
  spawn(w, "messages ", out.number, send_messages(&w, &out, w.chance.below(60 / w.share)));
  const std::uint64_t callers = w.chance.below(4) / w.share;
  for (std::uint64_t i = 0; i < callers; ++i) {
    spawn(w, "requests ", out.number, ask_requests(&w, &out, w.chance.below(15)));
  }
}

task<> use(world* w, link* l) {
  if (!l->server_at->worker || !l->client_at->worker) co_return;  // stopped before it began
  l->listener = l->server_at->worker->listen(l->server_at->name + ":0").value();
  event accepted;
  spawn(*w, "accept ", l->flows[0].number, accept(w, l, &accepted));
  const connect_options o = options_of(*w, l->stream ? nullptr : l->client_at->messages.get());
  Worker& client = *l->client_at->worker;
  const bool early = !l->stream && w->chance.below(2) == 0;
  if (!l->stream && w->chance.below(4) == 0) {
    spawn(*w, "end ", l->flows[0].number, end_link(w, l));
  }
  if (early) {
    l->client = client.endpoint(l->listener.bound().text(), o).value();
    ++w->sum->early;
    begin_messages(*w, l->client, l->flows[0], l->flows[1]);
  } else {
    result<Endpoint> made = co_await client.connect(l->listener.bound().text(), o).result();
    if (made) l->client = std::move(*made);
  }
  co_await accepted.wait();
  ++w->sum->connections;
  if (!l->client || !l->server) co_return;
  l->connected = true;
  if (!l->stream) {
    if (!early) begin_messages(*w, l->client, l->flows[0], l->flows[1]);
    co_return begin_messages(*w, l->server, l->flows[1], l->flows[0]);
  }
  spawn(*w, "stream client ", l->flows[0].number, use_stream(w, l, true));
  spawn(*w, "stream server ", l->flows[0].number, use_stream(w, l, false));
}

// ---- the complete world ----

void make_host(world& w, std::uint64_t number) {
  dice& d = w.chance;
  host_at& h = w.hosts.emplace_back();
  h.name = "h" + std::to_string(number);
  context_options c;
  c.domains.push_back(w.net->make_domain(h.name));
  const std::uint64_t devices = d.below(4) == 0 ? 1 + d.below(2) : 0;
  for (std::uint64_t i = 0; i < devices; ++i) {
    h.rails.push_back(h.name + "." + std::to_string(i));
    c.rail_domains.push_back(w.net->make_domain(h.rails.back()));
  }
  h.context.emplace(c);
  h.worker = std::make_unique<Worker>(*h.context, w.loop);
  message_options o;
  if (d.below(4) != 0) {
    o = {.eager_bytes = static_cast<std::uint32_t>(512 + d.below(3000)),
         .credits = static_cast<std::uint32_t>(2 + d.below(8)),
         .rails = static_cast<std::uint32_t>(d.below(4))};
  } else {
    ++w.sum->by_default;
  }
  h.eager_bytes =
      o.eager_bytes != 0 ? o.eager_bytes : h.context->find(transport::kind::sim)->eager_bytes;
  h.messages = std::make_unique<Messages>(*h.worker, o);
  h.one_by_one = d.below(2) == 0;
  h.claims = d.below(3) == 0;
  h.messages->on(handler_id,
                 [&w, &h](ActiveMessage m) { return handle_message(&w, &h, std::move(m)); });
  serve_requests(w, h, o.credits);
}

void make_link(world& w) {
  dice& d = w.chance;
  link& l = w.links.emplace_back();
  l.client_at = &w.hosts[d.below(w.hosts.size())];
  l.server_at = &w.hosts[d.below(w.hosts.size())];
  l.stream = d.below(4) == 0;
  l.stream_bytes = d.below(40'000 / w.share);
  number(w, l.flows[0], *l.client_at, *l.server_at);
  number(w, l.flows[1], *l.server_at, *l.client_at);
  for (flow& f : l.flows) f.of = &l;
}

// Most worlds are small: most errors among many hosts also occur among few.
std::uint64_t number_of_hosts(dice& d) {
  if (d.below(25) == 0) return 17 + d.below(48);
  if (d.below(8) == 0) return 6 + d.below(11);
  return 2 + d.below(4);
}

void make_world(world& w) {
  dice& d = w.chance;
  transport::sim::network_options n;
  n.seed = w.seed;
  n.link = bad_link(d);
  n.events_with_completions = w.seed % 2 == 0;
  if (d.below(3) == 0) n.refused_puts = 0.1 * static_cast<double>(1 + d.below(9));
  w.crowded = d.below(20) == 0;
  if (w.crowded) n.max_queue_pairs = static_cast<std::uint32_t>(1 + d.below(5));
  w.net.emplace(n, w.loop);
  const std::uint64_t hosts = number_of_hosts(d);
  const bool is_small = hosts <= 5;
  w.share = is_small ? 1 : hosts <= 16 ? 2 : 4;
  if (is_small && d.below(6) == 0) w.longest = huge;
  w.sum->crowds += is_small ? 0U : 1U;
  for (std::uint64_t i = 0; i < hosts; ++i) make_host(w, i);
  const std::uint64_t links = 1 + d.below(hosts * 2 / w.share);
  for (std::uint64_t i = 0; i < links; ++i) make_link(w);
  const std::uint64_t sessions = d.below(3);
  for (std::uint64_t i = 0; i < sessions; ++i) make_session(w);
  if (d.below(3) == 0) make_pool(w);
}

bool has_rails(const Endpoint& e) {
  if (!e) return false;
  for (const transport::property& p : e.properties()) {
    if (p.name == "rails") return p.value != "1";
  }
  return false;
}

void judge(world& w) {
  judge_messages(w);
  judge_requests(w);
  for (link& l : w.links) {
    if (l.stream) judge_stream(w, l);
    w.sum->broken += !l.stream && l.ended == farewell::none && !lives(l) ? 1U : 0U;
    w.sum->closed_well += closed_well(l) ? 1U : 0U;
    w.sum->railed += has_rails(l.client) ? 1U : 0U;
    for (const Endpoint* e : {&l.client, &l.server}) w.sum->waited += *e ? e->counters().waited : 0;
  }
}

task<> close_down(world* w) {
  w->over = true;
  w->all->cancel();
  w->receivers->cancel();
  try {
    co_await w->all->join();
  } catch (const error&) {}
  for (session_at& s : w->sessions) {
    s.session.reset();
    s.accepted.clear();
  }
  for (pool_at& p : w->pools) {
    p.pool.reset();
    p.accepted.clear();
  }
  for (link& l : w->links) {
    l.client = Endpoint();
    l.server = Endpoint();
  }
  for (host_at& h : w->hosts) {
    for (int i = 0; i < 100 && h.holds != 0; ++i) co_await sleep_for(tick);
    if (h.holds != 0) w->wrong("hangs: a message that is held");
    h.requests.reset();
    h.messages.reset();
  }
  try {
    co_await w->receivers->join();
  } catch (const error&) {}
  co_await sleep_for(1ms);
}

task<> run(world* w) {
  task_context& me = co_await this_task();
  scope receivers(me);
  scope all(me);
  w->receivers = &receivers;
  w->all = &all;
  for (host_at& h : w->hosts) {
    const std::uint64_t receives = h.one_by_one ? 1 : 1 + w->chance.below(6);
    for (std::uint64_t i = 0; i < receives; ++i) {
      receivers.spawn(h.claims ? claim_messages(w, &h) : receive_messages(w, &h));
    }
    if (!h.needed && w->chance.below(16) == 0) spawn(*w, "stop of ", 0, stop_host(w, &h));
  }
  for (link& l : w->links) spawn(*w, "link ", l.flows[0].number, use(w, &l));
  for (session_at& s : w->sessions) spawn(*w, "session ", s.number, use_session(w, &s));
  for (pool_at& p : w->pools) spawn(*w, "pool ", p.number, use_pool(w, &p));
  spawn(*w, "faults ", 0, disturb(w));
  const time_point last = w->time.now() + 100ms + longest_end;
  while (!w->running.empty() && w->time.now() < last) co_await sleep_for(1ms);
  for (const std::string& name : w->running) w->wrong("hangs: " + name);
  const time_point drained = w->time.now() + 1s;
  const auto all_here = [w] { return all_messages_arrived(*w) && all_requests_arrived(*w); };
  while (!all_here() && w->time.now() < drained) co_await sleep_for(1ms);
  if (!all_messages_arrived(*w)) w->wrong("a message that was sent is lost");
  if (!all_requests_arrived(*w)) w->wrong("a word that was sent is lost");
  judge(*w);
  co_await close_down(w);
}

}  // namespace

void spawn(world& w, const char* what, std::uint64_t number, task<> body) {
  const std::string name = what + std::to_string(number);
  w.running.insert(name);
  w.all->spawn(counted(&w, name, std::move(body)));
}

MemoryRegion memory(world& w, host_at& at, std::size_t bytes, access right) {
  const access rights = w.chance.below(2) == 0 ? access::local_write : access::local_write | right;
  w.rooms.push_back(std::make_unique<std::byte[]>(bytes));
  return at.context->register_memory({w.rooms.back().get(), bytes}, rights).value();
}

MemoryRegion sure_memory(world& w, host_at& at, std::size_t bytes, access right) {
  try {
    return memory(w, at, bytes, right);
  } catch (const error&) {
    return memory(w, at, bytes, right);
  }
}

connect_options options_of(world& w, Messages* messages) {
  connect_options o;
  o.messages = messages;
  o.endpoint.peer_timeout = o.endpoint.connect_timeout = patience;
  if (w.chance.below(3) == 0) {
    o.endpoint.send_depth = static_cast<std::uint32_t>(2 + w.chance.below(14));
  }
  return o;
}

task<> accept_one(world* w, host_at* at, ConnectionRequest asks, std::deque<Endpoint>* accepted) {
  const connect_options o = options_of(*w, at->messages.get());
  result<Endpoint> made = co_await asks.accept(o).result();
  if (made) accepted->push_back(std::move(*made));
}

task<> stopped_after(world* w, std::uint64_t number, duration time, task<> body) {
  std::stop_source source;
  spawn(*w, "stop ", number, stop_after(source, time));
  std::stop_token token = source.get_token();
  co_await with_stop(token, std::move(body));
}

void number(world& w, flow& f, host_at& from, host_at& to) {
  f.number = w.flows.size();
  f.from = &from;
  f.to = &to;
  w.flows.push_back(&f);
}

bool lives(const link& l) {
  return l.connected && l.client && l.server && l.client.state() == endpoint_state::connected &&
         l.server.state() == endpoint_state::connected;
}

std::string play(std::uint64_t seed, tally& sum) {
  world w(seed);
  w.sum = &sum;
  make_world(w);
  try {
    cordma::run(w.loop, run(&w));
  } catch (const error& e) {
    w.wrong(e.what());
  }
  for (const host_at& h : w.hosts) {
    if (!h.worker) continue;
    if (h.worker->counters().inflight != 0) w.wrong("requests in flight at the end");
    const bool stale = h.worker->counters().stale_completions != 0;
    if (stale && h.sound) w.wrong("completions that nobody waits for");
  }
  add(sum.faults, w.net->faults());
  ++sum.seeds;
  return w.complaint;
}

}  // namespace cordma::schedule
