// Two processes that connect by descriptors. The program carries them: through files, and through a
// plain TCP socket.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/exchange.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr const char* one_process = "the simulator is one process by nature";
constexpr std::size_t message = 1000;  // bytes

using bytes_of = std::vector<std::byte>;
// Sends the peer this side's descriptor and returns the peer's.
using swap_with_peer = std::function<bytes_of(const bytes_of&)>;

// The peer's file is complete as soon as it exists.
bytes_of through_files(const std::string& mine, const std::string& theirs, const bytes_of& bytes) {
  write_exchanged(mine, bytes).value();
  for (;;) {
    result<bytes_of> got = read_exchanged(theirs);
    if (got.code() != errc::not_found) return got.value();
    std::this_thread::yield();
  }
}

bytes_of through_socket(int connected, const bytes_of& bytes) {
  bytes_of theirs = exchange_over(connected, bytes).value();
  ::close(connected);
  return theirs;
}

task<int> answer_one(host* h, Endpoint* e) {
  while (e->state() == endpoint_state::connecting) co_await e->state_changed();
  if (e->state() != endpoint_state::connected) co_return 2;
  MemoryRegion room = h->context.allocate(message).value();
  co_await e->recv(room);
  co_await e->send(room);
  while (e->state() != endpoint_state::closed) co_await e->state_changed();
  co_return 0;
}

int peer_life(wire_to_peer& parent, const swap_with_peer& swap) {
  if (parent.hear() != "go") return 3;
  host h;
  Endpoint e = h.worker.prepare().value();
  const bytes_of theirs = swap(e.descriptor().value());
  if (!e.connect(theirs).ok()) return 4;
  return h.worker.run(answer_one(&h, &e));
}

task<> ask_one(host& h, Endpoint& e, std::uint64_t seed) {
  while (e.state() == endpoint_state::connecting) co_await e.state_changed();
  CHECK(e.state() == endpoint_state::connected);
  MemoryRegion out = h.context.allocate(message).value();
  MemoryRegion in = h.context.allocate(message).value();
  fill(out.bytes(), seed);
  recv_operation answer = e.recv(in).start();
  co_await e.send(out);
  co_await answer;
  CHECK(filled(in.bytes(), seed));
}

// The descriptor belongs to a process that has exited.
task<> find_it_stale(host& h, const bytes_of& old) {
  endpoint_options impatient;
  impatient.connect_timeout = std::chrono::milliseconds(300);
  Endpoint late = h.worker.prepare(impatient).value();
  static_cast<void>(late.descriptor().value());
  const result<void> refused = late.connect(old);
  if (!refused.ok()) {
    CHECK(refused.code() != errc::bad_state);
    co_return;
  }
  while (late.state() == endpoint_state::connecting) co_await late.state_changed();
  CHECK(late.state() == endpoint_state::closed);
  CHECK(late.first_cause() != nullptr);
}

// `swap_with(i)` carries descriptors to and from the i-th life of the peer.
void connect_restart_connect(std::vector<child_process>& lives,
                             const std::function<swap_with_peer(std::size_t)>& swap_with) {
  host h;
  bytes_of theirs;
  for (std::size_t life = 0; life < lives.size(); ++life) {
    CAPTURE(life);
    Endpoint e = h.worker.prepare().value();
    lives[life].wire().tell("go");
    const bytes_of old = theirs;
    theirs = swap_with(life)(e.descriptor().value());
    CHECK(theirs != old);
    bytes_of damaged = theirs;
    damaged[damaged.size() / 2] ^= std::byte{1};
    CHECK(e.connect(damaged).code() == errc::connection_aborted);
    damaged = theirs;
    damaged.pop_back();
    CHECK(e.connect(damaged).code() == errc::connection_aborted);
    if (!old.empty()) h.worker.run(find_it_stale(h, old));
    CHECK(e.connect(theirs).ok());
    CHECK(e.connect(theirs).code() == errc::bad_state);
    h.worker.run(ask_one(h, e, life));
    CHECK(e.connect(theirs).code() == errc::bad_state);
    if (life + 1 < lives.size()) {
      lives[life].kill();
    } else {
      h.worker.run([](Endpoint* on) -> task<> { co_await on->close(); }(&e));
      CHECK(lives[life].join() == 0);
    }
  }
}

int connect_to_loopback(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  return fd;
}

}  // namespace

TEST_CASE(
    "I3: two processes carry descriptors through files; a damaged, a second and a stale one are "
    "refused" *
    not_on(transport::kind::sim, one_process)) {
  std::string folder = "/tmp/cordma-descriptors-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto names = [&folder](std::size_t life) {
    const std::string stem = folder + "/" + std::to_string(life);
    return std::pair<std::string, std::string>(stem + ".parent", stem + ".peer");
  };
  std::vector<child_process> lives;
  for (std::size_t life = 0; life < 2; ++life) {
    lives.emplace_back([&names, life](wire_to_peer& parent) {
      const auto [of_parent, of_peer] = names(life);
      return peer_life(
          parent, [&](const bytes_of& mine) { return through_files(of_peer, of_parent, mine); });
    });
  }
  connect_restart_connect(lives, [&names](std::size_t life) -> swap_with_peer {
    return [files = names(life)](const bytes_of& mine) {
      return through_files(files.first, files.second, mine);
    };
  });
  std::filesystem::remove_all(folder);
}

TEST_CASE(
    "I3: two processes carry descriptors through a TCP socket; a damaged, a second and a stale one "
    "are refused" *
    not_on(transport::kind::sim, one_process)) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  REQUIRE(::bind(listening, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listening, 2) == 0);
  REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  const int port = ntohs(at.sin_port);
  std::vector<child_process> lives;
  for (std::size_t life = 0; life < 2; ++life) {
    lives.emplace_back([port](wire_to_peer& parent) {
      return peer_life(parent, [port](const bytes_of& mine) {
        return through_socket(connect_to_loopback(port), mine);
      });
    });
  }
  connect_restart_connect(lives, [listening](std::size_t) -> swap_with_peer {
    return [listening](const bytes_of& mine) {
      return through_socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC), mine);
    };
  });
  ::close(listening);
}
