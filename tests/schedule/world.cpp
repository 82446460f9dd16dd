#include "world.hpp"

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace cordma::schedule {

using namespace std::chrono_literals;
using test::dice;

namespace {

constexpr std::size_t largest = 6000;  // bytes of a message
constexpr duration patience = 100ms;   // peer_timeout, connect_timeout
constexpr duration longest_end = 30s;  // after the last fault, for everything to come to an end
constexpr std::uint16_t handler_id = 3;

enum class fate : std::uint8_t { none, ok, canceled, truncated, rejected, failed };

// One message, and what became of it at both sides.
struct sent_message {
  std::uint64_t tag = 0;
  std::uint32_t bytes = 0;
  bool active = false;
  fate outcome = fate::none;
  std::uint32_t arrived = 0;
};

// What every message begins with.
struct stamp {
  std::uint64_t flow;
  std::uint64_t number;
};

struct host_at;

// One direction of a connection.
struct flow {
  std::uint64_t number = 0;
  host_at* from = nullptr;
  host_at* to = nullptr;
  Endpoint* out = nullptr;
  std::vector<sent_message> messages;
  std::array<std::uint64_t, 4> next_of_tag{};
};

struct link {
  bool stream = false;
  host_at* client_at = nullptr;
  host_at* server_at = nullptr;
  Listener listener;
  Endpoint client;
  Endpoint server;
  bool connected = false;
  std::array<flow, 2> flows;
  std::uint64_t stream_bytes = 0;
  std::uint32_t stream_ends = 0;  // directions that were read to their end
};

struct host_at {
  std::string name;
  std::optional<Context> context;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Messages> messages;
  bool one_by_one = false;  // a single receive at a time: then order can be told
  bool alive = true;
};

struct world {
  explicit world(std::uint64_t s) : seed(s), chance(s), loop(reactor_options{.time = &time}) {}

  void wrong(const std::string& what) {
    if (complaint.size() < 300) complaint += (complaint.empty() ? "" : "; ") + what;
  }

  std::uint64_t seed;
  dice chance;
  virtual_clock time;
  reactor loop;
  std::optional<transport::sim::network> net;
  std::deque<host_at> hosts;
  std::deque<link> links;
  std::vector<flow*> flows;
  bool over = false;
  std::multiset<std::string> running;  // tasks that have an end of their own
  std::string complaint;
  tally* sum = nullptr;
};

std::uint64_t seed_of(const stamp& s) { return s.flow * 1'000'003 + s.number; }

void write_message(std::span<std::byte> bytes, const stamp& s) {
  test::fill(bytes, seed_of(s));
  std::memcpy(bytes.data(), &s, sizeof s);
}

// What has arrived, of which `whole` bytes were sent.
void check_arrival(world& w, std::span<const std::byte> got, std::uint64_t whole, bool active,
                   const host_at& at) {
  stamp s;
  if (got.size() < sizeof s) return w.wrong("a message without a stamp");
  std::memcpy(&s, got.data(), sizeof s);
  if (s.flow >= w.flows.size() || s.number >= w.flows[s.flow]->messages.size()) {
    return w.wrong("a stamp that nobody wrote");
  }
  flow& f = *w.flows[s.flow];
  sent_message& m = f.messages[s.number];
  std::vector<std::byte> expected(m.bytes);
  write_message(expected, s);
  if (whole != m.bytes || !std::ranges::equal(got, std::span(expected).first(got.size()))) {
    return w.wrong("wrong bytes");
  }
  if (f.to != &at || m.active != active) return w.wrong("a message at the wrong place");
  if (++m.arrived > 1) return w.wrong("a message arrived twice");
  if (active || !at.one_by_one) return;
  std::uint64_t& next = f.next_of_tag[m.tag % 4];
  if (s.number < next) return w.wrong("a message overtook another of its tag");
  next = s.number + 1;
}

// ---- tasks ----

// Counts its body, whatever becomes of it.
task<> counted(world* w, std::string name, task<> body) {
  try {
    co_await std::move(body);
  } catch (const error&) {  // of the faults
  }
  w->running.erase(w->running.find(name));
}

void spawn(world& w, scope& in, const char* what, std::uint64_t number, task<> body) {
  const std::string name = what + std::to_string(number);
  w.running.insert(name);
  in.spawn(counted(&w, name, std::move(body)));
}

struct pending_send {
  message_send_operation op;
  std::uint64_t number;
};

void settle(world& w, flow& f, const pending_send& p, const result<void>& end) {
  sent_message& m = f.messages[p.number];
  switch (end.code()) {
    case errc::ok: m.outcome = fate::ok; break;
    case errc::canceled:
      m.outcome = fate::canceled;
      ++w.sum->canceled;
      break;
    case errc::truncated:
      m.outcome = fate::truncated;
      ++w.sum->truncated;
      break;
    case errc::rejected: m.outcome = fate::rejected; break;
    default: m.outcome = fate::failed;
  }
}

// Half of it with that right: how a long message comes over follows from what its memory allows.
MemoryRegion memory(world& w, host_at& at, std::size_t bytes, access right) {
  const access rights = w.chance.below(2) == 0 ? access::local_write : access::local_write | right;
  return at.context->allocate(bytes, rights).value();
}

task<> send_messages(world* w, flow* f, std::uint64_t count) {
  const std::size_t window = 1 + w->chance.below(8);
  const MemoryRegion room = memory(*w, *f->from, window * largest, access::remote_read);
  std::deque<pending_send> pending;
  for (std::uint64_t i = 0; i < count && !w->over; ++i) {
    if (pending.size() == window) {
      const result<void> end = co_await pending.front().op.result();
      settle(*w, *f, pending.front(), end);
      pending.pop_front();
      if (w->over) co_return;
    }
    const bool active = w->chance.below(4) == 0;
    const auto bytes = static_cast<std::uint32_t>(
        sizeof(stamp) + w->chance.below(w->chance.below(2) == 0 ? 64 : largest - sizeof(stamp)));
    sent_message m;
    m.tag = w->chance.below(4);
    m.bytes = bytes;
    m.active = active;
    f->messages.push_back(m);
    const Slice slice = room.all().part((i % window) * largest, bytes);
    write_message(slice.bytes(), {.flow = f->number, .number = i});
    pending.push_back({active ? f->out->am_send(handler_id, slice.bytes().first(8), slice)
                              : f->out->tag_send(m.tag, slice),
                       i});
    pending.back().op.start();
    ++w->sum->messages;
    if (w->chance.below(10) == 0) pending[w->chance.below(pending.size())].op.cancel();
    if (w->chance.below(4) == 0) co_await sleep_for(1us * w->chance.below(300));
  }
  while (!pending.empty()) {
    const result<void> end = co_await pending.front().op.result();
    settle(*w, *f, pending.front(), end);
    pending.pop_front();
  }
}

// Until all is over: what is sent to this host by tag.
task<> receive_messages(world* w, host_at* at) {
  const MemoryRegion room = memory(*w, *at, largest, access::remote_write);
  while (!w->over) {
    const bool shortened = w->chance.below(20) == 0;
    const std::size_t fits = shortened ? sizeof(stamp) + w->chance.below(500) : largest;
    const bool by_tag = !at->one_by_one && w->chance.below(2) == 0;
    tag_recv_operation op =
        at->messages->tag_recv(w->chance.below(4), room.all().first(fits), by_tag ? 1 : 0);
    op.start();
    if (by_tag || w->chance.below(8) == 0) {  // what it wants may never come
      co_await sleep_for(1us * w->chance.below(500));
      op.cancel();
    }
    const result<TagReceived> got = co_await op.result();
    if (got) {
      check_arrival(*w, room.bytes().first(got->bytes), got->bytes, false, *at);
    } else if (got.code() == errc::truncated) {
      stamp s;
      std::memcpy(&s, room.data(), sizeof s);
      const bool known = s.flow < w->flows.size() && s.number < w->flows[s.flow]->messages.size();
      const std::uint64_t whole = known ? w->flows[s.flow]->messages[s.number].bytes : 0;
      check_arrival(*w, room.bytes().first(std::min<std::uint64_t>(fits, whole)), whole, false,
                    *at);
    } else if (got.code() == errc::shutdown) {
      co_return;
    }
  }
}

task<> handle(world* w, host_at* at, ActiveMessage m) {
  if (w->chance.below(3) == 0) co_await sleep_for(1us * w->chance.below(200));
  if (m.data().size() == m.size()) {
    check_arrival(*w, m.data(), m.size(), true, *at);
    co_return;
  }
  const MemoryRegion room = memory(*w, *at, largest, access::remote_write);
  const result<TagReceived> got = co_await m.read(room.all()).result();
  if (got) check_arrival(*w, room.bytes().first(got->bytes), got->bytes, true, *at);
}

std::byte stream_byte(std::uint64_t flow, std::uint64_t place) {
  return static_cast<std::byte>((place + flow) * 167 >> 2);
}

task<> write_stream(world* w, Stream* s, std::uint64_t flow, std::uint64_t bytes) {
  std::vector<std::byte> piece(3000);
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t n = std::min(bytes - done, 1 + w->chance.below(piece.size()));
    for (std::uint64_t i = 0; i < n; ++i) piece[i] = stream_byte(flow, done + i);
    const std::size_t taken = co_await s->write_some(std::span(piece).first(n));
    done += taken;
    if (w->chance.below(8) == 0) co_await sleep_for(1us * w->chance.below(300));
  }
  static_cast<void>(s->shutdown_send());
}

task<> read_stream(world* w, link* l, Stream* s, std::uint64_t flow) {
  std::vector<std::byte> piece(4000);
  std::uint64_t done = 0;
  for (;;) {
    const auto into = std::span(piece).first(1 + w->chance.below(piece.size()));
    const std::size_t n = co_await s->read_some(into);
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i) {
      if (piece[i] != stream_byte(flow, done + i)) co_return w->wrong("a wrong byte in a stream");
    }
    done += n;
    w->sum->bytes += n;
    if (w->chance.below(8) == 0) co_await sleep_for(1us * w->chance.below(300));
  }
  if (done != l->stream_bytes) co_return w->wrong("a stream that ended early, and well");
  ++l->stream_ends;
}

task<> use_stream(world* w, link* l, bool client) {
  host_at& at = client ? *l->client_at : *l->server_at;
  const stream_options o{.window_bytes = static_cast<std::uint32_t>(1 + w->chance.below(5000)),
                         .notices = static_cast<std::uint32_t>(16 + w->chance.below(20))};
  Endpoint mine = std::move(client ? l->client : l->server);
  Stream s = co_await Stream::open(*at.context, std::move(mine), o);
  task_context& me = co_await this_task();
  scope both(me);
  both.spawn(write_stream(w, &s, client ? 1 : 0, l->stream_bytes));
  both.spawn(read_stream(w, l, &s, client ? 0 : 1));
  co_await both.join();
  co_await s.close();
}

task<> accept(world* w, link* l, event* accepted) {
  try {
    next_operation next = l->listener.next();
    ConnectionRequest request = co_await with_timeout(5 * patience, std::move(next));
    connect_options o;
    if (!l->stream) o.messages = l->server_at->messages.get();
    o.endpoint.peer_timeout = o.endpoint.connect_timeout = patience;
    l->server = co_await request.accept(o);
  } catch (const error&) {}
  static_cast<void>(w);
  accepted->set();
}

task<> use(world* w, scope* all, link* l) {
  l->listener = l->server_at->worker->listen(l->server_at->name + ":0").value();
  event accepted;
  spawn(*w, *all, "accept ", l->flows[0].number, accept(w, l, &accepted));
  connect_options o;
  if (!l->stream) o.messages = l->client_at->messages.get();
  o.endpoint.peer_timeout = o.endpoint.connect_timeout = patience;
  result<Endpoint> made =
      co_await l->client_at->worker->connect(l->listener.bound().text(), o).result();
  co_await accepted.wait();
  ++w->sum->connections;
  if (!made || !l->server) co_return;
  l->client = std::move(*made);
  l->connected = true;
  if (l->stream) {
    spawn(*w, *all, "stream client ", l->flows[0].number, use_stream(w, l, true));
    spawn(*w, *all, "stream server ", l->flows[0].number, use_stream(w, l, false));
    co_return;
  }
  l->flows[0].out = &l->client;
  l->flows[1].out = &l->server;
  for (flow& f : l->flows) {
    spawn(*w, *all, "messages ", f.number, send_messages(w, &f, w->chance.below(60)));
  }
}

// ---- faults ----

transport::sim::link_options bad_link(dice& d) {
  transport::sim::link_options o;
  o.jitter = 1us * d.below(100);
  o.loss = d.below(3) == 0 ? 0.002 * static_cast<double>(d.below(20)) : 0;
  o.duplicate = d.below(3) == 0 ? 0.02 : 0;
  o.reorder = d.below(3) == 0 ? 0.05 : 0;
  return o;
}

void inject(world& w) {
  dice& d = w.chance;
  transport::sim::network& net = *w.net;
  host_at& a = w.hosts[d.below(w.hosts.size())];
  host_at& b = w.hosts[d.below(w.hosts.size())];
  if (!a.alive) return;
  switch (d.below(12)) {
    case 0:
    case 1:
    case 2: return net.set_links(bad_link(d));
    case 3:
    case 4:
      if (&a != &b) net.partition(a.name, b.name);
      return;
    case 5:
    case 6: return net.heal_all();
    case 7:
    case 8: return net.stall(a.name, 1us * d.below(5000));
    case 9: return net.fail_allocation(a.name, static_cast<std::uint32_t>(1 + d.below(5)));
    case 10:
      return net.fail_request(a.name, static_cast<std::uint32_t>(1 + d.below(50)),
                              transport::wc_status::rem_op_err);
    default:
      if (d.below(6) != 0) return;
      a.alive = false;
      net.kill(a.name);
  }
}

task<> disturb(world* w) {
  const std::uint64_t faults = w->chance.below(25);
  for (std::uint64_t i = 0; i < faults; ++i) {
    co_await sleep_for(1us * w->chance.below(4000));
    inject(*w);
  }
  co_await sleep_for(1us * w->chance.below(4000));
  w->net->heal_all();
  w->net->set_links({});
  for (const host_at& h : w->hosts) {
    if (h.alive) w->net->fail_allocation(h.name, 0);
  }
}

// ---- the whole ----

bool lives(const link& l) {
  return l.connected && l.client.state() == endpoint_state::connected &&
         l.server.state() == endpoint_state::connected;
}

// Of connections that live: what was sent, and has not arrived.
bool all_arrived(const world& w) {
  for (const link& l : w.links) {
    if (l.stream || !lives(l)) continue;
    for (const flow& f : l.flows) {
      for (const sent_message& m : f.messages) {
        if ((m.outcome == fate::ok || m.outcome == fate::truncated) && m.arrived == 0) return false;
      }
    }
  }
  return true;
}

void judge(world& w) {
  for (const link& l : w.links) {
    if (l.stream || !l.connected) continue;
    for (const flow& f : l.flows) {
      for (const sent_message& m : f.messages) {
        const bool expected = m.outcome != fate::canceled && m.outcome != fate::none;
        if (m.arrived != 0 && !expected) w.wrong("a message arrived that was canceled");
        if (m.outcome == fate::failed && lives(l)) w.wrong("a message failed on a good connection");
      }
    }
  }
}

void make_world(world& w) {
  dice& d = w.chance;
  transport::sim::network_options n;
  n.seed = w.seed;
  n.link = bad_link(d);
  w.net.emplace(n, w.loop);
  const std::uint64_t hosts = d.below(50) == 0 ? 2 + d.below(63) : 2 + d.below(4);
  for (std::uint64_t i = 0; i < hosts; ++i) {
    host_at& h = w.hosts.emplace_back();
    h.name = "h" + std::to_string(i);
    context_options c;
    c.domains.push_back(w.net->make_domain(h.name));
    h.context.emplace(c);
    h.worker = std::make_unique<Worker>(*h.context, w.loop);
    const message_options o{.eager_bytes = static_cast<std::uint32_t>(512 + d.below(3000)),
                            .credits = static_cast<std::uint32_t>(1 + d.below(8)),
                            .rails = static_cast<std::uint32_t>(1 + d.below(3))};
    h.messages = std::make_unique<Messages>(*h.worker, o);
    h.one_by_one = d.below(2) == 0;
    h.messages->on(handler_id, [&w, &h](ActiveMessage m) { return handle(&w, &h, std::move(m)); });
  }
  const std::uint64_t links = 1 + d.below(hosts * 2);
  for (std::uint64_t i = 0; i < links; ++i) {
    link& l = w.links.emplace_back();
    l.client_at = &w.hosts[d.below(hosts)];
    l.server_at = &w.hosts[d.below(hosts)];
    l.stream = d.below(4) == 0;
    l.stream_bytes = d.below(40'000);
    for (flow& f : l.flows) {
      const bool first = &f == &l.flows[0];
      f.number = w.flows.size();
      f.from = first ? l.client_at : l.server_at;
      f.to = first ? l.server_at : l.client_at;
      w.flows.push_back(&f);
    }
  }
}

task<> run(world* w) {
  task_context& me = co_await this_task();
  scope receivers(me);
  scope all(me);
  for (host_at& h : w->hosts) {
    const std::uint64_t receives = h.one_by_one ? 1 : 1 + w->chance.below(6);
    for (std::uint64_t i = 0; i < receives; ++i) receivers.spawn(receive_messages(w, &h));
  }
  for (link& l : w->links) spawn(*w, all, "link ", l.flows[0].number, use(w, &all, &l));
  spawn(*w, all, "faults ", 0, disturb(w));
  const time_point last = w->time.now() + 100ms + longest_end;
  while (!w->running.empty() && w->time.now() < last) co_await sleep_for(1ms);
  for (const std::string& name : w->running) w->wrong("hangs: " + name);
  const time_point drained = w->time.now() + 1s;
  while (!all_arrived(*w) && w->time.now() < drained) co_await sleep_for(1ms);
  if (!all_arrived(*w)) w->wrong("a message that was sent is lost");
  judge(*w);
  for (const link& l : w->links) w->sum->broken += !l.stream && !lives(l) ? 1U : 0U;
  w->over = true;
  all.cancel();
  receivers.cancel();
  for (link& l : w->links) {
    l.client = Endpoint();
    l.server = Endpoint();
  }
  try {
    co_await all.join();
  } catch (const error&) {}
  for (host_at& h : w->hosts) h.messages.reset();
  try {
    co_await receivers.join();
  } catch (const error&) {}
}

}  // namespace

void add(transport::sim::fault_counters& sum, const transport::sim::fault_counters& more) noexcept {
  sum.lost += more.lost;
  sum.duplicated += more.duplicated;
  sum.reordered += more.reordered;
  sum.partitioned += more.partitioned;
  sum.overflowed += more.overflowed;
  sum.to_dead_hosts += more.to_dead_hosts;
  sum.stalls += more.stalls;
  sum.kills += more.kills;
  sum.failed_allocations += more.failed_allocations;
  sum.failed_requests += more.failed_requests;
  sum.corrupted_completions += more.corrupted_completions;
}

std::string play(std::uint64_t seed, tally& sum) {
  world w(seed);
  w.sum = &sum;
  make_world(w);
  cordma::run(w.loop, run(&w));
  for (const host_at& h : w.hosts) {
    if (h.worker->counters().inflight != 0) w.wrong("requests in flight at the end");
    if (h.worker->counters().stale_completions != 0) w.wrong("completions that nobody waits for");
  }
  add(sum.faults, w.net->faults());
  ++sum.seeds;
  return w.complaint;
}

}  // namespace cordma::schedule
