// Reports of a benchmark: a table for people, JSON for programs.
#include "../../support/json_figures.hpp"
#include "bench.hpp"

#include <array>
#include <cstdio>

namespace kv::cli {
namespace {

using nlohmann::ordered_json;
using support::number;
using support::rounded;

constexpr const char* schema = "cordma-kv-bench/1";

struct percentile {
  const char* name;
  double share;
};
constexpr std::array<percentile, 5> percentiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}}};

// "1.23 M", "45.6 k"
std::string scaled(double value) {
  if (value >= 1e6) return number(value / 1e6) + " M";
  if (value >= 1e3) return number(value / 1e3) + " k";
  return number(value);
}

std::string row(std::string_view what, const support::histogram& h, const bench_result& r) {
  const double us = r.ns_per_tick / 1e3;
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), "%-18s %10llu %10s %9s %9s %9s %9s %9s %9s\n",
                std::string(what).c_str(), static_cast<unsigned long long>(h.count()),
                scaled(static_cast<double>(h.count()) / r.elapsed_s).c_str(),
                number(h.at(0.5) * us).c_str(), number(h.at(0.9) * us).c_str(),
                number(h.at(0.99) * us).c_str(), number(h.at(0.999) * us).c_str(),
                number(static_cast<double>(h.max()) * us).c_str(), number(h.mean() * us).c_str());
  return text.data();
}

std::string heading(const bench_result& r) {
  const bench_options& o = r.asked;
  std::string text = "workload " + std::string(o.what->name) + ": " + std::string(o.what->text) +
                     ", " + std::string(name(o.spread_of_records())) + " of " +
                     std::to_string(o.records) + " records of 16 + " +
                     std::to_string(o.value_bytes) + " bytes\nover " + r.over;
  if (r.over != "resp") {
    text += r.one_sided ? ", gets one-sided" : ", gets by request";
    text += ", waiting by " + std::string(cordma::name(r.wait));
  }
  text += ", from " + r.server + "; clients: " + std::to_string(o.clients);
  if (o.batch > 1) text += ", operations at a time: " + std::to_string(o.batch);
  if (o.in_flight > 1) text += ", in flight: " + std::to_string(o.in_flight);
  if (o.target_hz > 0) text += "; open loop, " + scaled(o.target_hz) + "/s";
  return text + "\n";
}

std::string paths_text(const client_counters& c) {
  const auto n = [](std::uint64_t value) {
    return value < 1000 ? std::to_string(value) : scaled(static_cast<double>(value));
  };
  std::string text = "paths: one-sided " + n(c.one_sided) + ", asked " + n(c.asked) + " in " +
                     n(c.batches) + " requests; one-sided reads " + n(c.reads) + ", torn " +
                     n(c.torn_reads);
  const std::uint64_t back =
      c.absent + c.torn + c.expiring + c.longer + c.unmapped + c.late + c.silent + c.unsafe;
  text += "; asked after all " + n(back);
  if (back == 0) return text + "\n";
  text += " (";
  const char* comma = "";
  for (const auto& [what, count] :
       {std::pair("absent", c.absent), std::pair("torn", c.torn), std::pair("expiring", c.expiring),
        std::pair("longer", c.longer), std::pair("unmapped", c.unmapped), std::pair("late", c.late),
        std::pair("silent", c.silent), std::pair("unsafe", c.unsafe)}) {
    if (count == 0) continue;
    text += comma + std::string(what) + " " + n(count);
    comma = ", ";
  }
  return text + ")\n";
}

std::string cpu_text(const bench_result& r) {
  const auto side = [&](std::int64_t ns) {
    const auto all = static_cast<double>(ns);
    const auto each = static_cast<double>(std::max<std::uint64_t>(r.found.operations(), 1));
    return number(all / each) + " ns an operation (" + number(all / r.elapsed_s / 1e7) + " %)";
  };
  std::string text = "CPU: client " + side(r.spent.client_ns);
  if (r.spent.server_ns) text += ", server " + side(*r.spent.server_ns);
  return text + "\n";
}

ordered_json times_json(const support::histogram& h, double us) {
  ordered_json j{{"n", h.count()},
                 {"min", rounded(static_cast<double>(h.min()) * us)},
                 {"mean", rounded(h.mean() * us)},
                 {"stdev", rounded(h.deviation() * us)}};
  for (const percentile& p : percentiles) j[p.name] = rounded(h.at(p.share) * us);
  j["max"] = rounded(static_cast<double>(h.max()) * us);
  return j;
}

ordered_json paths_json(const client_counters& c) {
  return {{"one_sided", c.one_sided},
          {"asked", c.asked},
          {"requests", c.batches},
          {"one_sided_reads", c.reads},
          {"torn_reads", c.torn_reads},
          {"asked_after_all",
           {{"absent", c.absent},
            {"torn", c.torn},
            {"expiring", c.expiring},
            {"longer", c.longer},
            {"unmapped", c.unmapped},
            {"late", c.late},
            {"silent", c.silent},
            {"unsafe", c.unsafe}}}};
}

ordered_json cpu_json(const bench_result& r) {
  const auto each = static_cast<double>(std::max<std::uint64_t>(r.found.operations(), 1));
  const auto side = [&](std::optional<std::int64_t> ns) -> ordered_json {
    if (!ns) return nullptr;
    return {{"ns", *ns},
            {"ns_per_operation", rounded(static_cast<double>(*ns) / each)},
            {"percent", rounded(static_cast<double>(*ns) / r.elapsed_s / 1e7)}};
  };
  return {{"client", side(r.spent.client_ns)}, {"server", side(r.spent.server_ns)}};
}

}  // namespace

std::string to_table(const bench_result& r) {
  std::string text = heading(r);
  if (r.load_s > 0) {
    text += "loaded in " + number(r.load_s) + " s, " +
            scaled(static_cast<double>(r.asked.records) / r.load_s) + "/s\n";
  }
  if (r.elapsed_s == 0) return text;
  std::array<char, 200> head{};
  std::snprintf(head.data(), head.size(), "%-18s %10s %10s %9s %9s %9s %9s %9s %9s\n", "operation",
                "count", "a second", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "mean us");
  text += head.data();
  std::size_t kinds = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const support::histogram& h = r.found.times[i];
    if (h.count() == 0) continue;
    text += row(name(step(i)), h, r);
    ++kinds;
  }
  if (kinds > 1) text += row("all", r.found.all(), r);
  if (r.over != "resp") text += paths_text(r.found.paths);
  text += cpu_text(r);
  if (r.found.misses != 0) {
    text += "reads that found nothing: " + std::to_string(r.found.misses) + "\n";
  }
  return text;
}

std::string to_json(const bench_result& r) {
  const bench_options& o = r.asked;
  const double us = r.ns_per_tick / 1e3;
  ordered_json j{{"schema", schema},
                 {"workload", o.what->name},
                 {"distribution", name(o.spread_of_records())},
                 {"server", r.server},
                 {"over", r.over},
                 {"one_sided", r.one_sided},
                 {"wait", cordma::name(r.wait)},
                 {"records", o.records},
                 {"key_bytes", 16},
                 {"value_bytes", o.value_bytes},
                 {"clients", o.clients},
                 {"batch", o.batch},
                 {"in_flight", o.in_flight},
                 {"target_hz", o.target_hz > 0 ? ordered_json(o.target_hz) : ordered_json(nullptr)},
                 {"seed", o.seed}};
  j["load_s"] = r.load_s > 0 ? ordered_json(rounded(r.load_s)) : ordered_json(nullptr);
  if (r.elapsed_s > 0) {
    j["elapsed_s"] = rounded(r.elapsed_s);
    j["interrupted"] = r.interrupted;
    j["operations"] = r.found.operations();
    j["rate_hz"] = rounded(r.rate_hz());
    ordered_json times{{"all", times_json(r.found.all(), us)}};
    for (std::size_t i = 0; i < steps; ++i) {
      const support::histogram& h = r.found.times[i];
      if (h.count() != 0) times[std::string(name(step(i)))] = times_json(h, us);
    }
    j["latency_us"] = std::move(times);
    j["misses"] = r.found.misses;
    j["wrong"] = r.found.wrong;
    j["failures"] = r.found.failures;
    if (r.over != "resp") j["paths"] = paths_json(r.found.paths);
    j["cpu"] = cpu_json(r);
  }
  j["valid"] = r.valid();
  j["conditions"] = support::to_json(r.under);
  return j.dump(1) + "\n";
}

}  // namespace kv::cli
