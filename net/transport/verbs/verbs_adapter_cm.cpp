// The adapter's part of rdma_cm: listening, connecting, answering.
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace cordma::transport::verbs {
namespace {

failure no_such_request() {
  return {errc::bad_state, "the connection request was answered before, or the client has gone"};
}

result<void> fits(std::span<const std::byte> data, std::size_t most) {
  if (data.size() <= most) return {};
  return failure{errc::invalid_value, std::to_string(data.size()) +
                                          " bytes of private data are too many: at most " +
                                          std::to_string(most) + " go with this message"};
}

hello of_kind(hello_kind kind) noexcept { return {.kind = kind, .mtu = 1}; }

int to_milliseconds(duration d) noexcept {
  constexpr duration longest = std::chrono::hours(24);
  return static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::min(d, longest)).count());
}

void refuse(rdma_cm_id* id, const private_data& bytes) noexcept {
  rdma_reject(id, bytes.bytes.data(), bytes.length);
}
void refuse(const incoming& client, std::span<const std::byte> data) noexcept {
  const bool plain = client.kind == peer_kind::plain;
  refuse(client.id.get(), plain ? without_head(data) : encode(of_kind(hello_kind::reject), data));
}

void set_port(sockaddr* a, std::uint16_t port) noexcept {
  if (a->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(a)->sin_port = htons(port);
  if (a->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(a)->sin6_port = htons(port);
}

// True if the port is the problem: rdma_cm returns the same error for an address that no device
// has, and for a port that has a listener on every address.
bool can_bind(rdma_event_channel* cm, socket_address at) noexcept {
  set_port(at.get(), 0);
  rdma_cm_id* raw = nullptr;
  if (rdma_create_id(cm, &raw, nullptr, RDMA_PS_TCP) != 0) return false;
  const owned_id id(raw);
  return rdma_bind_addr(raw, at.get()) == 0;
}

failure cannot_listen(int told, const address& where) {
  const int code = reason_behind(told);
  switch (code) {
    case EADDRINUSE:
      return failure{errc::in_use,
                     where.text() + ": somebody listens there already: choose another port"}
          .with_errno(code);
    case EADDRNOTAVAIL:
    case ENODEV:
      return failure{errc::unreachable, "no RDMA device has the address " + where.text()}
          .with_errno(code);
    default: return failure::from_os(code, "listening on " + where.text() + " by rdma_cm");
  }
}

}  // namespace

result<std::vector<socket_address>> resolve(const address& a, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(a.port);
  const int code =
      getaddrinfo(a.host.empty() ? nullptr : a.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    const int files = reason_behind(0);
    if (files != 0) return failure::from_os(files, "looking up the host \"" + a.host + "\"");
    return failure{errc::unreachable,
                   "the host \"" + a.host + "\" is not known: " + gai_strerror(code)};
  }
  std::vector<socket_address> all;
  for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
    const socket_address s(i->ai_addr, i->ai_addrlen);
    // A hosts file may list an address twice.
    if (std::ranges::find(all, s) == all.end()) all.push_back(s);
  }
  freeaddrinfo(found);
  return all;
}

failure no_device_leads_to(const std::string& peer, int told) {
  const int code = reason_behind(told);
  const failure why = failure::from_os(code, "connecting to " + peer);
  if (why.code() == errc::no_memory) return why;
  return failure{errc::unreachable,
                 "no RDMA device leads to " + peer + " (" + std::strerror(code) + ")"}
      .with_errno(code);
}

void peer_addresses::drop() noexcept {
  CORDMA_REQUIRE_OP(at_, <, left_.size());
  left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(at_));
  if (at_ == left_.size()) at_ = 0;
}

std::string host_of(const sockaddr* a) {
  std::array<char, NI_MAXHOST> host{};
  const socklen_t length = a->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int code = getnameinfo(a, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? host.data() : "";
}

std::string to_text(const sockaddr* a) {
  return address{.host = host_of(a), .port = port_of(a)}.text();
}

std::uint16_t port_of(const sockaddr* a) noexcept {
  return a->sa_family == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in*>(a)->sin_port)
                                 : ntohs(reinterpret_cast<const sockaddr_in6*>(a)->sin6_port);
}

socket_address to_address(const ibv_gid_entry& own) noexcept {
  const ibv_gid& gid = own.gid;
  if (IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(&gid))) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    std::memcpy(&a.sin_addr, &gid.raw[12], sizeof a.sin_addr);
    return {&a, sizeof a};
  }
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  std::memcpy(&a.sin6_addr, gid.raw, sizeof a.sin6_addr);
  if (IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr)) a.sin6_scope_id = own.ndev_ifindex;
  return {&a, sizeof a};
}

result<owned_channel> open_channel() {
  owned_channel made(rdma_create_event_channel());
  if (made != nullptr) return made;
  return cannot_open("rdma_cm (of the kernel module rdma_ucm)", "rdma_cm", errno);
}

result<owned_id> resolve_address(rdma_event_channel* cm, const verbs_domain& domain,
                                 const cm_token& token, rdma_port_space space,
                                 const socket_address& to) {
  const verbs_options& options = domain.options();
  rdma_cm_id* raw = nullptr;
  if (rdma_create_id(cm, &raw, token.packed(), space) != 0) {
    return failure::from_os(errno, "making an rdma_cm identifier");
  }
  owned_id id(raw);
  std::uint8_t tos = options.traffic_class;
  if (tos != 0) {
    static_cast<void>(rdma_set_option(raw, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
  }
  socket_address from;
  if (options.gid_index >= 0) {
    const std::optional<ibv_gid_entry> own = domain.choose_gid(nullptr);
    if (!own) {
      return failure{errc::unreachable, "the GID that verbs.gid_index names, " +
                                            std::to_string(options.gid_index) + ", has gone"};
    }
    from = to_address(*own);
    if (from.get()->sa_family != to.get()->sa_family) {
      return failure{errc::unreachable, to_text(to.get()) +
                                            " is of another address family than the GID that "
                                            "verbs.gid_index names"};
    }
  }
  socket_address target = to;
  if (rdma_resolve_addr(raw, from.empty() ? nullptr : from.get(), target.get(),
                        to_milliseconds(address_patience)) != 0) {
    return no_device_leads_to(to_text(to.get()), errno);
  }
  return id;
}

result<void> resolve_route(rdma_cm_id* id, const verbs_domain& domain, const std::string& peer,
                           duration patience) {
  const device& own = domain.hardware();
  const int files = id->verbs == nullptr ? reason_behind(0) : 0;
  if (files != 0) return failure::from_os(files, "connecting to " + peer);
  if (!leads_by(id, own)) {
    const std::string over =
        id->verbs != nullptr ? ibv_get_device_name(id->verbs->device) : "no device";
    return failure{errc::unreachable, peer + " is reached by " + over + ", and this Context uses " +
                                          own.name + ":" + std::to_string(own.port) +
                                          " (verbs.device)"};
  }
  if (rdma_resolve_route(id, to_milliseconds(patience)) == 0) return {};
  return no_device_leads_to(peer, errno);
}

bool leads_by(const rdma_cm_id* id, const device& own) noexcept {
  return id->verbs != nullptr && own.name == ibv_get_device_name(id->verbs->device) &&
         id->port_num == own.port;
}

// The listener enters the table of its adapter last. If that throws, the destructor does not run.
verbs_listener::verbs_listener(verbs_adapter& home, std::uint64_t number, peer_kind whom,
                               std::vector<owned_id> ids, address bound)
    : home_(home), number_(number), whom_(whom), ids_(std::move(ids)), bound_(std::move(bound)) {
  home_.open(*this);
}

verbs_listener::~verbs_listener() { home_.close(*this, std::move(ids_)); }

std::vector<address> verbs_listener::bound_all() const {
  if (bound_.host.empty()) return {bound_};
  std::vector<address> all;
  for (const owned_id& id : ids_) {
    const sockaddr* const at = rdma_get_local_addr(id.get());
    all.push_back({.host = host_of(at), .port = port_of(at)});
  }
  return all;
}

void verbs_listener::end(failure why) noexcept {
  cm_event e;
  e.what = cm_event::type::listener_ended;
  e.from = this;
  e.why = std::move(why);
  home_.push_event(end_place_, std::move(e));
}

void verbs_adapter::open(verbs_listener& l) {
  const bool is_new = listeners_.emplace(l.number(), &l).second;
  CORDMA_ASSERT(is_new);
}

void verbs_adapter::close(const verbs_listener& l, std::vector<owned_id> ids) noexcept {
  static_cast<void>(read_cm());  // clients that have connected receive our reject, not the kernel's
  ids.clear();
  const std::size_t closed = listeners_.erase(l.number());
  CORDMA_ASSERT_OP(closed, ==, 1U);
  drop_events(nullptr, &l);
  std::erase_if(incoming_, [&l](const auto& entry) {
    incoming& i = *entry.second;
    if (i.from != &l) return false;
    refuse(i, {});
    return true;
  });
}

namespace {

// `port`: in network byte order.
void set_port(socket_address& a, std::uint16_t port) noexcept {
  if (a.get()->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(a.get())->sin_port = port;
  } else {
    reinterpret_cast<sockaddr_in6*>(a.get())->sin6_port = port;
  }
}

result<owned_id> listen_on(rdma_event_channel* cm, const cm_token& token, rdma_port_space space,
                           socket_address at, const address& where, const listening& how) {
  rdma_cm_id* raw = nullptr;
  if (rdma_create_id(cm, &raw, token.packed(), space) != 0) {
    return failure::from_os(errno, "making an rdma_cm identifier");
  }
  owned_id id(raw);
  int on = 1;
  if ((how.ipv6_only &&
       rdma_set_option(raw, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on) != 0) ||
      rdma_bind_addr(raw, at.get()) != 0 ||
      rdma_listen(raw, static_cast<int>(post_list_length * 4)) != 0) {
    const int code = errno;
    const bool port_is_taken = code == EADDRNOTAVAIL && where.port != 0 && can_bind(cm, at);
    return cannot_listen(port_is_taken ? EADDRINUSE : code, where);
  }
  return id;
}

}  // namespace

result<std::vector<owned_id>> listen_at(rdma_event_channel* cm, const cm_token& token,
                                        rdma_port_space space, const address& where,
                                        const listening& how) {
  result<std::vector<socket_address>> places = resolve(where, true);
  if (!places) return places.why();
  if (where.host.empty()) {  // every address of both families
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(where.port);
    *places = {socket_address(&any, sizeof any)};
  }
  std::vector<owned_id> ids;
  std::optional<failure> first;
  for (socket_address& at : *places) {
    // The others use the port of the first one.
    if (!ids.empty()) set_port(at, rdma_get_src_port(ids.front().get()));
    result<owned_id> id = listen_on(cm, token, space, at, where, how);
    if (id) {
      ids.push_back(std::move(*id));
      continue;
    }
    // An address of the name without an RDMA device is left out, if there are others.
    if (id.code() == errc::in_use) return id.why();
    if (!first) first = id.why();
  }
  if (ids.empty()) return *first;
  return ids;
}

result<std::unique_ptr<listener>> verbs_adapter::listen_as(const address& where,
                                                           const listening& how) {
  if (lost_) return *lost_;
  const std::uint64_t number = ++last_listener_;
  const cm_token token{cm_token::kind::listener, number};
  result<std::vector<owned_id>> ids = listen_at(cm_.get(), token, RDMA_PS_TCP, where, how);
  if (!ids) return ids.why();
  const address bound{.host = where.host, .port = ntohs(rdma_get_src_port(ids->front().get()))};
  return std::unique_ptr<listener>(
      std::make_unique<verbs_listener>(*this, number, how.peers, std::move(*ids), bound));
}

result<std::unique_ptr<queue_pair>> verbs_adapter::connect(const address& to,
                                                           const queue_pair_options& options,
                                                           std::span<const std::byte> data) {
  if (options.type == service::ud) {
    return failure{errc::invalid_value, "datagram ports are not connected: create() one"};
  }
  if (lost_) return *lost_;
  const result<queue_pair_options> granted = owner_->grant(options);
  if (!granted) return granted.why();
  const result<void> small_enough = fits(data, most_request_data);
  if (!small_enough) return small_enough.why();
  result<std::vector<socket_address>> candidates = resolve(to, false);
  if (!candidates) return candidates.why();
  auto made = std::make_unique<verbs_pair>(*this, *granted);
  const result<void> ready = made->make();
  if (!ready) return ready.why();
  made->begin(std::move(*candidates), to.text(), data);
  return std::unique_ptr<queue_pair>(std::move(made));
}

std::unique_ptr<incoming> verbs_adapter::claim(std::uint64_t request) noexcept {
  const auto at = incoming_.find(request);
  if (at == incoming_.end()) return owner_->requests().collect(request);
  std::unique_ptr<incoming> found = std::move(at->second);
  incoming_.erase(at);
  return found;
}

result<std::unique_ptr<queue_pair>> verbs_adapter::accept(std::uint64_t request,
                                                          const queue_pair_options& options,
                                                          std::span<const std::byte> data) {
  result<queue_pair_options> granted = owner_->grant(options);
  if (!granted) return granted.why();
  const result<void> small_enough = fits(data, most_accept_data);
  if (!small_enough) return small_enough.why();
  const std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  const auto turn_away = [&client](failure why) {
    if (client->id != nullptr) refuse(*client, {});
    return why;
  };
  if (options.type != client->theirs.type) {
    return turn_away({errc::invalid_value, "the client asks for service " +
                                               std::string(transport::name(client->theirs.type)) +
                                               ", not " +
                                               std::string(transport::name(options.type))});
  }
  granted->peer = client->kind;
  auto made = std::make_unique<verbs_pair>(*this, *granted);
  const result<void> ready = made->make();
  if (!ready) return turn_away(ready.why());
  const result<void> answered = made->answer(*client, data);
  if (!answered) return turn_away(answered.why());
  return std::unique_ptr<queue_pair>(std::move(made));
}

result<void> verbs_adapter::reject(std::uint64_t request, std::span<const std::byte> data) {
  const result<void> small_enough = fits(data, most_accept_data);
  if (!small_enough) return small_enough;
  const std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  refuse(*client, data);
  return {};
}

result<std::uint64_t> verbs_adapter::hand_over(std::uint64_t request, adapter& target) {
  auto* const other = dynamic_cast<verbs_adapter*>(&target);
  if (other == nullptr || other->owner_ != owner_) {
    return failure{errc::invalid_value,
                   "a request can only go to another adapter of the same verbs domain"};
  }
  std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  client->from = nullptr;
  rdma_cm_id* const id = client->id.get();
  // This adapter has acknowledged all its events; from now on the other adapter receives them.
  const auto move = [id, other, this] {
    return other == this || rdma_migrate_id(id, other->cm()) == 0;
  };
  if (!owner_->requests().leave(request, std::move(client), move)) return no_such_request();
  return request;
}

cm_news copy_of(const rdma_cm_event& event) noexcept {
  const rdma_conn_param& p = event.param.conn;
  cm_news news;
  news.what = event.event;
  news.status = event.status;
  news.id = event.id;
  news.listen_id = event.listen_id;
  news.peer_pair = p.qp_num;
  news.responder_resources = p.responder_resources;
  news.initiator_depth = p.initiator_depth;
  const std::size_t length = std::min<std::size_t>(p.private_data_len, news.data.bytes.size());
  if (p.private_data != nullptr) std::memcpy(news.data.bytes.data(), p.private_data, length);
  news.data.length = static_cast<std::uint8_t>(p.private_data != nullptr ? length : 0);
  if (event.id->ps == RDMA_PS_UDP) {  // private data is at the same place
    const rdma_ud_param& found = event.param.ud;
    news.peer_pair = found.qp_num;
    news.path = found.ah_attr;
    news.qkey = found.qkey;
  }
  return news;
}

bool verbs_adapter::read_cm() noexcept {
  bool found = false;
  rdma_cm_event* raw = nullptr;
  while (rdma_get_cm_event(cm_.get(), &raw) == 0) {
    found = true;
    const cm_news news = copy_of(*raw);
    const cm_token token = cm_token::of(raw->listen_id != nullptr ? raw->listen_id : raw->id);
    const bool removed =
        news.what == RDMA_CM_EVENT_DEVICE_REMOVAL && leads_by(raw->id, owner_->hardware());
    rdma_ack_cm_event(raw);  // first: identifiers cannot be destroyed before
    if (removed) on_removal();
    const bool asks = news.what == RDMA_CM_EVENT_CONNECT_REQUEST;
    const owned_id asked_for_port(asks && token.what == cm_token::kind::pair ? news.id : nullptr);
    if (asks && asked_for_port == nullptr) {
      const auto at = listeners_.find(token.number);
      on_request(news, at != listeners_.end() ? at->second : nullptr);
    } else if (token.what == cm_token::kind::request) {
      // Any event for an unanswered request means that the client has disconnected.
      static_cast<void>(claim(token.number));
    } else if (token.what == cm_token::kind::pair && !removed) {
      verbs_pair* const p_found = find(static_cast<std::uint32_t>(token.number));
      if (p_found != nullptr) p_found->on_news(news);
    }
  }
  return found;
}

void verbs_adapter::on_request(const cm_news& news, verbs_listener* from) noexcept {
  owned_id id(news.id);
  const bool ours = leads_by(id.get(), owner_->hardware());
  const decoded_hello d =
      decode_request(news.bytes(), from != nullptr ? from->whom() : peer_kind::cordma);
  if (from == nullptr || !ours || d.what != decoded_hello::outcome::good) {
    const bool other = d.what == decoded_hello::outcome::other_version;
    return refuse(id.get(), encode(of_kind(other ? hello_kind::mismatch : hello_kind::reject), {}));
  }
  try {
    event_place reserved = reserve_event();
    push_event(reserved, take_in(std::move(id), news, from->whom(), d.value, d.user, from));
  } catch (const std::bad_alloc&) {
    return;  // its identifier is destroyed, which rejects the client
  }
}

cm_event verbs_adapter::take_in(owned_id id, const cm_news& news, peer_kind whom,
                                const hello& theirs, std::span<const std::byte> user,
                                verbs_listener* from) {
  auto client = std::make_unique<incoming>();
  client->number = owner_->requests().next_id();
  id->context = cm_token{cm_token::kind::request, client->number}.packed();
  client->from = from;
  client->kind = whom;
  client->theirs = theirs;
  client->peer_pair = news.peer_pair;
  client->reads = news.reads();
  client->peer = to_text(rdma_get_peer_addr(id.get()));
  client->id = std::move(id);
  cm_event e;
  e.what = cm_event::type::connect_request;
  e.from = from;
  e.request = client->number;
  e.data.assign(user.begin(), user.end());
  e.peer = client->peer;
  const bool is_new = incoming_.emplace(client->number, std::move(client)).second;
  CORDMA_ASSERT(is_new);
  return e;
}

}  // namespace cordma::transport::verbs
