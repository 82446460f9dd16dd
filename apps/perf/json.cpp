#include "outcome.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace perf {
namespace {

using nlohmann::ordered_json;

// Four to six digits are what a measurement is good for.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

ordered_json to_object(const latency& t) {
  return {{"mean", rounded(t.mean)}, {"p50", rounded(t.p50)},   {"p90", rounded(t.p90)},
          {"p99", rounded(t.p99)},   {"p999", rounded(t.p999)}, {"max", rounded(t.max)}};
}

ordered_json to_object(const usage& u, const std::string& wait) {
  ordered_json j{{"wait", wait}};
  for (const usage_field& f : usage_fields) j[f.name] = u.*f.value;
  j["cpu_percent"] = rounded(cpu_percent(u));
  return j;
}

ordered_json to_object(std::optional<int> cpu) {
  return cpu ? ordered_json(*cpu) : ordered_json(nullptr);
}

ordered_json to_object(const conditions& c) {
  return {{"host", c.host},
          {"cpu", c.cpu},
          {"cpus", c.cpus},
          {"kernel", c.kernel},
          {"machine", c.machine},
          {"date", c.date},
          {"client_pinned_to", to_object(c.client_cpu)},
          {"server_pinned_to", to_object(c.server_cpu)}};
}

ordered_json to_object(const outcome& o, const conditions& under) {
  const test_facts& f = facts(o.asked.what);
  ordered_json j{{"test", f.name},
                 {"transport", o.transport},
                 {"transport_reason", o.reason},
                 {"wait", cordma::name(o.asked.wait)},
                 {"size", o.asked.size},
                 {"iterations", o.iterations},
                 {"outstanding", f.latency() ? 1 : o.asked.outstanding},
                 {"think_us", o.asked.think_us},
                 {"check", o.asked.check},
                 {"elapsed_s", rounded(o.elapsed_s)}};
  if (o.time) j[f.form == shape::ping_pong ? "one_way_us" : "operation_us"] = to_object(*o.time);
  j["bandwidth_GBps"] = rounded(o.bandwidth_GBps());
  j["rate_Mps"] = rounded(o.rate_Mps());
  j["cpu_ns_per_message"] = {{"client", rounded(o.cpu_ns_per_message(o.client))},
                             {"server", rounded(o.cpu_ns_per_message(o.server))}};
  j["client"] = to_object(o.client, std::string(cordma::name(o.asked.wait)));
  j["server"] = to_object(o.server, o.server_wait);
  j["valid"] = o.valid();
  if (!o.valid()) j["complaints"] = o.complaints;
  j["version"] = CORDMA_VERSION;
  j["conditions"] = to_object(under);
  return j;
}

}  // namespace

std::string to_json(const std::vector<outcome>& outcomes, const conditions& under, bool as_array) {
  if (!as_array && outcomes.size() == 1) return to_object(outcomes.front(), under).dump(2) + "\n";
  ordered_json all = ordered_json::array();
  for (const outcome& o : outcomes) all.push_back(to_object(o, under));
  return all.dump(2) + "\n";
}

}  // namespace perf
