#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shm/shm_listener.hpp>
#include <cordma/net/transport/shortage.hpp>
#include <new>

namespace cordma::transport::shm {
namespace {

constexpr duration longest_greeting = std::chrono::seconds(5);
constexpr int most_accepts_per_look = 64;
constexpr duration between_looks_at_name = std::chrono::seconds(5);
constexpr duration pause_at_limit = std::chrono::milliseconds(50);

void say_no(socket_fd& socket) noexcept {
  hang_up(socket, make_refusal(packet::reject, errc::rejected, ""));
}

}  // namespace

shm_listener::shm_listener(shm_adapter& home, bound_name name, address where,
                           std::vector<ip_address> served, unique_fd spare)
    : home_(home),
      name_(std::move(name.files)),
      socket_(home.sockets(), *this),
      second_(*this),
      namespace_(own_namespace()),
      where_(std::move(where)),
      served_(std::move(served)),
      spare_(std::move(spare)) {
  CORDMA_REQUIRE(name.socket && name_.is_locked());
  socket_.own(std::move(name.socket));
  second_.socket().own(std::move(name.second));
}

std::vector<address> shm_listener::bound_all() const {
  if (served_.empty()) return {where_};
  // The scope in the requested address applies to all link-local addresses.
  const std::size_t scope = where_.host.find('%');
  std::vector<address> all;
  for (const ip_address& a : served_) {
    std::string host = to_text(a);
    if (scope != std::string::npos && is_link_local(a)) host += where_.host.substr(scope);
    all.push_back({.host = std::move(host), .port = where_.port});
  }
  return all;
}

result<void> shm_listener::begin() noexcept {
  const result<void> watched = socket_.watch(EPOLLIN);
  if (!watched) return watched;
  if (second_.socket()) {
    const result<void> second = second_.socket().watch(EPOLLIN);
    if (!second) return second;
  }
  look_at_name_later();
  return {};
}

shm_listener::~shm_listener() {
  // Clients that connected and were not handled yet receive a rejection, instead of finding their
  // socket closed. In a child of fork() they belong to the parent.
  for (const watched_socket* const listening : {&socket_, &second_.socket()}) {
    for (int i = 0; i < most_accepts_per_look && *listening && !listening->inherited(); ++i) {
      socket_fd socket = accept_one(listening->get());
      if (!socket) break;
      say_no(socket);
    }
  }
  for (const auto& g : greetings_) {
    socket_fd socket = g->socket().release();
    say_no(socket);
    home_.expect(-1);
  }
  home_.drop_requests(this);
}

void shm_listener::on_ready(std::uint32_t) noexcept { take_some(socket_.get()); }

bool shm_listener::take_some(int listening) noexcept {
  for (int i = 0; i < most_accepts_per_look; ++i) {
    socket_fd socket = accept_one(listening);
    if (!socket) {
      if (at_descriptor_limit(errno) && !turn_away(listening)) rest();
      return false;
    }
    try {
      greet(socket);
    } catch (const std::bad_alloc&) {
      refuse_for_memory(socket);
    }
  }
  return true;
}

void shm_listener::greet(socket_fd& socket) {
  const result<peer_identity> who = identify(socket.get());
  if (!who) return;
  const peer_rule& rule = home_.of().rule();
  if (!rule.admits(socket.get(), *who)) {
    return hang_up(socket, make_refusal(packet::refuse, errc::not_permitted, rule.text()));
  }
  greetings_.reserve(greetings_.size() + 1);
  auto g = std::make_unique<greeting>(*this, std::move(socket), *who);
  if (!g->socket().watch(EPOLLIN)) {
    socket_fd refused = g->socket().release();
    return refuse_for_memory(refused);
  }
  home_.expect(1);
  home_.home().add(*g, home_.home().now() + longest_greeting);
  greetings_.push_back(std::move(g));
}

// No descriptor is left: refuses the client instead of leaving it in the backlog.
bool shm_listener::turn_away(int listening) noexcept {
  spare_.reset();
  socket_fd socket = accept_one(listening);
  if (socket) {
    hang_up(socket, make_refusal(packet::refuse, errc::no_memory,
                                 "no file descriptor is left: raise its limit with ulimit -n"));
  }
  const bool told = static_cast<bool>(socket);
  socket.close();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return told;
}

void shm_listener::rest() noexcept {
  static_cast<void>(socket_.watch(0));  // watched already, like the next one
  if (second_.socket()) static_cast<void>(second_.socket().watch(0));
  home_.home().add(rest_timer_, home_.home().now() + pause_at_limit);
}

void shm_listener::go_on() noexcept {
  static_cast<void>(socket_.watch(EPOLLIN));
  if (second_.socket()) static_cast<void>(second_.socket().watch(EPOLLIN));
}

void shm_listener::drop(greeting& g) noexcept {
  home_.expect(-1);
  const std::size_t dropped =
      std::erase_if(greetings_, [&g](const auto& each) { return each.get() == &g; });
  CORDMA_ASSERT_OP(dropped, ==, 1U);
}

void shm_listener::on_hello(greeting& g) noexcept {
  received_packet p;
  const transfer t = receive_packet(g.socket().get(), p);
  if (t == transfer::again) return;
  g.socket().unwatch();
  try {
    if (t == transfer::done) take_hello(g, p);
  } catch (const std::bad_alloc&) {
    socket_fd refused = g.socket().release();
    refuse_for_memory(refused);
  }
  drop(g);
}

bool shm_listener::serves(const introduction& hello) const noexcept {
  CORDMA_REQUIRE_OP(hello.wanted_count, <=, hello.wanted.size());
  const std::span<const ip_address> wanted(hello.wanted.data(), hello.wanted_count);
  const network_namespace theirs{hello.namespace_device, hello.namespace_inode};
  // Processes of several network namespaces that share a folder on purpose reach each other as
  // "this host"; other addresses of one namespace do not belong to another.
  const bool known = theirs != network_namespace{} && namespace_ != network_namespace{};
  if (known && theirs != namespace_) {
    const bool shares = !home_.of().options().directory.get().empty();
    if (!shares || !std::ranges::all_of(wanted, is_loopback)) return false;
  }
  return wanted.empty() || served_.empty() ||
         std::ranges::any_of(wanted, [this](const ip_address& a) {
           return std::ranges::find(served_, a) != served_.end();
         });
}

// Files are removed in real time only.
void shm_listener::look_at_name_later() noexcept {
  if (&home_.home().time() != &real_clock()) return;
  home_.home().add(name_timer_, home_.home().now() + between_looks_at_name);
}

// A cleaner of old files in /tmp may have removed ours.
void shm_listener::look_at_name() noexcept {
  look_at_name_later();
  if (name_.is_whole()) return;
  try {
    result<socket_fd> replaced = name_.restore();
    if (!replaced || !*replaced) return;
    // No client can connect to the old socket any more.
    while (take_some(socket_.get())) {}
    socket_.close();
    socket_.own(std::move(*replaced));
    static_cast<void>(socket_.watch(EPOLLIN));  // if this fails, the second name serves alone
  } catch (const std::bad_alloc&) {
    // The next look may find memory.
  }
}

void shm_listener::take_hello(greeting& g, received_packet& p) {
  introduction hello{};
  refusal answer{};
  bool fine = check_hello(p, hello, answer);
  if (fine && !serves(hello)) {
    answer = make_refusal(packet::refuse, errc::unreachable,
                          "it listens on other addresses than the one asked for");
    fine = false;
  }
  if (!fine) {
    socket_fd refused = g.socket().release();
    return hang_up(refused, answer);
  }
  auto r = std::make_unique<connect_request>();
  r->fds = std::move(p.fds);
  r->hello = hello;
  r->who = g.who();
  r->from = this;
  r->path = name_.path();
  home_.add_request(std::move(r)).socket = g.socket().release();
}

}  // namespace cordma::transport::shm
