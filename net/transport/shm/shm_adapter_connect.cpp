// The adapter's part of connection management: listening, connecting, accepting and rejecting.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_listener.hpp>

namespace cordma::transport::shm {
namespace {

constexpr int port_attempts = 256;
constexpr std::uint32_t first_dynamic_port = 49152;
constexpr std::uint32_t dynamic_ports = 65536 - first_dynamic_port;

result<bound_name> bind_any(const meeting_place& at, const peer_rule& rule, address& where) {
  if (where.port != 0) return bind_port(at, where.port, rule);
  const result<std::uint64_t> start = random_number();
  if (!start) return start.why();
  for (std::uint64_t i = 0; i < port_attempts; ++i) {
    where.port = static_cast<std::uint16_t>(first_dynamic_port + (*start + i) % dynamic_ports);
    result<bound_name> b = bind_port(at, where.port, rule);
    if (b || b.code() != errc::in_use) return b;
  }
  return failure{errc::in_use, "no free port was found in " + at.folders.front() + ": name one"};
}

}  // namespace

void refuse_for_memory(socket_fd& socket) noexcept {
  hang_up(socket, make_refusal(
                      packet::refuse, errc::no_memory,
                      "it has no memory for a connection: free memory there, or raise its limits"));
}

bool check_hello(received_packet& p, introduction& hello, refusal& answer) noexcept {
  const header_verdict v = inspect(p.bytes());
  if (v.is == header_verdict::what::version) {
    answer = make_refusal(packet::mismatch, errc::unsupported_version, "the shm protocol version");
    answer.mine = wire_version;
    answer.theirs = v.theirs;
    return false;
  }
  if (v.is != header_verdict::what::fine || v.type != packet::hello || !parse(p.bytes(), hello) ||
      hello.data_bytes > hello.data.size() || hello.wanted_count > hello.wanted.size()) {
    answer = make_refusal(packet::refuse, errc::connection_aborted, "a malformed hello");
    return false;
  }
  if (hello.cell_size != cell_bytes) {
    answer = make_refusal(packet::mismatch, errc::unsupported_version, "the size of a ring's cell");
    answer.mine = cell_bytes;
    answer.theirs = hello.cell_size;
    return false;
  }
  if (p.lost_fds) {
    answer = make_refusal(packet::refuse, errc::no_memory,
                          "no file descriptor is left: raise its limit with ulimit -n");
    return false;
  }
  if (p.fd_count != 4 || !std::has_single_bit(hello.ring_size) ||
      hello.ring_size < least_ring_bytes || hello.ring_size > most_ring_bytes ||
      !is_safe_to_map(p.fds[0].get(), channel_bytes(hello.ring_size))) {
    answer = make_refusal(packet::refuse, errc::connection_aborted, "a hello without its memory");
    return false;
  }
  return true;
}

result<peer_terms> read_terms(const introduction& i, std::span<unique_fd> fds,
                              const peer_identity& who) {
  CORDMA_REQUIRE_OP(fds.size(), ==, 3U);
  peer_terms t;
  if (i.cell_size != cell_bytes) {
    return failure{errc::unsupported_version,
                   "the size of a ring's cell differs: mine is 64, "
                   "theirs is " +
                       std::to_string(i.cell_size)};
  }
  if (!is_safe_to_map(fds[1].get(), page_bytes) || !is_safe_to_map(fds[2].get(), epochs_bytes)) {
    return failure{errc::connection_aborted, "the peer's shared pages are not what they should be"};
  }
  result<mapped_view> page = map_shared(fds[1].get(), page_bytes, protection::read);
  if (!page) return page.why();
  result<mapped_view> epochs = map_shared(fds[2].get(), epochs_bytes, protection::read);
  if (!epochs) return epochs.why();
  t.doorbell = std::move(fds[0]);
  t.page = std::move(*page);
  t.epochs = std::move(*epochs);
  t.who = who;
  // A hostile value must not overflow in the multiplication by the retries.
  t.rnr_timer_ns = std::min<std::uint64_t>(i.rnr_timer_ns, std::uint64_t{1} << 55);
  t.probe_address = i.probe_address;
  t.probe_value = i.probe_value;
  t.rnr_retry = i.rnr_retry;
  t.fences_itself = i.fences_itself != 0;
  return t;
}

result<std::unique_ptr<listener>> shm_adapter::listen(const address& where) {
  result<named_host> on = look_up(where.host);
  if (!on) return on.why();
  if (!on->here) {
    return failure{errc::unreachable, "\"" + where.host + "\" is not an address of this host"};
  }
  address bound = where;
  result<bound_name> name = bind_any(domain_->place(), domain_->rule(), bound);
  if (!name) return name.why();
  unique_fd spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto l = std::make_unique<shm_listener>(*this, std::move(*name), std::move(bound),
                                          std::move(on->addresses), std::move(spare));
  const result<void> watched = l->begin();
  if (!watched) return watched.why();
  return std::unique_ptr<listener>(std::move(l));
}

result<std::unique_ptr<queue_pair>> shm_adapter::connect(const address& to,
                                                         const queue_pair_options& options,
                                                         std::span<const std::byte> private_data) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  // First checks that there is a listener at all: a name look-up may take long.
  const result<void> found = find_port(domain_->place(), to.port);
  if (!found) return found.why();
  result<named_host> on = look_up(to.host);
  if (!on) return on.why();
  if (!on->here) return failure{errc::unreachable, to.host + " is no address of this host"};
  auto call = std::make_unique<invitation>();
  call->port = to.port;
  call->wanted = std::move(on->addresses);
  call->data.assign(private_data.begin(), private_data.end());
  auto q = std::make_unique<shm_queue_pair>(*this, *granted,
                                            port_path(domain_->place().folders.front(), to.port));
  const result<void> calling = q->coming_up().call(std::move(call));
  if (!calling) return calling.why();
  return std::unique_ptr<queue_pair>(std::move(q));
}

connect_request& shm_adapter::add_request(std::unique_ptr<connect_request> r) {
  CORDMA_REQUIRE_OP(r->hello.data_bytes, <=, r->hello.data.size());
  cm_event e;
  e.what = cm_event::type::connect_request;
  e.from = r->from;
  e.request = domain_->next_request();
  e.data.assign(r->hello.data.begin(), r->hello.data.begin() + r->hello.data_bytes);
  e.peer = "shm:";
  e.peer += peer_name(r->who);
  const auto [at, is_new] = requests_.emplace(e.request, std::move(r));
  CORDMA_ASSERT(is_new);
  try {
    push(std::move(e));
  } catch (const std::bad_alloc&) {
    requests_.erase(at);
    throw;
  }
  return *at->second;
}

void shm_adapter::drop_requests(const shm_listener* from) noexcept {
  for (auto at = requests_.begin(); at != requests_.end();) {
    if (at->second->from != from) {
      ++at;
      continue;
    }
    hang_up(at->second->socket, make_refusal(packet::reject, errc::rejected, ""));
    at = requests_.erase(at);
  }
  drop_events(*from);
}

result<std::unique_ptr<connect_request>> shm_adapter::take_request(std::uint64_t id) {
  std::unique_ptr<connect_request> r;
  if (auto own = requests_.extract(id)) {
    r = std::move(own.mapped());
  } else {
    const std::lock_guard lock(handed_mutex_);
    if (auto handed = handed_.extract(id)) r = std::move(handed.mapped());
  }
  if (r == nullptr || hung_up(r->socket.get())) {
    return failure{errc::bad_state,
                   "the connection request was answered before, or its client has gone"};
  }
  return r;
}

result<std::unique_ptr<queue_pair>> shm_adapter::accept(std::uint64_t request,
                                                        const queue_pair_options& options,
                                                        std::span<const std::byte> private_data) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  const result<std::unique_ptr<connect_request>> taken = take_request(request);
  if (!taken) return taken.why();
  const std::unique_ptr<connect_request>& r = *taken;
  try {
    return accept_from(r->socket, r->hello, r->fds, r->who, r->path, *granted, private_data);
  } catch (const std::bad_alloc&) {
    if (r->socket) refuse_for_memory(r->socket);
    throw;
  }
}

result<std::unique_ptr<queue_pair>> shm_adapter::accept_from(
    socket_fd& socket, const introduction& hello, std::span<unique_fd> fds,
    const peer_identity& who, const std::string& path, const queue_pair_options& options,
    std::span<const std::byte> data) {
  CORDMA_REQUIRE_OP(fds.size(), ==, most_packet_fds);
  const auto refuse = [&](const failure& why) {
    hang_up(socket, make_refusal(packet::refuse, why.code(), why.message()));
    return why;
  };
  result<peer_terms> terms = read_terms(hello, fds.subspan(1, 3), who);
  if (!terms) return refuse(terms.why());
  result<channel> memory = map_channel(fds[0].get(), hello.ring_size, side::accepts);
  if (!memory) return refuse(memory.why());
  auto q = std::make_unique<shm_queue_pair>(*this, options, path);
  const result<void> adopted = q->adopt_socket(socket);
  if (!adopted) {
    refuse_for_memory(socket);
    return adopted.why();
  }
  q->coming_up().answer(std::move(*memory), std::move(*terms), data);
  return std::unique_ptr<queue_pair>(std::move(q));
}

result<void> shm_adapter::reject(std::uint64_t request, std::span<const std::byte> private_data) {
  const result<std::unique_ptr<connect_request>> taken = take_request(request);
  if (!taken) return taken.why();
  refusal no = make_refusal(packet::reject, errc::rejected, "");
  no.data_bytes = static_cast<std::uint8_t>(std::min(private_data.size(), no.data.size()));
  std::copy_n(private_data.data(), no.data_bytes, no.data.data());
  hang_up((*taken)->socket, no);
  return {};
}

result<std::uint64_t> shm_adapter::hand_over(std::uint64_t request, adapter& target) {
  auto* const to = dynamic_cast<shm_adapter*>(&target);
  if (to == nullptr || to->domain_ != domain_) {
    return failure{errc::invalid_value, "a request can be handed over within one domain only"};
  }
  auto r = requests_.extract(request);
  if (!r) return failure{errc::bad_state, "the connection request was answered before"};
  const std::lock_guard lock(to->handed_mutex_);
  r.mapped()->from = nullptr;
  const bool handed = to->handed_.insert(std::move(r)).inserted;
  CORDMA_ASSERT(handed);
  return request;
}

result<std::unique_ptr<queue_pair>> shm_adapter::create(const queue_pair_options& options) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  auto q = std::make_unique<shm_queue_pair>(*this, *granted, "");
  const result<void> opened = q->coming_up().open_hidden();
  if (!opened) return opened.why();
  return std::unique_ptr<queue_pair>(std::move(q));
}

}  // namespace cordma::transport::shm
