// The simulator under a random mix of all operations: every byte and completion is checked, every
// run is the same.
#include "sim_support.hpp"

#include <algorithm>
#include <cstring>

namespace cordma::sim_test {
namespace {

constexpr std::size_t slot_bytes = 6000;
constexpr std::size_t slots = 32;

// splitmix64, separate from the network's random numbers.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

// One direction of one connection: its posted requests, and their expected results.
struct flow {
  party* from;
  party* to;
  queue_pair* out;
  queue_pair* in;
  std::unique_ptr<block> source;   // at `from`: buffers of sends, writes and reads
  std::unique_ptr<block> target;   // at `to`: receives
  std::unique_ptr<block> window;   // at `to`: written and read remotely
  std::unique_ptr<block> counter;  // at `to`
  std::uint64_t base;              // of the ids
  struct op {
    opcode what;
    std::size_t length;
    std::uint64_t seed;
    std::uint64_t expected_old;
    std::size_t receive;
  };
  std::vector<op> ops;
  std::size_t receives = 0;
  std::uint64_t sum = 0;
};

void post_random(flow& f, dice& d) {
  const std::size_t i = f.ops.size();
  constexpr std::array<opcode, 7> kinds{opcode::send, opcode::send_imm,  opcode::write,
                                        opcode::read, opcode::fetch_add, opcode::write_imm,
                                        opcode::flush};
  flow::op o{kinds[d.below(kinds.size())], d.below(slot_bytes + 1), d.next(), 0, 0};
  const std::size_t at = i * slot_bytes;
  if (o.what == opcode::fetch_add) o.length = 8;
  if (o.what == opcode::flush) o.length = 0;
  const segment whole = f.source->part(at, o.length);
  const std::size_t cut = o.length == 0 ? 0 : d.below(o.length + 1);
  const std::array<segment, 2> pieces{f.source->part(at, cut),
                                      f.source->part(at + cut, o.length - cut)};
  const bool split = o.what != opcode::fetch_add && d.below(2) == 0;
  send_request r =
      make(o.what, f.base + i, split ? std::span<const segment>(pieces) : std::span(&whole, 1));
  r.imm = static_cast<std::uint32_t>(o.seed);
  if (d.below(8) == 0) r.flags = post_flag::fence;
  block* filled = f.source.get();
  if (o.what == opcode::read) filled = f.window.get();
  if (o.what != opcode::fetch_add) {
    for (std::size_t j = 0; j < o.length; ++j) filled->bytes[at + j] = block::pattern(o.seed, j);
  }
  r = to_remote(r, o.what == opcode::fetch_add ? *f.counter : *f.window,
                o.what == opcode::fetch_add ? 0 : at);
  r.operand = d.below(1000);
  if (o.what == opcode::fetch_add) {
    o.expected_old = f.sum;
    f.sum += r.operand;
  }
  const bool receives =
      o.what == opcode::send || o.what == opcode::send_imm || o.what == opcode::write_imm;
  if (receives) o.receive = f.receives++;
  // The receive may be late: then the message is retransmitted.
  if (receives)
    recv(*f.in, f.base + 1000 + o.receive, f.target->part(o.receive * slot_bytes, slot_bytes));
  post(*f.out, r);
  f.ops.push_back(o);
}

void check(flow& f) {
  std::vector<completion> sent;
  std::vector<completion> received;
  for (const completion& c : f.from->done) {
    if (c.id >= f.base && c.id < f.base + 1000) sent.push_back(c);
  }
  for (const completion& c : f.to->done) {
    if (c.id >= f.base + 1000 && c.id < f.base + 2000) received.push_back(c);
  }
  REQUIRE(sent.size() == f.ops.size());
  REQUIRE(received.size() == f.receives);
  for (std::size_t i = 0; i < f.ops.size(); ++i) {
    const flow::op& o = f.ops[i];
    const std::size_t at = i * slot_bytes;
    REQUIRE(sent[i].id == f.base + i);
    REQUIRE(sent[i].status == wc_status::success);
    bool right = true;
    if (o.what == opcode::send || o.what == opcode::send_imm) {
      right = f.target->holds(o.seed, o.receive * slot_bytes, o.length);
    } else if (o.what == opcode::write || o.what == opcode::write_imm) {
      right = f.window->holds(o.seed, at, o.length);
    } else if (o.what == opcode::read) {
      right = f.source->holds(o.seed, at, o.length);
    } else if (o.what == opcode::fetch_add) {
      right = std::memcmp(&o.expected_old, f.source->bytes.data() + at, 8) == 0;
    }
    REQUIRE(right);
    if (o.what != opcode::send && o.what != opcode::send_imm && o.what != opcode::write_imm)
      continue;
    const completion& c = received[o.receive];
    REQUIRE(c.id == f.base + 1000 + o.receive);
    REQUIRE(c.byte_len == o.length);
    REQUIRE(c.has_imm == (o.what != opcode::send));
    if (c.has_imm) REQUIRE(c.imm == static_cast<std::uint32_t>(o.seed));
  }
  REQUIRE(std::memcmp(&f.sum, f.counter->bytes.data(), 8) == 0);
}

struct outcome {
  std::uint64_t trace;
  duration took;
  sim::fault_counters faults;
  friend bool operator==(const outcome& x, const outcome& y) {
    return x.trace == y.trace && x.took == y.took;
  }
};

void add_up(sim::fault_counters& sum, const sim::fault_counters& f) {
  sum.lost += f.lost;
  sum.duplicated += f.duplicated;
  sum.reordered += f.reordered;
  sum.partitioned += f.partitioned;
  sum.stalls += f.stalls;
}

outcome play(std::uint64_t seed) {
  dice d(seed);
  const unsigned hosts = 2 + static_cast<unsigned>(d.below(3));
  world w({.seed = seed}, hosts);
  std::vector<link_pair> links;
  std::vector<flow> flows;
  queue_pair_options o;
  o.rnr_timer = 100us;
  o.read_depth = 1 + static_cast<std::uint32_t>(d.below(8));
  for (unsigned h = 1; h < hosts; ++h) {
    party* const x = w.parties[0].get();
    party* const y = w.parties[h].get();
    links.push_back(join_up(w, *x, *y, std::string(1, static_cast<char>('a' + h)), o, o));
    queue_pair* const c = links.back().client.get();
    queue_pair* const s = links.back().server.get();
    for (const bool forth : {true, false}) {
      flow f{.from = forth ? x : y,
             .to = forth ? y : x,
             .out = forth ? c : s,
             .in = forth ? s : c,
             .source = {},
             .target = {},
             .window = {},
             .counter = {},
             .base = 10'000 * (flows.size() + 1),
             .ops = {}};
      f.source = std::make_unique<block>(*f.from, slots * slot_bytes);
      f.target = std::make_unique<block>(*f.to, slots * slot_bytes);
      f.window = std::make_unique<block>(*f.to, slots * slot_bytes);
      f.counter = std::make_unique<block>(*f.to, 8);
      flows.push_back(std::move(f));
    }
  }
  // Some seeds run without some faults, so that one fault cannot hide another.
  const auto sometimes = [&d](double p) { return d.below(4) == 0 ? 0.0 : p; };
  w.net.set_links({.delay = duration(1000 + static_cast<std::int64_t>(d.below(100'000))),
                   .jitter = duration(static_cast<std::int64_t>(d.below(20'000))),
                   .bits_per_second = d.below(2) == 0 ? 0ULL : 1'000'000'000ULL,
                   .loss = sometimes(0.05),
                   .duplicate = sometimes(0.05),
                   .reorder = sometimes(0.05)});
  for (std::size_t i = 0; i < slots; ++i) {
    for (flow& f : flows) post_random(f, d);
    if (d.below(3) == 0) w.pass(duration(static_cast<std::int64_t>(d.below(200'000))));
    if (d.below(16) == 0) w.net.stall("b", 300us);
    if (d.below(16) == 0) {
      w.net.partition("a", "b");
      w.pass(500us);
      w.net.heal("a", "b");
    }
  }
  std::size_t expected = 0;
  for (const flow& f : flows) expected += f.ops.size() + f.receives;
  REQUIRE(w.until([&] {
    std::size_t n = 0;
    for (const auto& p : w.parties) n += p->done.size();
    return n == expected;
  }));
  w.settle();
  std::size_t n = 0;
  for (const auto& p : w.parties) {
    n += p->done.size();
    REQUIRE(p->events.empty());
  }
  REQUIRE(n == expected);
  for (flow& f : flows) check(f);
  return {w.net.trace_hash(), w.now().time_since_epoch(), w.net.faults()};
}

TEST_CASE("sim chance: 300 seeds of everything at once, byte for byte") {
  const char* const self = "sim chance: 300 seeds*";
  sim::fault_counters sum;
  for (const std::uint64_t seed : seeds(300)) {
    INFO(replay(seed, self));
    const outcome o = play(seed);
    add_up(sum, o.faults);
  }
  std::printf("  sim chance: faults over all seeds: %s\n", sum.text().c_str());
  CHECK(sum.lost > 0);
  CHECK(sum.duplicated > 0);
  CHECK(sum.reordered > 0);
}

TEST_CASE("sim chance: a seed replays exactly, another one does not") {
  std::vector<std::uint64_t> traces;
  for (const std::uint64_t seed : seeds(20)) {
    INFO(replay(seed, "sim chance: a seed replays*"));
    const outcome first = play(seed);
    const outcome second = play(seed);
    CHECK(first == second);
    traces.push_back(first.trace);
  }
  std::sort(traces.begin(), traces.end());
  CHECK(std::unique(traces.begin(), traces.end()) == traces.end());
}

// Objects are destroyed at random moments: no crash, no duplicate completion, and none missing on a
// queue pair that survives.
TEST_CASE("sim chance: queue pairs, adapters and hosts end while packets fly") {
  for (const std::uint64_t seed : seeds(200)) {
    INFO(replay(seed, "sim chance: queue pairs, adapters*"));
    dice d(seed);
    world w({.seed = seed, .link = {.loss = 0.05, .duplicate = 0.1, .reorder = 0.1}}, 3);
    queue_pair_options o;
    o.peer_timeout = 20ms;
    link_pair l = join_up(w, w.a(), w.b(), "b", o, o);
    link_pair k = join_up(w, w.a(), *w.parties[2], "c", o, o);
    block m(w.a(), 64 * 5000);
    block n(w.b(), 64 * 5000);
    block x(*w.parties[2], 64 * 5000);
    for (std::size_t i = 0; i < 30; ++i) {
      recv(*l.server, i, n.part(i * 5000, 5000));
      recv(*k.server, i, x.part(i * 5000, 5000));
      send(*l.client, 1000 + i, m.part(i * 5000, d.below(5001)));
      send(*k.client, 2000 + i, m.part(i * 5000, d.below(5001)));
    }
    w.pass(duration(static_cast<std::int64_t>(d.below(400'000))));
    const std::size_t how = d.below(6);
    if (how == 0) l.server.reset();
    if (how == 1) l.client.reset();
    if (how == 2) l.server->abort();
    if (how == 3) w.net.kill("b");
    if (how == 4) {
      l.server.reset();
      w.parties[1] = std::make_unique<party>(w.loop, w.net.make_domain("b"));
    }
    if (how == 5) w.net.fail_request(*l.client, 1, wc_status::general_err);
    if (how == 5) send(*l.client, 1999, m.part(0, 8));
    w.settle();
    std::array<std::size_t, 3> counts{};
    std::vector<int> seen(3000);
    for (const completion& c : w.a().done) {
      ++counts[c.id / 1000];
      CHECK(++seen[c.id] == 1);
    }
    if (how != 1) CHECK(counts[1] == (how == 5 ? 31 : 30));
    CHECK(counts[2] == 30);
    CHECK(w.parties[2]->done.size() == 30);
    for (const completion& c : w.parties[2]->done) CHECK(c.status == wc_status::success);
  }
}

TEST_CASE("sim faults: the n-th allocation fails, whichever it is, and the next one works") {
  for (std::uint32_t n = 1; n <= 6; ++n) {
    world w;
    w.net.fail_allocation("a", n);
    std::vector<std::byte> memory(64);
    std::vector<errc> codes;
    const memory_range range{.addr = memory.data(), .length = 64};
    codes.push_back(w.a().dom->register_memory(range).code());
    codes.push_back(w.a().device->create({}).code());
    codes.push_back(w.a().device->listen({"", 0}).code());
    codes.push_back(w.a().device->connect({"b", 1}, {}, {}).code());
    codes.push_back(w.a().dom->open(w.loop).code());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      CHECK(codes[i] == (i + 1 == n ? errc::no_memory : errc::ok));
    }
    CHECK(w.net.faults().failed_allocations == (n <= codes.size() ? 1 : 0));
    w.net.fail_allocation("a", 0);
  }
}

TEST_CASE("sim faults: the n-th request fails as told, what is behind it is flushed") {
  for (const wc_status status :
       {wc_status::loc_prot_err, wc_status::general_err, wc_status::fatal_err}) {
    world w;
    link_pair l = join_up(w);
    block m(w.a(), 8);
    block n(w.b(), 8);
    w.net.fail_request("a", 3, status);
    for (std::uint64_t i = 0; i < 5; ++i) {
      recv(*l.server, i, n.part(0, 8));
      send(*l.client, i, m.part(0, 8));
    }
    REQUIRE(w.until([&] { return w.a().done.size() == 5; }));
    CHECK(w.a().done[1].status == wc_status::success);
    CHECK(w.a().done[2].status == status);
    CHECK(w.a().done[3].status == wc_status::wr_flush_err);
    CHECK(w.a().events.at(0).why.wc_status() == static_cast<std::uint16_t>(status));
    CHECK(w.net.faults().failed_requests == 1);
  }
}

TEST_CASE("sim faults: a corrupted completion carries an id that nobody posted") {
  world w;
  link_pair l = join_up(w);
  block m(w.a(), 8);
  block n(w.b(), 8);
  w.net.corrupt_completion("a", 2);
  for (std::uint64_t i = 0; i < 3; ++i) {
    recv(*l.server, i, n.part(0, 8));
    send(*l.client, i, m.part(0, 8));
  }
  REQUIRE(w.until([&] { return w.a().done.size() == 3; }));
  CHECK(w.a().done[0].id == 0);
  CHECK(w.a().done[1].id > 1000);
  CHECK(w.a().done[2].id == 2);
}

TEST_CASE("sim faults: a full link queue drops, and RC recovers") {
  world w({.link = {.bits_per_second = 100'000'000, .queue_bytes = 20'000}});
  link_pair l = join_up(w);
  block m(w.a(), 300'000);
  block n(w.b(), 300'000);
  m.fill(1);
  const segment s = m.part(0, 300'000);
  post(*l.client, to_remote(make(opcode::write, 1, {&s, 1}), n));
  REQUIRE(w.until([&] { return !w.a().done.empty(); }));
  CHECK(w.a().done[0].status == wc_status::success);
  CHECK(n.holds(1, 0, 300'000));
  CHECK(w.net.faults().overflowed > 0);
  report("full queue", w.net);
}

TEST_CASE("sim link: the time a message takes is delay and rate") {
  world w({.link = {.delay = 1ms, .bits_per_second = 8'000'000'000}});
  link_pair l = join_up(w);
  block m(w.a(), 1'000'000);
  block n(w.b(), 1'000'000);
  const segment s = m.part(0, 1'000'000);
  const time_point start = w.now();
  post(*l.client, to_remote(make(opcode::write, 1, {&s, 1}), n));
  REQUIRE(w.until([&] { return !w.a().done.empty(); }));
  // The window, 64 packets per round trip of 2 ms, is the limit here: the write takes 16 round
  // trips.
  CHECK(w.now() - start > 30ms);
  CHECK(w.now() - start < 70ms);
}

TEST_CASE("sim clock: the same network runs in real time") {
  reactor loop({.mode = wait_mode::event});
  sim::network net({.link = {.delay = 200us}}, loop);
  party a(loop, net.make_domain("a"));
  party b(loop, net.make_domain("b"));
  auto door = b.device->listen({"", 0}).value();
  auto client = a.device->connect({"b", door->bound().port}, {}, {}).value();
  auto got = [&b] { return !b.events.empty(); };
  const auto call = [](void* p) noexcept { return (*static_cast<decltype(got)*>(p))(); };
  REQUIRE(loop.run_until(call, &got).ok());
  CHECK(b.events[0].what == event_type::connect_request);
}

}  // namespace
}  // namespace cordma::sim_test
