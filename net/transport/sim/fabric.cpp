#include <cordma/net/transport/sim/fabric.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {
namespace {

constexpr std::uint64_t bits_per_byte = 8;
constexpr std::uint64_t ns_per_second = 1'000'000'000;

duration serialisation(const link_options& o, std::uint64_t bytes) noexcept {
  if (o.bits_per_second == 0) return duration::zero();
  return duration(
      static_cast<duration::rep>(bytes * bits_per_byte * ns_per_second / o.bits_per_second));
}

bool passes_nothing(const link_options& o, bool cut) noexcept { return cut || o.loss >= 1; }

}  // namespace

fabric::fabric(const network_options& options, reactor& home)
    : options_(options), home_(home), random_(options.seed), pool_(most_mtu) {
  CORDMA_REQUIRE_OP(options.mtu, >=, least_mtu);
  CORDMA_REQUIRE_OP(options.mtu, <=, most_mtu);
}

fabric::~fabric() {
  CORDMA_ASSERT(!running_);
  const auto on_their_way =
      std::ranges::count_if(heap_, [](const event& e) { return e.carried != nullptr; });
  CORDMA_ASSERT_OP(pool_.taken(), ==, static_cast<std::size_t>(on_their_way));
}

// ---- hosts ----

std::uint32_t fabric::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i]->name() == name) return static_cast<std::uint32_t>(i);
  }
  return no_host;
}

std::uint32_t fabric::find_or_add(std::string_view name, std::uint32_t mtu) {
  const std::uint32_t known = find(name);
  if (known != no_host) return known;
  const std::uint32_t index = host_count();
  hosts_.push_back(std::make_shared<host>(*this, std::string(name), index, 1, mtu, time_point{}));
  for (std::vector<link>& row : links_) row.push_back(link{.options = options_.link});
  links_.emplace_back(hosts_.size(), link{.options = options_.link});
  // Traffic through a host's own device never uses a wire.
  links_[index][index].options = link_options{.delay = std::chrono::microseconds(1)};
  CORDMA_ASSERT_OP(links_.size(), ==, hosts_.size());
  return index;
}

void fabric::kill(std::uint32_t index) {
  host& h = at(index);
  if (!h.alive()) return;
  ++faults_.kills;
  h.die();
  watch_peers_of(index);
}

void fabric::revive(std::uint32_t index) {
  host& h = at(index);
  CORDMA_REQUIRE(!h.alive());
  auto fresh =
      std::make_shared<host>(*this, h.name(), index, h.instance() + 1, h.mtu(), h.died_at());
  CORDMA_ASSERT_OP(fresh->instance(), >, h.instance());
  hosts_[index] = std::move(fresh);
}

void fabric::stall(std::uint32_t index, duration how_long) {
  host& h = at(index);
  if (!h.alive() || how_long <= duration::zero()) return;
  ++faults_.stalls;
  h.stall(now(), how_long);
  watch_peers_of(index);
  // No alarm goes off at that time, but the reactor has to run a pass.
  schedule(h.stalled_until(), h.id(), 0, 0);
}

void fabric::watch_peers_of(std::uint32_t index) {
  for (const auto& h : hosts_) {
    h->for_each_pair([index](sim_pair& p) {
      if (p.peer().host == index || p.id().host == index) p.watch_for_silence();
    });
  }
}

void fabric::link_changed(std::uint32_t from, std::uint32_t to) {
  link& l = between(from, to);
  const bool broken = passes_nothing(l.options, l.cut);
  if (!broken) {
    l.broken_since = never;
    return;
  }
  if (l.broken_since != never) return;
  l.broken_since = now();
  watch_peers_of(from);
}

time_point fabric::silent_since(const endpoint_id& a, const endpoint_id& b) noexcept {
  host& h = at(b.host);
  if (!h.alive() || h.instance() != b.instance) return h.died_at();
  if (h.find(b.number) == nullptr) return time_point::min();
  time_point since =
      std::min(between(a.host, b.host).broken_since, between(b.host, a.host).broken_since);
  if (h.stalled(now())) since = std::min(since, h.stalled_since());
  return since;
}

duration fabric::round_trip(std::uint32_t a, std::uint32_t b) noexcept {
  duration sum{};
  for (const link* l : {&between(a, b), &between(b, a)}) {
    const link_options& o = l->options;
    sum += o.delay + o.jitter + serialisation(o, options_.mtu + header_bytes);
    if (o.reorder > 0) sum += o.reorder_delay;
  }
  return sum;
}

// ---- packets ----

std::uint64_t fabric::backlog(const link& l, time_point at_time) const noexcept {
  if (l.free_at <= at_time) return 0;
  const auto wait = static_cast<std::uint64_t>((l.free_at - at_time).count());
  return wait * (l.options.bits_per_second / bits_per_byte) / ns_per_second;
}

void fabric::note(const packet& p, fate f) noexcept {
  const auto word = [this](std::uint64_t w) { hash_ = mix(hash_ * 0x9E3779B97F4A7C15ULL + w + 1); };
  word(static_cast<std::uint64_t>(now().time_since_epoch().count()));
  word((static_cast<std::uint64_t>(p.kind) << 8) | static_cast<std::uint64_t>(f));
  word((std::uint64_t{p.from.host} << 32) | p.from.number);
  word((std::uint64_t{p.to.host} << 32) | p.to.number);
  word(p.psn);
  word(p.length);
}

void fabric::drop(packet& p, fate f, std::uint64_t& counter) noexcept {
  ++counter;
  note(p, f);
  pool_.give(p);
}

time_point fabric::transmit(packet& p) noexcept {
  CORDMA_REQUIRE_OP(p.length, <=, most_mtu);
  CORDMA_REQUIRE(p.payload != nullptr);
  const time_point start_now = now();
  host& source = at(p.from.host);
  ++counters_.packets;
  if (!source.alive() || source.instance() != p.from.instance) {
    drop(p, fate::dead, faults_.to_dead_hosts);
    return start_now;
  }
  link& l = between(p.from.host, p.to.host);
  const link_options& o = l.options;
  if (o.queue_bytes != 0 && backlog(l, start_now) > o.queue_bytes) {
    drop(p, fate::overflow, faults_.overflowed);
    return start_now;
  }
  const time_point start = std::max({start_now, l.free_at, source.stalled_until()});
  const time_point departure = start + serialisation(o, p.length + header_bytes);
  l.free_at = departure;
  if (l.cut) {
    drop(p, fate::cut, faults_.partitioned);
    return departure;
  }
  if (random_.chance(o.loss)) {
    drop(p, fate::lost, faults_.lost);
    return departure;
  }
  const duration late = random_.up_to(o.jitter);
  faults_.delayed += late > duration::zero() ? 1U : 0U;
  time_point arrival = departure + o.delay + late;
  if (random_.chance(o.reorder)) {
    ++faults_.reordered;
    arrival += random_.up_to(o.reorder_delay);
  } else {
    arrival = std::max(arrival, l.last_arrival);
    l.last_arrival = arrival;
  }
  if (random_.chance(o.duplicate)) {
    ++faults_.duplicated;
    packet& copy = pool_.take();
    std::byte* const payload = copy.payload;
    copy = p;
    copy.payload = payload;
    if (p.length != 0) std::memcpy(payload, p.payload, p.length);
    push({arrival + random_.up_to(o.reorder_delay), 0, &copy, copy.to, 0, 0});
  }
  note(p, fate::sent);
  push({arrival, 0, &p, p.to, 0, 0});
  return departure;
}

time_point fabric::transmit_to_group(packet& p, std::uint32_t group) noexcept {
  time_point departure = now();
  for (const endpoint_id& m : members(group)) {
    packet& copy = pool_.take();
    std::byte* const payload = copy.payload;
    copy = p;
    copy.payload = payload;
    copy.to = m;
    if (p.length != 0) std::memcpy(payload, p.payload, p.length);
    departure = std::max(departure, transmit(copy));
  }
  pool_.give(p);
  return departure;
}

std::uint32_t fabric::group_id(std::string_view name) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].name == name) return static_cast<std::uint32_t>(i);
  }
  groups_.push_back({std::string(name), {}});
  return group_count() - 1;
}

// ---- pending events ----

void fabric::schedule(time_point when, const endpoint_id& whose, std::uint8_t which,
                      std::uint64_t token) noexcept {
  push({when, 0, nullptr, whose, token, which});
}

void fabric::push(event e) noexcept {
  e.order = order_++;
  heap_.push_back(e);
  std::push_heap(heap_.begin(), heap_.end(), later{});
  if (running_) return;
  if (!timer_.pending() || e.when < timer_.when()) home_.add(timer_, e.when);
}

void fabric::run_due() noexcept {
  CORDMA_ASSERT(!running_);
  running_ = true;
  // Only events that were due on entry: queue pairs that answer each other at once must not keep
  // the loop running.
  const time_point limit = now();
  const std::uint64_t last = order_;
  while (!heap_.empty() && heap_.front().when <= limit && heap_.front().order < last) {
    event e = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later{});
    heap_.pop_back();
    dispatch(e);
  }
  running_ = false;
  if (!heap_.empty()) home_.add(timer_, heap_.front().when);
}

void fabric::dispatch(event& e) noexcept {
  host& h = at(e.whose.host);
  const bool this_life = e.whose.instance == 0 || e.whose.instance == h.instance();
  if (!h.alive() || !this_life) {
    if (e.carried != nullptr) drop(*e.carried, fate::dead, faults_.to_dead_hosts);
    return;
  }
  if (h.stalled(now())) {
    e.when = h.stalled_until();
    push(e);
    return;
  }
  if (e.carried != nullptr) {
    note(*e.carried, fate::delivered);
    h.receive(*e.carried);
    pool_.give(*e.carried);
  } else if (e.whose.number == 0) {
    h.on_alarm(e.token);
  } else if (sim_pair* const p = h.find(e.whose.number)) {
    p->on_alarm(e.which, e.token);
  }
}

}  // namespace cordma::transport::sim
