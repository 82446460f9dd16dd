// Faults in a world, and when they stop.
#include "program.hpp"

namespace cordma::schedule {

using namespace std::chrono_literals;
using test::dice;

transport::sim::link_options bad_link(dice& d) {
  transport::sim::link_options o;
  o.jitter = tick * d.below(100);
  o.loss = d.below(3) == 0 ? 0.002 * static_cast<double>(d.below(20)) : 0;
  o.duplicate = d.below(3) == 0 ? 0.02 : 0;
  o.reorder = d.below(3) == 0 ? 0.05 : 0;
  if (d.below(4) == 0) {
    o.bits_per_second = 200'000'000 * (1 + d.below(20));
    o.queue_bytes = 3000 + d.below(30'000);
  }
  return o;
}

namespace {

void cut_off(world& w, const host_at& a, const host_at& b) {
  if (&a == &b) return;
  switch (w.chance.below(4)) {
    case 0: ++w.sum->isolated; return w.net->isolate(a.name);
    case 1: ++w.sum->one_way; return w.net->cut(a.name, b.name);
    default: w.net->partition(a.name, b.name);
  }
}

// Kills one in six of the given hosts, and corrupts a completion of one in twelve: most of a world
// continues.
void end_host(world& w, host_at& a) {
  switch (w.chance.below(12)) {
    case 0:
    case 1: a.alive = false; return w.net->kill(a.name);
    case 2:
      a.sound = false;
      return w.net->corrupt_completion(a.name, static_cast<std::uint32_t>(1 + w.chance.below(30)));
    default: return;
  }
}

// Harms an additional device, which its host can do without.
void harm_rail(world& w, host_at& of, std::size_t which) {
  ++w.sum->harmed_rails;
  const std::string rail = of.rails[which];
  switch (w.chance.below(6)) {
    case 0:
      of.rails.erase(of.rails.begin() + static_cast<std::ptrdiff_t>(which));
      return w.net->kill(rail);
    case 1: return w.net->isolate(rail);
    case 2: return w.net->stall(rail, tick * w.chance.below(5000));
    case 3: return w.net->fail_allocation(rail, static_cast<std::uint32_t>(1 + w.chance.below(5)));
    default:
      return w.net->fail_request(rail, static_cast<std::uint32_t>(1 + w.chance.below(20)),
                                 transport::wc_status::rem_op_err);
  }
}

void inject(world& w) {
  dice& d = w.chance;
  transport::sim::network& net = *w.net;
  host_at& a = w.hosts[d.below(w.hosts.size())];
  const host_at& b = w.hosts[d.below(w.hosts.size())];
  if (!a.alive) return;
  if (!a.rails.empty() && d.below(3) == 0) return harm_rail(w, a, d.below(a.rails.size()));
  switch (d.below(12)) {
    case 0:
    case 1:
    case 2: return net.set_links(bad_link(d));
    case 3:
    case 4: w.breaks = true; return cut_off(w, a, b);
    case 5:
    case 6: return net.heal_all();
    case 7:
    case 8: return net.stall(a.name, tick * d.below(5000));
    case 9:
      w.breaks = true;
      return net.fail_allocation(a.name, static_cast<std::uint32_t>(1 + d.below(5)));
    case 10:
      w.breaks = true;
      return net.fail_request(a.name, static_cast<std::uint32_t>(1 + d.below(50)),
                              transport::wc_status::rem_op_err);
    default: end_host(w, a);
  }
}

}  // namespace

task<> disturb(world* w) {
  const std::uint64_t faults = w->chance.below(25);
  for (std::uint64_t i = 0; i < faults; ++i) {
    co_await sleep_for(tick * w->chance.below(4000));
    inject(*w);
  }
  co_await sleep_for(tick * w->chance.below(4000));
  w->net->heal_all();
  w->net->set_links({});
  for (const host_at& h : w->hosts) {
    if (!h.alive) continue;
    w->net->fail_allocation(h.name, 0);
    w->net->fail_request(h.name, 0, transport::wc_status::success);
    w->net->corrupt_completion(h.name, 0);
    for (const std::string& rail : h.rails) {
      w->net->fail_allocation(rail, 0);
      w->net->fail_request(rail, 0, transport::wc_status::success);
    }
  }
  w->calm = true;
}

void add(transport::sim::fault_counters& sum, const transport::sim::fault_counters& more) noexcept {
  sum.delayed += more.delayed;
  sum.lost += more.lost;
  sum.duplicated += more.duplicated;
  sum.reordered += more.reordered;
  sum.partitioned += more.partitioned;
  sum.overflowed += more.overflowed;
  sum.to_dead_hosts += more.to_dead_hosts;
  sum.stalls += more.stalls;
  sum.kills += more.kills;
  sum.full_adapters += more.full_adapters;
  sum.failed_allocations += more.failed_allocations;
  sum.failed_requests += more.failed_requests;
  sum.corrupted_completions += more.corrupted_completions;
  sum.refused_puts += more.refused_puts;
}

}  // namespace cordma::schedule
