// Two adapters of the tcp transport on one reactor, polled by hand.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cordma/net/transport/transport.hpp>
#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

namespace tcp_test {

namespace tp = cordma::transport;
using cordma::errc;
using tp::opcode;
using tp::wc_status;

// Loopback responds within microseconds; this many polls take seconds.
inline constexpr int most_polls = 2'000'000;

// A registered buffer.
struct memory {
  memory(tp::domain& owner, std::size_t size, tp::access rights = tp::access::local_write)
      : domain(&owner), bytes(size) {
    keys = owner.register_memory({.addr = bytes.data(), .length = size, .rights = rights}).value();
  }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory() { domain->deregister_memory(keys.lkey); }
  [[nodiscard]] tp::segment slice(std::size_t offset, std::size_t length) {
    return {bytes.data() + offset, static_cast<std::uint32_t>(length), keys.lkey};
  }
  [[nodiscard]] tp::segment all() { return slice(0, bytes.size()); }
  [[nodiscard]] std::uint64_t addr(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
  }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 7);
    }
  }
  tp::domain* domain;
  std::vector<std::byte> bytes;
  tp::memory_keys keys;
};

// An adapter, and the completions and events that it has reported.
struct side {
  side(tp::domain& owner, cordma::reactor& home) : adapter(std::move(*owner.open(home))) {}
  void poll() {
    std::array<tp::completion, 16> out;
    bool progressed = false;
    const std::size_t n = adapter->poll(out, progressed);
    while (adapter->has_events()) events.push_back(adapter->next_event());
    done.insert(done.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
  }
  std::unique_ptr<tp::adapter> adapter;
  std::deque<tp::completion> done;
  std::deque<tp::cm_event> events;
};

struct rig {
  explicit rig(const cordma::reactor_options& o = {.mode = cordma::wait_mode::polling})
      : home(o), domain(tp::make_tcp({}).value()), a(*domain, home), b(*domain, home) {}

  template <class Done>
  void until(Done done) {
    for (int i = 0; i < most_polls; ++i) {
      a.poll();
      b.poll();
      home.turn();
      if (done()) return;
    }
    FAIL("nothing happens any more");
  }
  tp::cm_event event(side& s) {
    until([&s] { return !s.events.empty(); });
    tp::cm_event e = std::move(s.events.front());
    s.events.pop_front();
    return e;
  }
  tp::completion next(side& s) {
    until([&s] { return !s.done.empty(); });
    const tp::completion c = s.done.front();
    s.done.pop_front();
    return c;
  }
  void settle(int polls = 2000) {
    for (int i = 0; i < polls; ++i) {
      a.poll();
      b.poll();
      home.turn();
    }
  }

  cordma::reactor home;
  std::shared_ptr<tp::domain> domain;
  side a;
  side b;
};

// A connection from rig.a to rig.b.
struct connected : rig {
  explicit connected(const tp::queue_pair_options& client = {},
                     const tp::queue_pair_options& server = {},
                     const cordma::reactor_options& o = {.mode = cordma::wait_mode::polling})
      : rig(o), listener(std::move(*b.adapter->listen({.host = "127.0.0.1", .port = 0}))) {
    left = std::move(*a.adapter->connect(listener->bound(), client, {}));
    const tp::cm_event request = event(b);
    REQUIRE(request.what == tp::cm_event::type::connect_request);
    right = std::move(*b.adapter->accept(request.request, server, {}));
    REQUIRE(event(a).what == tp::cm_event::type::established);
    REQUIRE(event(b).what == tp::cm_event::type::established);
  }
  std::unique_ptr<tp::listener> listener;
  std::unique_ptr<tp::queue_pair> left;
  std::unique_ptr<tp::queue_pair> right;
};

inline void post(tp::queue_pair& q, const tp::send_request& r) {
  tp::completion now;
  REQUIRE(q.post_send(r, now) == tp::posted::pending);
}
inline void post_recv(tp::queue_pair& q, std::uint64_t id, const tp::segment& s) {
  tp::completion now;
  REQUIRE(q.post_recv({.id = id, .segment_count = 1, .segments = &s}, now) == tp::posted::pending);
}
// A request with one segment.
inline tp::send_request request(opcode op, std::uint64_t id, const tp::segment& s) {
  tp::send_request r;
  r.id = id;
  r.op = op;
  r.segment_count = 1;
  r.segments = &s;
  return r;
}
inline tp::send_request request(opcode op, std::uint64_t id, const tp::segment& s,
                                const memory& target, std::size_t offset = 0) {
  tp::send_request r = request(op, id, s);
  r.remote_addr = target.addr(offset);
  r.rkey = target.keys.rkey;
  return r;
}

}  // namespace tcp_test
