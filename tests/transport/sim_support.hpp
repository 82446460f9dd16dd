// A simulated network with raw adapters on it, driven in virtual time.
#pragma once

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/reactor.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace cordma::sim_test {

using namespace cordma::transport;
using namespace std::chrono_literals;
using event_type = cm_event::type;

inline constexpr access every_right = access::local_write | all_remote;

// One adapter of one host, drained by the reactor into lists.
class party final : public poller {
 public:
  party(reactor& loop, std::shared_ptr<domain> of) : loop_(loop), dom(std::move(of)) {
    device = dom->open(loop_).value();
    loop_.add(*this).value();
  }
  ~party() override { loop_.remove(*this); }

  std::size_t poll() noexcept override {
    std::array<completion, 16> out;
    bool progressed = false;
    const std::size_t n = device->poll(out, progressed);
    done.insert(done.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
    while (device->has_events()) events.push_back(device->next_event());
    return n + look_at_arrived() + (progressed ? 1U : 0U);
  }
  arm_state arm() noexcept override { return device->arm(); }
  [[nodiscard]] int wait_fd() const noexcept override { return device->wait_fd(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return device->edge_triggered(); }
  [[nodiscard]] const char* name() const noexcept override { return "sim"; }

  [[nodiscard]] memory_keys reg(std::span<std::byte> m, access rights = every_right) {
    return dom->register_memory({.addr = m.data(), .length = m.size(), .rights = rights}).value();
  }

 private:
  std::size_t look_at_arrived() {
    const std::span<arrived_message> all = device->arrived();
    for (arrived_message& m : all) {
      m.stays = takes == 0;
      if (m.stays) continue;
      --takes;
      came.push_back({m.from, {m.data, m.data + m.bytes}, done.size()});
    }
    if (!all.empty()) device->release_arrived();
    return all.size();
  }
  reactor& loop_;

 public:
  // A message delivered without a copy, and the number of completions before it.
  struct message {
    queue_pair* from;
    std::vector<std::byte> bytes;
    std::size_t done_before;
  };
  std::shared_ptr<domain> dom;
  std::unique_ptr<adapter> device;
  std::vector<completion> done;
  std::deque<cm_event> events;
  std::vector<message> came;
  std::size_t takes = 1'000'000;  // messages delivered without a copy; later ones stay
};

// Registered memory of one party.
class block {
 public:
  block(party& p, std::size_t size, access rights = every_right)
      : owner_(p.dom), bytes(size), keys(p.reg(bytes, rights)) {}
  block(const block&) = delete;
  block& operator=(const block&) = delete;
  ~block() { owner_->deregister_memory(keys.lkey); }
  [[nodiscard]] segment part(std::size_t at, std::size_t length) noexcept {
    return {bytes.data() + at, static_cast<std::uint32_t>(length), keys.lkey};
  }
  [[nodiscard]] std::uint64_t addr(std::size_t at = 0) const noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes.data() + at);
  }
  void fill(std::uint64_t seed) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
  }
  [[nodiscard]] bool holds(std::uint64_t seed, std::size_t at, std::size_t n) const noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      if (bytes[at + i] != pattern(seed, i)) return false;
    }
    return true;
  }
  [[nodiscard]] bool zero() const noexcept {
    for (const std::byte b : bytes) {
      if (b != std::byte{0}) return false;
    }
    return true;
  }
  [[nodiscard]] static std::byte pattern(std::uint64_t seed, std::size_t i) noexcept {
    return static_cast<std::byte>(
        ((seed + 1) * 0x9E3779B97F4A7C15ULL + i * 0xD1B54A32D192ED03ULL) >> 56);
  }

 private:
  std::shared_ptr<domain> owner_;

 public:
  std::vector<std::byte> bytes;
  memory_keys keys;
};

class world {
 public:
  explicit world(const sim::network_options& options = {}, unsigned hosts = 2)
      : loop({.mode = wait_mode::polling, .time = &time}), net(options, loop) {
    for (unsigned i = 0; i < hosts; ++i) {
      parties.push_back(std::make_unique<party>(
          loop, net.make_domain(std::string(1, static_cast<char>('a' + i)))));
    }
  }
  [[nodiscard]] party& a() { return *parties[0]; }
  [[nodiscard]] party& b() { return *parties[1]; }
  [[nodiscard]] time_point now() { return loop.now(); }

  // Runs until `done()` returns true; false if nothing can happen any more.
  template <class Done>
  bool until(Done done) {
    return loop
        .run_until([](void* d) noexcept { return static_cast<bool>((*static_cast<Done*>(d))()); },
                   &done)
        .ok();
  }
  void pass(duration d) {
    timer t([](timer&) noexcept {});
    loop.add(t, loop.now() + d);
    until([&t] { return !t.pending(); });
  }
  // Runs until nothing can happen any more, at most a minute.
  void settle() {
    const time_point end = loop.now() + 60s;
    until([this, end] { return loop.now() > end; });
  }

  virtual_clock time;
  reactor loop;
  sim::network net;
  std::vector<std::unique_ptr<party>> parties;
};

// Two connected queue pairs: `client` on one party, `server` on another.
struct link_pair {
  std::unique_ptr<queue_pair> client;
  std::unique_ptr<queue_pair> server;
};

inline link_pair join_up(world& w, party& from, party& to, const std::string& host,
                         const queue_pair_options& client = {},
                         const queue_pair_options& server = {}) {
  link_pair l;
  from.events.clear();
  to.events.clear();
  std::unique_ptr<listener> door = to.device->listen({"", 0}).value();
  l.client = from.device->connect({host, door->bound().port}, client, {}).value();
  REQUIRE(w.until([&] { return !to.events.empty(); }));
  REQUIRE(to.events.front().what == event_type::connect_request);
  l.server = to.device->accept(to.events.front().request, server, {}).value();
  to.events.pop_front();
  const bool loopback = &from == &to;
  const std::size_t ours = loopback ? 2 : 1;
  REQUIRE(w.until([&] { return from.events.size() >= ours && to.events.size() >= ours; }));
  for (party* p : {&from, &to}) {
    while (!p->events.empty()) {
      REQUIRE(p->events.front().what == event_type::established);
      p->events.pop_front();
    }
  }
  return l;
}
inline link_pair join_up(world& w, const queue_pair_options& both = {}) {
  return join_up(w, w.a(), w.b(), "b", both, both);
}

inline send_request make(opcode op, std::uint64_t id, std::span<const segment> s) {
  send_request r;
  r.id = id;
  r.op = op;
  r.segments = s.data();
  r.segment_count = static_cast<std::uint16_t>(s.size());
  return r;
}
inline send_request to_remote(send_request r, const block& target, std::size_t at = 0) {
  r.remote_addr = target.addr(at);
  r.rkey = target.keys.rkey;
  return r;
}
inline void post(queue_pair& q, const send_request& r) {
  completion now;
  REQUIRE(q.post_send(r, now) == posted::pending);
}
inline void send(queue_pair& q, std::uint64_t id, segment s) {
  post(q, make(opcode::send, id, {&s, 1}));
}
inline void recv(queue_pair& q, std::uint64_t id, segment s, datagram_peer* from = nullptr) {
  recv_request r;
  r.id = id;
  r.segments = &s;
  r.segment_count = 1;
  r.from = from;
  completion now;
  REQUIRE(q.post_recv(r, now) == posted::pending);
}

// Prints for a test with random faults: that faults happened, and how to reproduce them.
inline void report(const char* test, const sim::network& net) {
  std::printf("  %s: seed %llu, faults: %s\n", test, static_cast<unsigned long long>(net.seed()),
              net.faults().text().c_str());
}
// The seed in CORDMA_SIM_SEED, or 1 ... how_many without it.
inline std::vector<std::uint64_t> seeds(std::uint64_t how_many) {
  if (const char* one = std::getenv("CORDMA_SIM_SEED")) return {std::strtoull(one, nullptr, 0)};
  std::vector<std::uint64_t> all(how_many);
  for (std::uint64_t i = 0; i < how_many; ++i) all[i] = i + 1;
  return all;
}
inline std::string replay(std::uint64_t seed, const char* test) {
  return "seed " + std::to_string(seed) + "; again with CORDMA_SIM_SEED=" + std::to_string(seed) +
         " test_transport --test-case=\"" + test + "\"";
}

}  // namespace cordma::sim_test
