// Two ends of the shm transport, polled by hand. Nothing here sleeps: pump() polls until a
// condition holds, or gives up after a number of polls that no working transport needs.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cordma/net/transport/transport.hpp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cordma::transport::shm_test {

inline constexpr long patience = 200'000'000;  // polls
inline constexpr long polls_per_yield = 256;   // so that a peer gets the processor, too

// A directory for rendezvous sockets, removed at the end of the test.
struct scratch {
  std::string path;
  scratch() {
    char name[] = "/tmp/cordma-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    const std::string clean = "rm -rf '" + path + "'";
    static_cast<void>(!std::system(clean.c_str()));
  }
};

struct memory {
  domain& of;
  std::size_t bytes;
  int fd = -1;
  std::byte* data = nullptr;
  memory_keys keys;
  bool registered = false;
  memory(domain& d, std::size_t n, access rights, bool shared) : of(d), bytes(n) {
    if (shared) {
      fd = ::memfd_create("cordma-test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
      REQUIRE(::ftruncate(fd, static_cast<off_t>(n)) == 0);
    }
    void* const at = ::mmap(nullptr, n, PROT_READ | PROT_WRITE,
                            shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    REQUIRE(at != MAP_FAILED);
    data = static_cast<std::byte*>(at);
    result<memory_keys> k = d.register_memory({data, n, rights, fd});
    REQUIRE(k.ok());
    keys = *k;
    registered = true;
  }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory() {
    deregister();
    ::munmap(data, bytes);
    if (fd >= 0) ::close(fd);
  }
  void deregister() {
    if (registered) of.deregister_memory(keys.lkey);
    registered = false;
  }
  [[nodiscard]] segment at(std::size_t offset, std::size_t n) const {
    return {data + offset, static_cast<std::uint32_t>(n), keys.lkey};
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(data) + offset;
  }
};

struct host {
  reactor home;
  std::shared_ptr<domain> d;
  std::unique_ptr<adapter> a;
  std::unique_ptr<listener> l;
  std::unique_ptr<queue_pair> q;
  std::vector<completion> done;
  std::deque<cm_event> events;
  queue_pair_options accept_with;
  bool accepts = true;
  std::uint64_t request = 0;
  std::string accept_data;

  explicit host(const shm_options& o, wait_mode mode = wait_mode::polling, clock* time = nullptr)
      : host(make(o), mode, time) {}
  host(std::shared_ptr<domain> of, wait_mode mode, clock* time = nullptr)
      : home(reactor_options{.mode = mode, .time = time}), d(std::move(of)) {
    auto opened = d->open(home);
    REQUIRE(opened.ok());
    a = std::move(*opened);
  }
  ~host() {
    q.reset();
    l.reset();
    a.reset();
  }
  static std::shared_ptr<domain> make(const shm_options& o) {
    auto made = make_shm(o);
    REQUIRE_MESSAGE(made.ok(), (made ? "" : made.why().describe()));
    return *made;
  }
  void poll() {
    completion out[16];
    bool progressed = false;
    const std::size_t n = a->poll(out, progressed);
    // The cause is reported before the operations that it flushed.
    while (a->has_events()) {
      cm_event e = a->next_event();
      if (e.what == cm_event::type::connect_request) {
        request = e.request;
        if (accepts) {
          auto made = a->accept(e.request, accept_with,
                                std::as_bytes(std::span(accept_data.data(), accept_data.size())));
          if (made) q = std::move(*made);
        }
      }
      events.push_back(std::move(e));
    }
    done.insert(done.end(), out, out + n);
    home.turn();
  }
  [[nodiscard]] const cm_event* saw(cm_event::type t) const {
    for (const cm_event& e : events) {
      if (e.what == t) return &e;
    }
    return nullptr;
  }
  posted send(std::uint64_t id, const segment& s, opcode op = opcode::send, std::uint8_t flags = 0,
              std::uint32_t imm = 0) {
    send_request r;
    r.id = id;
    r.op = op;
    r.flags = flags;
    r.imm = imm;
    r.segments = &s;
    r.segment_count = 1;
    return post(r);
  }
  posted rma(std::uint64_t id, opcode op, const segment& s, std::uint64_t addr, std::uint64_t rkey,
             std::uint64_t operand = 0, std::uint64_t swap = 0, std::uint32_t imm = 0) {
    send_request r;
    r.id = id;
    r.op = op;
    r.segments = &s;
    r.segment_count = 1;
    r.remote_addr = addr;
    r.rkey = rkey;
    r.operand = operand;
    r.swap = swap;
    r.imm = imm;
    return post(r);
  }
  posted post(const send_request& r) {
    completion now;
    const posted p = q->post_send(r, now);
    if (p == posted::done) done.push_back(now);
    return p;
  }
  posted recv(std::uint64_t id, const segment& s) {
    completion now;
    const recv_request r{id, 1, &s, nullptr};
    const posted p = q->post_recv(r, now);
    if (p == posted::done) done.push_back(now);
    return p;
  }
  [[nodiscard]] const completion* find(std::uint64_t id) const {
    for (const completion& c : done) {
      if (c.id == id) return &c;
    }
    return nullptr;
  }
  [[nodiscard]] std::size_t count(wc_status s) const {
    std::size_t n = 0;
    for (const completion& c : done) n += c.status == s ? 1U : 0U;
    return n;
  }
};

template <class Until>
[[nodiscard]] bool pump(host& x, host& y, Until until) {
  for (long i = 0; i < patience; ++i) {
    if (until()) return true;
    x.poll();
    y.poll();
    if (i % polls_per_yield == 0) std::this_thread::yield();
  }
  return false;
}
template <class Until>
[[nodiscard]] bool pump(host& x, Until until) {
  for (long i = 0; i < patience; ++i) {
    if (until()) return true;
    x.poll();
    if (i % polls_per_yield == 0) std::this_thread::yield();
  }
  return false;
}

// A connected server and client.
struct couple {
  scratch dir;
  shm_options options;
  host server;
  host client;
  explicit couple(const shm_options& base = {}, const queue_pair_options& so = {},
                  const queue_pair_options& co = {}, wait_mode mode = wait_mode::polling)
      : options(with_directory(base, dir.path)), server(options, mode), client(options, mode) {
    server.accept_with = so;
    auto l = server.a->listen({"", 0});
    REQUIRE(l.ok());
    server.l = std::move(*l);
    auto q = client.a->connect({"", server.l->bound().port}, co, {});
    REQUIRE_MESSAGE(q.ok(), (q ? "" : q.why().describe()));
    client.q = std::move(*q);
    REQUIRE(pump(server, client, [&] {
      return client.saw(cm_event::type::established) != nullptr &&
             server.saw(cm_event::type::established) != nullptr;
    }));
    server.events.clear();
    client.events.clear();
  }
  static shm_options with_directory(shm_options o, const std::string& path) {
    o.directory = path;
    return o;
  }
  [[nodiscard]] bool both_down() {
    return pump(server, client, [&] {
      return client.saw(cm_event::type::disconnected) != nullptr &&
             server.saw(cm_event::type::disconnected) != nullptr;
    });
  }
};

inline constexpr access everything = access::local_write | all_remote;

inline void fill(const segment& s, unsigned seed) {
  std::uint32_t x = seed * 2654435761U + 1;
  for (std::uint32_t i = 0; i < s.length; ++i) {
    x = x * 1664525U + 1013904223U;
    s.addr[i] = static_cast<std::byte>(x >> 24);
  }
}
[[nodiscard]] inline bool same(const segment& a, const segment& b) {
  return a.length == b.length && std::memcmp(a.addr, b.addr, a.length) == 0;
}

}  // namespace cordma::transport::shm_test
