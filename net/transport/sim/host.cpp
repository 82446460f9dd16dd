#include <cordma/net/transport/sim/fabric.hpp>
#include <cordma/net/transport/sim/host.hpp>
#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {
namespace {

constexpr std::uint32_t bits_of(std::initializer_list<opcode> ops) noexcept {
  std::uint32_t bits = 0;
  for (const opcode op : ops) bits |= 1U << static_cast<unsigned>(op);
  return bits;
}

capabilities make_caps(std::uint32_t mtu, std::uint32_t max_queue_pairs) noexcept {
  capabilities c;
  c.transport = kind::sim;
  c.operations = {bits_of({opcode::send, opcode::send_imm, opcode::write, opcode::write_imm,
                           opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush,
                           opcode::bind, opcode::send_invalidate}),
                  bits_of({opcode::send, opcode::send_imm, opcode::write, opcode::write_imm}),
                  bits_of({opcode::send, opcode::send_imm})};
  c.max_send_depth = 16384;
  c.max_recv_depth = 16384;
  c.max_segments = 8;
  c.max_inline = 256;
  c.max_read_depth = 128;
  c.max_queue_pairs = max_queue_pairs;
  c.max_shared_depth = 1U << 16;
  c.max_message = std::uint64_t{64} << 20;
  c.max_datagram = mtu;
  c.max_connect_data = most_connect_data;
  c.max_accept_data = most_accept_data;
  c.event_driven = true;
  c.whole_words = true;
  c.ordered_path = true;
  c.atomic_with_cpu = true;
  c.every_address = true;
  c.shared_receive_queues = true;
  c.in_place = true;
  return c;
}

}  // namespace

host::host(fabric& net, std::string name, std::uint32_t index, std::uint32_t instance,
           std::uint32_t mtu, time_point last_death)
    : net_(net),
      name_(std::move(name)),
      index_(index),
      instance_(instance),
      caps_(make_caps(mtu, net.options().max_queue_pairs)),
      died_at_(last_death) {}

result<void> host::charge() noexcept {
  if (!alive_) return failure{errc::shutdown, "this simulated host was killed"};
  std::uint32_t left = allocations_left_.load(std::memory_order_relaxed);
  while (left != 0 && !allocations_left_.compare_exchange_weak(left, left - 1)) {}
  if (left != 1) return {};
  ++net_.faults().failed_allocations;
  return failure{errc::no_memory, "no memory: the simulation was told to fail this allocation"};
}

void host::die() {
  alive_ = false;
  died_at_ = net_.now();
  stalled_until_ = {};
  requests_.clear();
  goodbyes_.clear();
  for_each_pair([this](sim_pair& p) {
    p.fail({errc::connection_reset, "host " + name_ + " was killed"}, farewell::silent);
  });
}

// ---- queue pairs ----

sim_pair* host::find(std::uint32_t number) noexcept {
  const std::uint32_t place = number & ((1U << slot_bits) - 1);
  if (place >= slots_.size() || slots_[place].life != number >> slot_bits) return nullptr;
  return slots_[place].held;
}

std::uint32_t host::add(sim_pair& p) {
  // The slot that has been unused for longest, so that numbers are reused late.
  if (free_slots_.empty()) {
    CORDMA_REQUIRE(has_slot());
    slots_.emplace_back();
    try {
      free_slots_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    } catch (...) {
      slots_.pop_back();
      throw;
    }
  }
  const std::uint32_t place = free_slots_.front();
  free_slots_.pop_front();
  CORDMA_ASSERT_OP(place, <, slots_.size());
  slot& s = slots_[place];
  CORDMA_ASSERT(s.held == nullptr);
  s.held = &p;
  ++s.life;
  return (s.life << slot_bits) | place;
}

void host::remove(std::uint32_t number) noexcept {
  const std::uint32_t place = number & ((1U << slot_bits) - 1);
  CORDMA_REQUIRE_OP(place, <, slots_.size());
  CORDMA_REQUIRE_OP(slots_[place].life, ==, number >> slot_bits);
  CORDMA_REQUIRE(slots_[place].held != nullptr);
  slots_[place].held = nullptr;
  free_slots_.push_back(place);
}

// ---- input from the network ----

void host::receive(const packet& p) noexcept {
  switch (p.kind) {
    case packet_kind::connect: return on_connect(p);
    case packet_kind::bye_ack: return on_bye_ack(p);
    default: break;
  }
  sim_pair* const to = find(p.to.number);
  if (to != nullptr) {
    if (p.kind >= packet_kind::accept) return to->on_control(p);
    return to->receive(p);
  }
  // No queue pair: the connection manager answers for destroyed queue pairs.
  switch (p.kind) {
    case packet_kind::accept: return send_control(packet_kind::bye, p.to, p.from, {});
    case packet_kind::attach:
      return send_control(packet_kind::refuse, p.to, p.from, {.why = errc::rejected});
    case packet_kind::bye: return send_control(packet_kind::bye_ack, p.to, p.from, {});
    default: ++net_.counters().stray;
  }
}

void host::send_control(packet_kind kind, const endpoint_id& from, const endpoint_id& to,
                        const handshake& what, std::span<const std::byte> data) noexcept {
  CORDMA_REQUIRE_OP(data.size(), <=, most_accept_data);
  packet& p = net_.take_packet();
  p.kind = kind;
  p.from = from;
  p.to = to;
  p.cm = what;
  p.length = static_cast<std::uint32_t>(data.size());
  if (!data.empty()) std::memcpy(p.payload, data.data(), data.size());
  net_.transmit(p);
}

// ---- connection manager ----

host::request* host::find_request(std::uint64_t id) noexcept {
  const auto at = requests_.find(id);
  return at != requests_.end() ? &at->second : nullptr;
}

void host::on_connect(const packet& p) {
  const std::uint64_t id = request_id(p.from);
  if (const request* known = find_request(id)) {
    // Repeated because the answer was lost. An accepted queue pair repeats its answer itself.
    if (known->is == request::state::refused) {
      send_control(packet_kind::refuse, this->id(), p.from, {.why = known->why}, known->answer);
    }
    return;
  }
  const auto at = listeners_.find(p.cm.port);
  if (at == listeners_.end()) {
    return send_control(packet_kind::refuse, this->id(), p.from, {.why = errc::unreachable});
  }
  request& r = requests_[id];
  r.client = p.from;
  r.theirs = p.cm;
  r.from = at->second;
  r.owner = &at->second->owner();
  cm_event e;
  e.what = cm_event::type::connect_request;
  e.from = r.from;
  e.request = id;
  e.peer = net_.at(p.from.host).name() + ":" + std::to_string(client_port(p.from.number));
  e.data.assign(p.payload, p.payload + p.length);
  r.owner->push(std::move(e));
}

void host::refuse(std::uint64_t id, errc why, std::span<const std::byte> data) {
  request* const found = find_request(id);
  CORDMA_REQUIRE(found != nullptr);
  request& r = *found;
  CORDMA_REQUIRE_OP(r.is, ==, request::state::waiting);
  r.is = request::state::refused;
  r.why = why;
  r.answer.assign(data.begin(), data.end());
  send_control(packet_kind::refuse, this->id(), r.client, {.why = why}, r.answer);
  answered(id);
}

void host::refuse_all(const sim_listener* from, const sim_adapter* owner) {
  std::vector<std::uint64_t> all;
  for (const auto& [id, r] : requests_) {
    const bool theirs = from != nullptr ? r.from == from : r.owner == owner;
    if (r.is == request::state::waiting && theirs) all.push_back(id);
  }
  std::sort(all.begin(), all.end());  // the order of sending must not depend on a hash table
  for (const std::uint64_t id : all) refuse(id, errc::rejected, {});
}

void host::answered(std::uint64_t id) {
  answered_.push_back(id);
  if (answered_.size() <= most_remembered_requests) return;
  requests_.erase(answered_.front());
  answered_.pop_front();
  CORDMA_ASSERT_OP(answered_.size(), ==, most_remembered_requests);
}

result<std::uint16_t> host::take_port(std::uint16_t wanted) {
  if (wanted != 0) {
    if (!listeners_.contains(wanted)) return wanted;
    return failure{errc::in_use, name_ + ":" + std::to_string(wanted) +
                                     " is taken: somebody "
                                     "listens there"};
  }
  for (unsigned i = 0; i <= 0xFFFF - first_free_port; ++i) {
    const std::uint16_t port = next_port_;
    next_port_ = port == 0xFFFF ? first_free_port : static_cast<std::uint16_t>(port + 1);
    if (!listeners_.contains(port)) return port;
  }
  return failure{errc::in_use, "every port of " + name_ + " is taken"};
}

void host::open_port(sim_listener& l) {
  CORDMA_REQUIRE_OP(l.bound().port, !=, 0);
  const bool is_new = listeners_.emplace(l.bound().port, &l).second;
  CORDMA_REQUIRE(is_new);
}

void host::free_port(std::uint16_t port) noexcept {
  const std::size_t freed = listeners_.erase(port);
  CORDMA_REQUIRE_OP(freed, ==, 1U);
}

// ---- goodbyes ----

void host::say_goodbye(const endpoint_id& self, const endpoint_id& peer, const handshake& what,
                       duration patience) noexcept {
  constexpr int tries = 64;
  if (!alive_) return;
  goodbye g{.token = next_token_++, .self = self, .peer = peer, .what = what};
  g.until = net_.now() + patience;
  g.every = std::max({patience / tries, 2 * net_.round_trip(index_, peer.host), duration(1000)});
  goodbyes_.push_back(g);
  send_goodbye(g);
}

void host::send_goodbye(const goodbye& g) noexcept {
  send_control(packet_kind::bye, g.self, g.peer, g.what);
  net_.schedule(net_.now() + g.every, id(), 0, g.token);
}

void host::on_alarm(std::uint64_t token) noexcept {
  const auto at = std::find_if(goodbyes_.begin(), goodbyes_.end(),
                               [token](const goodbye& g) { return g.token == token; });
  if (at == goodbyes_.end()) return;
  if (net_.now() < at->until) return send_goodbye(*at);
  // The goodbye was never confirmed: the peer finds out by its keepalive.
  const goodbye g = *at;
  goodbyes_.erase(at);
  if (sim_pair* const p = find(g.self.number)) p->on_goodbye_done();
  host& far = net_.at(g.peer.host);
  sim_pair* const peer = far.instance() == g.peer.instance ? far.find(g.peer.number) : nullptr;
  if (peer != nullptr && peer->peer() == g.self) peer->watch_for_silence();
}

void host::on_bye_ack(const packet& p) noexcept {
  const auto at = std::find_if(goodbyes_.begin(), goodbyes_.end(), [&p](const goodbye& g) {
    return g.self == p.to && g.peer == p.from;
  });
  if (at == goodbyes_.end()) return;
  goodbyes_.erase(at);
  if (sim_pair* const pair = find(p.to.number)) pair->on_goodbye_done();
}

}  // namespace cordma::transport::sim
