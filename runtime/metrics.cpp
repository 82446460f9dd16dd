#include <cordma/runtime/metrics.hpp>
#include <cordma/runtime/reactor.hpp>

#include <algorithm>

namespace cordma {

counter& metrics::add_counter(std::string_view name, std::string_view unit, std::string_view help) {
  counter& c = counters_.emplace_back();
  add_source(name, unit, help, [&c] { return static_cast<std::int64_t>(c.value()); });
  return c;
}

gauge& metrics::add_gauge(std::string_view name, std::string_view unit, std::string_view help) {
  gauge& g = gauges_.emplace_back();
  add_source(name, unit, help, [&g] { return g.value(); });
  return g;
}

void metrics::add_source(std::string_view name, std::string_view unit, std::string_view help,
                         std::function<std::int64_t()> read) {
  CORDMA_REQUIRE(std::none_of(sources_.begin(), sources_.end(),
                              [name](const source& s) { return s.name == name; }));
  sources_.push_back({std::string(name), std::string(unit), std::string(help), std::move(read)});
}

std::vector<metric> metrics::snapshot() const {
  std::vector<metric> all;
  all.reserve(sources_.size());
  for (const source& s : sources_) {
    all.push_back({.name = s.name, .value = s.read(), .unit = s.unit, .help = s.help});
  }
  return all;
}

void add_reactor(metrics& to, const reactor& r) {
  struct row {
    const char* name;
    std::uint64_t reactor_counters::* member;
    const char* help;
  };
  static constexpr row rows[] = {
      {"reactor.turns", &reactor_counters::turns, "passes of the loop"},
      {"reactor.idle_turns", &reactor_counters::idle_turns, "passes that found nothing"},
      {"reactor.resumes", &reactor_counters::resumes, "items run from the ready list"},
      {"reactor.arms", &reactor_counters::arms, "times all pollers were armed"},
      {"reactor.sleeps", &reactor_counters::sleeps, "waits entered"},
      {"reactor.wakeups", &reactor_counters::wakeups, "waits that ended for a reason"},
      {"reactor.spurious", &reactor_counters::spurious, "waits that ended for none"},
      {"reactor.late_work", &reactor_counters::late_work,
       "times work was found between the last drain and the sleep"},
      {"reactor.timers_fired", &reactor_counters::timers_fired, "timers that fired"},
      {"reactor.inbox_items", &reactor_counters::inbox_items, "items posted by other threads"},
  };
  for (const row& each : rows) {
    to.add_source(each.name, "", each.help, [&r, member = each.member] {
      static_cast<void>(r.enter());
      return static_cast<std::int64_t>(r.counters().*member);
    });
  }
}

}  // namespace cordma
