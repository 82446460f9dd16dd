#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <utility>

namespace cordma::transport::sim {
namespace {

host& known(fabric& net, std::string_view name) {
  const std::uint32_t index = net.find(name);
  CORDMA_REQUIRE(index != fabric::no_host);
  return net.at(index);
}

void set_cut(fabric& net, std::uint32_t from, std::uint32_t to, bool cut) {
  net.between(from, to).cut = cut;
  net.link_changed(from, to);
}

}  // namespace

std::string fault_counters::text() const {
  const std::pair<const char*, std::uint64_t> all[] = {
      {"delayed", delayed},
      {"lost", lost},
      {"duplicated", duplicated},
      {"reordered", reordered},
      {"partitioned", partitioned},
      {"overflowed", overflowed},
      {"to dead hosts", to_dead_hosts},
      {"stalls", stalls},
      {"kills", kills},
      {"full adapters", full_adapters},
      {"failed allocations", failed_allocations},
      {"failed requests", failed_requests},
      {"corrupted completions", corrupted_completions},
      {"refused puts", refused_puts},
  };
  std::string out;
  for (const auto& [what, count] : all) {
    if (count == 0) continue;
    if (!out.empty()) out += ", ";
    out += what;
    out += ' ';
    out += std::to_string(count);
  }
  return out.empty() ? "none" : out;
}

network::network(const network_options& options, reactor& home)
    : fabric_(std::make_shared<fabric>(options, home)) {}
network::~network() = default;

std::shared_ptr<domain> network::make_domain(std::string_view name) {
  const std::uint32_t index = fabric_->find_or_add(name, fabric_->options().mtu);
  const std::shared_ptr<host>& h = fabric_->share(index);
  CORDMA_REQUIRE(h->alive());
  // The domain refers to the host, so the host keeps only a weak reference.
  std::shared_ptr<domain> d = h->handed_out();
  if (d == nullptr) {
    d = std::make_shared<sim_domain>(fabric_, h);
    h->hand_out(d);
  }
  return d;
}

void network::add_host(std::string_view name, std::uint32_t mtu) {
  CORDMA_REQUIRE_OP(mtu, >=, least_mtu);
  CORDMA_REQUIRE_OP(mtu, <=, most_mtu);
  CORDMA_REQUIRE(fabric_->find(name) == fabric::no_host);
  fabric_->find_or_add(name, mtu);
}

void network::set_rate(std::string_view name, std::uint64_t megabits_per_second) {
  known(*fabric_, name).set_rate(megabits_per_second);
}

void network::set_link(std::string_view from, std::string_view to, const link_options& options) {
  const std::uint32_t a = known(*fabric_, from).index();
  const std::uint32_t b = known(*fabric_, to).index();
  fabric_->between(a, b).options = options;
  fabric_->link_changed(a, b);
}

void network::set_links(const link_options& options) {
  fabric_->set_default_link(options);
  for (std::uint32_t a = 0; a < fabric_->host_count(); ++a) {
    for (std::uint32_t b = 0; b < fabric_->host_count(); ++b) {
      if (a == b) continue;
      fabric_->between(a, b).options = options;
      fabric_->link_changed(a, b);
    }
  }
}

link_options network::link(std::string_view from, std::string_view to) const {
  return fabric_->between(known(*fabric_, from).index(), known(*fabric_, to).index()).options;
}

void network::cut(std::string_view from, std::string_view to) {
  set_cut(*fabric_, known(*fabric_, from).index(), known(*fabric_, to).index(), true);
}

void network::partition(std::string_view a, std::string_view b) {
  cut(a, b);
  cut(b, a);
}

void network::isolate(std::string_view name) {
  const std::uint32_t h = known(*fabric_, name).index();
  for (std::uint32_t other = 0; other < fabric_->host_count(); ++other) {
    if (other == h) continue;
    set_cut(*fabric_, h, other, true);
    set_cut(*fabric_, other, h, true);
  }
}

void network::heal(std::string_view a, std::string_view b) {
  const std::uint32_t x = known(*fabric_, a).index();
  const std::uint32_t y = known(*fabric_, b).index();
  set_cut(*fabric_, x, y, false);
  set_cut(*fabric_, y, x, false);
}

void network::heal_all() {
  for (std::uint32_t a = 0; a < fabric_->host_count(); ++a) {
    for (std::uint32_t b = 0; b < fabric_->host_count(); ++b) set_cut(*fabric_, a, b, false);
  }
}

void network::stall(std::string_view name, duration how_long) {
  fabric_->stall(known(*fabric_, name).index(), how_long);
}

void network::kill(std::string_view name) { fabric_->kill(known(*fabric_, name).index()); }
void network::revive(std::string_view name) { fabric_->revive(known(*fabric_, name).index()); }
bool network::alive(std::string_view name) const { return known(*fabric_, name).alive(); }

void network::fail_allocation(std::string_view name, std::uint32_t n) {
  known(*fabric_, name).fail_allocation(n);
}

void network::fail_request(std::string_view name, std::uint32_t n, wc_status status) {
  known(*fabric_, name).fail_request(n, status);
}

void network::fail_request(queue_pair& pair, std::uint32_t n, wc_status status) {
  auto* const p = dynamic_cast<sim_pair*>(&pair);
  CORDMA_REQUIRE(p != nullptr);
  p->fail_request(n, status);
}

void network::corrupt_completion(std::string_view name, std::uint32_t n) {
  known(*fabric_, name).corrupt_completion(n);
}

std::uint64_t network::seed() const noexcept { return fabric_->options().seed; }
const fault_counters& network::faults() const noexcept { return fabric_->faults(); }
const protocol_counters& network::counters() const noexcept { return fabric_->counters(); }
std::uint64_t network::trace_hash() const noexcept { return fabric_->trace_hash(); }

}  // namespace cordma::transport::sim
