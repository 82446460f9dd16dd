#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shm/shm_listener.hpp>
#include <new>

namespace cordma::transport::shm {
namespace {

constexpr duration longest_greeting = std::chrono::seconds(5);
constexpr int most_accepts_per_look = 64;

void say_no(unique_fd& socket) noexcept {
  hang_up(socket, make_refusal(packet::reject, errc::rejected, ""));
}

}  // namespace

shm_listener::shm_listener(shm_adapter& home, bound_name name, address where, unique_fd spare)
    : home_(home), name_(std::move(name)), where_(std::move(where)), spare_(std::move(spare)) {}

shm_listener::~shm_listener() {
  home_.unwatch(name_.socket.get(), *this);
  // Who came and was not looked at yet is told no, instead of finding its socket closed.
  for (int i = 0; i < most_accepts_per_look; ++i) {
    unique_fd socket = accept_one(name_.socket.get());
    if (!socket) break;
    say_no(socket);
  }
  for (const auto& g : greetings_) {
    home_.unwatch(g->socket.get(), *g);
    say_no(g->socket);
    home_.expect(-1);
  }
  home_.drop_requests(this);
}

void shm_listener::on_socket() noexcept {
  for (int i = 0; i < most_accepts_per_look; ++i) {
    unique_fd socket = accept_one(name_.socket.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) turn_away();
      return;
    }
    try {
      greet(socket);
    } catch (const std::bad_alloc&) {
      refuse_for_memory(socket);
    }
  }
}

void shm_listener::greet(unique_fd& socket) {
  const result<peer_identity> who = identify(socket.get());
  if (!who) return;
  if (!home_.of().options().any_user && (*who).uid != ::geteuid()) {
    return hang_up(socket, make_refusal(packet::refuse, errc::not_permitted,
                                        "it serves processes of its own user only"));
  }
  greetings_.reserve(greetings_.size() + 1);
  auto g = std::make_unique<greeting>(*this, std::move(socket), *who);
  if (!home_.watch(g->socket.get(), *g)) return refuse_for_memory(g->socket);
  home_.expect(1);
  home_.home().add(*g, home_.home().now() + longest_greeting);
  greetings_.push_back(std::move(g));
}

// No descriptor is left: the client is told instead of hanging in the backlog.
void shm_listener::turn_away() noexcept {
  spare_.reset();
  unique_fd socket = accept_one(name_.socket.get());
  if (socket) {
    hang_up(socket, make_refusal(packet::refuse, errc::no_memory,
                                 "no file descriptor is left: raise its limit with ulimit -n"));
  }
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void shm_listener::drop(greeting& g) noexcept {
  home_.expect(-1);
  std::erase_if(greetings_, [&g](const auto& each) { return each.get() == &g; });
}

void shm_listener::on_hello(greeting& g) noexcept {
  received_packet p;
  const transfer t = receive_packet(g.socket.get(), p);
  if (t == transfer::again) return;
  home_.unwatch(g.socket.get(), g);
  try {
    if (t == transfer::done) take_hello(g, p);
  } catch (const std::bad_alloc&) {
    refuse_for_memory(g.socket);
  }
  drop(g);
}

void shm_listener::take_hello(greeting& g, received_packet& p) {
  introduction hello{};
  refusal answer{};
  if (!check_hello(p, hello, answer)) return hang_up(g.socket, answer);
  auto r = std::make_unique<connect_request>();
  r->fds = std::move(p.fds);
  r->hello = hello;
  r->who = g.who;
  r->from = this;
  r->path = name_.path;
  home_.add_request(std::move(r)).socket = std::move(g.socket);
}

}  // namespace cordma::transport::shm
