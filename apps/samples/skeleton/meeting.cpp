#include "sample.hpp"

#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/when_any.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace sample {
namespace {

using cordma::Endpoint;
using cordma::endpoint_options;
using cordma::endpoint_state;
using namespace std::chrono_literals;

constexpr auto patience = 30s;    // limit of the wait for a peer's descriptor
constexpr auto look_again = 5ms;  // interval of checks for a file
constexpr auto late = 200ms;      // delay of --receive late

// Waits for the next peer; fails if a connected peer closes before all have arrived.
cordma::task<cordma::ConnectionRequest> next(cordma::Listener& listener,
                                             std::vector<Endpoint>& here) {
  std::vector<cordma::task<void>> gone;
  for (Endpoint& peer : here) gone.push_back(peer_closes(peer));
  if (gone.empty()) co_return co_await listener.next();
  auto first = co_await cordma::when_any(listener.next(), cordma::when_any(std::move(gone)));
  for (const Endpoint& peer : here) {
    if (peer.state() != endpoint_state::connected) cordma::throw_error(*peer.first_cause());
  }
  co_return std::get<0>(std::move(first.value));
}

cordma::task<std::vector<Endpoint>> by_listening(session& s, endpoint_options terms) {
  cordma::Listener listener = s.worker.listen(s.given.listen).value();
  std::printf("listening on %s\n", listener.bound().text().c_str());
  std::fflush(stdout);
  cordma::connect_options answer;
  answer.endpoint = terms;
  answer.private_data = s.lent;
  std::vector<Endpoint> peers;
  while (peers.size() < s.given.connections) {
    cordma::ConnectionRequest request = co_await next(listener, peers);
    Endpoint peer = co_await request.accept(answer);
    peers.push_back(std::move(peer));
  }
  co_return peers;
}

cordma::task<std::vector<Endpoint>> by_connecting(session& s, endpoint_options terms) {
  cordma::connect_options request;
  request.endpoint = terms;
  std::vector<Endpoint> peers;
  for (const std::string& address : s.given.connect) {
    Endpoint peer = co_await s.worker.connect(address, request);
    s.borrowed.assign(peer.peer_data().begin(), peer.peer_data().end());
    peers.push_back(std::move(peer));
  }
  co_return peers;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind('_') + 1); }

// FILE.requester; FILE.sender.3 for the fourth of several connections.
std::string file_of(const session& s, const char* program, std::size_t connection) {
  const std::string file = s.given.descriptor + "." + last_word(program);
  return s.given.connections == 1 ? file : file + "." + std::to_string(connection);
}

// Removes the file after reading, because a descriptor can be used for one connection only.
cordma::task<std::vector<std::byte>> what_peer_wrote(const session& s, std::string path) {
  cordma::task_context& me = co_await cordma::this_task();
  const cordma::time_point end = cordma::after(me.home().now(), patience);
  for (;;) {
    cordma::result<std::vector<std::byte>> bytes = cordma::read_exchanged(path);
    if (bytes.ok()) {
      std::filesystem::remove(path);
      co_return std::move(*bytes);
    }
    if (bytes.code() != cordma::errc::not_found) cordma::throw_error(bytes.why());
    if (me.home().now() > end) {
      fail(path + " was not written: start sample-" + s.about.other +
           " with the same --descriptor");
    }
    co_await cordma::sleep_for(look_again);
  }
}

// Files that this side wrote for its peer. If they do not connect, the files are removed, so that
// the next pair does not find them.
class own_files {
 public:
  own_files() = default;
  own_files(const own_files&) = delete;
  own_files& operator=(const own_files&) = delete;
  ~own_files() {
    std::error_code ignored;
    for (const std::string& file : written_) std::filesystem::remove(file, ignored);
  }
  void write(const std::string& file, std::span<const std::byte> bytes) {
    cordma::write_exchanged(file, bytes).value();
    written_.push_back(file);
  }
  void leave() noexcept { written_.clear(); }

 private:
  std::vector<std::string> written_;
};

// Both sides do the same steps, so either may start first.
cordma::task<Endpoint> by_descriptor(session& s, endpoint_options terms, std::size_t connection) {
  Endpoint peer = s.worker.prepare(terms).value();
  const std::string mine = file_of(s, s.about.name, connection);
  const std::string theirs = file_of(s, s.about.other, connection);
  own_files written;
  // The memory is written first: once the descriptor exists, everything does.
  if (!s.lent.empty()) written.write(mine + ".memory", s.lent);
  written.write(mine, peer.descriptor().value());
  const std::vector<std::byte> descriptor = co_await what_peer_wrote(s, theirs);
  if (std::filesystem::exists(theirs + ".memory")) {
    s.borrowed = co_await what_peer_wrote(s, theirs + ".memory");
  }
  const cordma::result<void> begun = peer.connect(descriptor);
  while (begun && peer.state() == endpoint_state::connecting) co_await peer.state_changed();
  if (peer.state() != endpoint_state::connected) {
    const cordma::failure why = begun ? *peer.first_cause() : begun.why();
    // With not_connected it was connected, and the peer has already finished and closed.
    if (why.code() != cordma::errc::not_connected) {
      std::fprintf(stderr, "%s led to nobody; left by a pair that was killed? Start both again\n",
                   theirs.c_str());
      cordma::throw_error(why);
    }
  }
  written.leave();
  co_return peer;
}

cordma::task<std::vector<Endpoint>> by_descriptors(session& s, endpoint_options terms) {
  std::vector<Endpoint> peers;
  while (peers.size() < s.given.connections) {
    Endpoint peer = co_await by_descriptor(s, terms, peers.size());
    peers.push_back(std::move(peer));
  }
  co_return peers;
}

}  // namespace

cordma::task<std::vector<Endpoint>> meet_all(session& s, endpoint_options terms) {
  std::vector<Endpoint> peers;
  if (!s.given.listen.empty()) {
    peers = co_await by_listening(s, terms);
  } else if (!s.given.connect.empty()) {
    peers = co_await by_connecting(s, terms);
  } else {
    peers = co_await by_descriptors(s, terms);
  }
  for (Endpoint& peer : peers) {
    std::printf("connected over %s\n", cordma::transport::name(peer.transport()).data());
  }
  std::fflush(stdout);
  if (s.given.hold) {
    co_await peer_closes(peers.front());
    fail("the peer closed while --hold held this side");
  }
  co_return peers;
}

cordma::task<Endpoint> meet(session& s, endpoint_options terms) {
  std::vector<Endpoint> peers = co_await meet_all(s, terms);
  co_return std::move(peers.front());
}

cordma::task<void> peer_closes(Endpoint& peer) {
  while (peer.state() != endpoint_state::closed) co_await peer.state_changed();
  const cordma::failure& why = *peer.first_cause();
  if (why.code() != cordma::errc::not_connected) cordma::throw_error(why);
}

grants grant(const session& s, cordma::access right) {
  const cordma::access another = right == cordma::access::remote_read ? cordma::access::remote_write
                                                                      : cordma::access::remote_read;
  grants g{.memory = right, .connection = {}};
  g.connection.remote_access = right;
  if (s.given.withhold == "memory") g.memory = another;
  if (s.given.withhold == "connection") g.connection.remote_access = another;
  return g;
}

cordma::task<void> time_to_receive(const session& s, Endpoint& peer) {
  if (s.given.receive == "late") co_await cordma::sleep_for(late);
  if (s.given.receive == "never") {
    co_await peer_closes(peer);
    fail("the peer closed, though nothing of it was received");
  }
}

}  // namespace sample
