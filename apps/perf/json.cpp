#include "../support/json_figures.hpp"
#include "outcome.hpp"

namespace perf {
namespace {

using nlohmann::ordered_json;
using support::rounded;

constexpr const char* schema = "cordma-perf/1";

ordered_json to_object(const latency& t, const char* of, const char* from) {
  ordered_json j{{"of", of},
                 {"from", from},
                 {"n", t.n},
                 {"min", rounded(t.min)},
                 {"mean", rounded(t.mean)},
                 {"stdev", rounded(t.deviation)}};
  ordered_json beyond;
  for (std::size_t i = 0; i < percentiles.size(); ++i) {
    j[percentiles[i].name] = rounded(t.at[i]);
    beyond[percentiles[i].name] = t.beyond[i];
  }
  j["max"] = rounded(t.max);
  j["beyond"] = std::move(beyond);
  ordered_json curve = ordered_json::array();
  // Rounds the share beyond, so that it keeps its digits.
  for (const auto& [share, us] : t.curve) curve.push_back({1 - rounded(1 - share), rounded(us)});
  j["curve"] = std::move(curve);
  return j;
}

// Half of the round trip, as reported by tools that estimate one way in this manner.
ordered_json halved(const latency& t) {
  ordered_json j{{"mean", rounded(t.mean / 2)}};
  for (std::size_t i = 0; i < percentiles.size(); ++i) {
    j[percentiles[i].name] = rounded(t.at[i] / 2);
  }
  j["max"] = rounded(t.max / 2);
  return j;
}

ordered_json to_object(const side& s) {
  ordered_json j{{"wait", s.wait}};
  for (const usage_field& f : usage_fields) j[f.name] = s.spent.*f.value;
  j["cpu_percent"] = rounded(cpu_percent(s.spent));
  j["wake_cost_ns"] = s.wake_cost_ns == 0 ? ordered_json(nullptr) : ordered_json(s.wake_cost_ns);
  return j;
}

ordered_json per_message(const outcome& o, const side& s) {
  ordered_json j;
  j["syscalls"] = s.syscalls_per_message ? ordered_json(rounded(*s.syscalls_per_message))
                                         : ordered_json(nullptr);
  for (const auto& [name, value] :
       {std::pair("voluntary_switches", s.spent.voluntary_switches),
        std::pair("involuntary_switches", s.spent.involuntary_switches),
        std::pair("wakeups", s.spent.wakeups), std::pair("arms", s.spent.arms),
        std::pair("spins", s.spent.spins)}) {
    j[name] = rounded(o.per_message(static_cast<double>(value)));
  }
  return j;
}

ordered_json to_object(std::optional<int> cpu) {
  return cpu ? ordered_json(*cpu) : ordered_json(nullptr);
}

ordered_json to_object(const conditions& c) {
  ordered_json j = support::to_json(c);
  j["client_pinned_to"] = to_object(c.client_cpu);
  j["server_pinned_to"] = to_object(c.server_cpu);
  return j;
}

void add_plan(ordered_json& j, const outcome& o) {
  const plan& p = o.asked;
  j["size"] = p.size;
  j["flows"] = p.flows;
  j["outstanding"] = p.outstanding;
  j["messages"] = p.messages;
  j["inline"] = o.inline_limit;
  j["depth"] = o.depth;
  j["think_us"] = p.think_us;
  j["think_spread"] = p.random_think ? "exponential" : "constant";
  j["arrival"] = name(p.arrives);
  j["load_hz"] = p.open_loop() ? ordered_json(rounded(o.load_hz)) : ordered_json(nullptr);
  j["seed"] = p.seed;
  j["stall_ms"] = p.stall_ms;
  j["check"] = p.check;
}

void add_times(ordered_json& j, const outcome& o) {
  if (!o.time) return;
  const bool open = o.asked.open_loop();
  const char* const of = o.asked.facts().ping_pong() ? "round trip" : "operation";
  j["latency_us"] = to_object(*o.time, of, open ? "intended start" : "start");
  if (o.asked.facts().ping_pong() && !open) j["half_round_trip_us"] = halved(*o.time);
  if (o.actual) j["latency_from_actual_us"] = to_object(*o.actual, of, "start");
  if (o.lag) j["lag_us"] = to_object(*o.lag, "start", "intended start, or room for it");
  if (o.law) {
    j["littles_law"] = {{"in_flight", rounded(o.law->in_flight)},
                        {"rate_times_latency", rounded(o.law->rate_times_latency)},
                        {"holds", o.law->holds()},
                        {"checked", o.law->checked}};
  }
}

ordered_json to_object(const outcome& o, const conditions& under) {
  ordered_json j{{"schema", schema},
                 {"test", o.asked.facts().name},
                 {"transport", o.transport},
                 {"transport_reason", o.reason},
                 {"wait", o.asked.wait.text()}};
  add_plan(j, o);
  j["iterations"] = o.iterations;
  j["elapsed_s"] = rounded(o.elapsed_s);
  j["interrupted"] = o.interrupted;
  add_times(j, o);
  j["bandwidth_GBps"] = rounded(o.bandwidth_GBps());
  j["bandwidth_Gbps"] = rounded(o.bandwidth_GBps() * 8);
  j["rate_Mps"] = rounded(o.rate_Mps());
  j["cpu_ns_per_message"] = {{"client", rounded(o.cpu_ns_per_message(o.client))},
                             {"server", rounded(o.cpu_ns_per_message(o.server))}};
  j["per_message"] = {{"client", per_message(o, o.client)}, {"server", per_message(o, o.server)}};
  if (!o.no_syscalls.empty()) j["syscalls_not_counted"] = o.no_syscalls;
  j["client"] = to_object(o.client);
  j["server"] = to_object(o.server);
  j["valid"] = o.valid();
  if (!o.valid()) j["complaints"] = o.complaints;
  if (!o.notes.empty()) j["notes"] = o.notes;
  j["version"] = CORDMA_VERSION;
  j["conditions"] = to_object(under);
  return j;
}

// A run without results.
ordered_json to_object(const failed_run& f) {
  const plan& p = f.asked;
  ordered_json j{
      {"schema", schema},
      {"test", p.facts().name},
      {"transport", p.transport ? std::string(cordma::transport::name(*p.transport)) : "auto"},
      {"wait", p.wait.text()},
      {"size", p.size},
      {"valid", false},
      {"complaints", {f.why}},
      {"version", CORDMA_VERSION}};
  return j;
}

}  // namespace

std::string to_json(const std::vector<run_result>& results, const conditions& under,
                    bool as_array) {
  ordered_json all = ordered_json::array();
  for (const run_result& r : results) {
    all.push_back(r.found ? to_object(*r.found, under) : to_object(r.failed));
  }
  const bool one = !as_array && all.size() == 1;
  return (one ? all.front() : all).dump(2) + "\n";
}

}  // namespace perf
