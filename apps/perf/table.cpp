#include "../support/figures.hpp"
#include "outcome.hpp"

#include <array>
#include <cstdio>

namespace perf {
namespace {

using support::number;

constexpr const char* format =
    "%-17s %-5s %-12s %8s %9s %9s %9s %9s %9s %8s %8s %8s %6s %6s %8s %8s\n";

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

std::string percent(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : "%.0f", value);
  return text.data();
}

// "100" for a pause in us, or "10000/s".
std::string pace(const outcome& o) {
  if (!o.asked.open_loop()) return std::to_string(o.asked.think_us);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g/s", o.load_hz);
  return text.data();
}

// "4x2": flows and requests in flight of each.
std::string test_text(const outcome& o) {
  const plan& p = o.asked;
  std::string text = p.facts().name;
  const bool usual = p.flows == 1 && p.messages == 1 && p.outstanding == usual_outstanding(p);
  if (!usual) text += " " + std::to_string(p.flows) + "x" + std::to_string(p.window());
  return text;
}

template <class... Text>
std::string line(const Text&... cells) {
  std::array<char, 320> text{};
  std::snprintf(text.data(), text.size(), format, cells.c_str()...);
  return text.data();
}

std::string latency_line(const char* what, const latency& t) {
  std::array<char, 320> text{};
  int n = std::snprintf(text.data(), text.size(),
                        "  %s: %llu samples, min %s us, mean %s, deviation %s; beyond", what,
                        static_cast<unsigned long long>(t.n), number(t.min).c_str(),
                        number(t.mean).c_str(), number(t.deviation).c_str());
  for (std::size_t i = 0; i < percentiles.size() && n < static_cast<int>(text.size()); ++i) {
    n += std::snprintf(text.data() + n, text.size() - static_cast<std::size_t>(n),
                       "%s %s %s us: %llu", i == 0 ? "" : ",", percentiles[i].name,
                       number(t.at[i]).c_str(), static_cast<unsigned long long>(t.beyond[i]));
  }
  return std::string(text.data()) + "\n";
}

std::string side_line(const char* who, const outcome& o, const side& s) {
  std::array<char, 320> text{};
  const auto each = [&](std::int64_t value) {
    return number(o.per_message(static_cast<double>(value)));
  };
  std::snprintf(
      text.data(), text.size(),
      "  %s waits by %s; per message: CPU %s ns, system calls %s, switches %s and %s not its own "
      "will, wake-ups %s, arms %s, passes in vain %s\n",
      who, s.wait.empty() ? "?" : s.wait.c_str(), number(o.cpu_ns_per_message(s)).c_str(),
      s.syscalls_per_message ? number(*s.syscalls_per_message).c_str() : "not counted",
      each(s.spent.voluntary_switches).c_str(), each(s.spent.involuntary_switches).c_str(),
      each(s.spent.wakeups).c_str(), each(s.spent.arms).c_str(), each(s.spent.spins).c_str());
  return text.data();
}

}  // namespace

std::string table_heading() {
  using s = std::string;
  return line(s(""), s(""), s(""), s(""), s("think us"), s("p50"), s("p99"), s("p99.9"), s("max"),
              s(""), s(""), s(""), s("CPU %"), s("CPU %"), s("CPU ns"), s("CPU ns")) +
         line(s("test"), s("over"), s("waiting"), s("size"), s("or load"), s("us"), s("us"),
              s("us"), s("us"), s("GB/s"), s("Gbps"), s("M/s"), s("client"), s("server"),
              s("client"), s("server"));
}

std::string table_row(const outcome& o) {
  const auto time = [&](std::size_t which) {
    return o.time ? number(o.time->at[which]) : std::string("-");
  };
  const auto speed = [&](double value) {
    return o.messages() > 0 ? number(value) : std::string("-");
  };
  constexpr std::size_t p50 = 0;
  constexpr std::size_t p99 = 2;
  constexpr std::size_t p999 = 3;
  // In the open loop only the server uses the requested waiting mode.
  const std::string& waiting = o.asked.open_loop() ? o.server.wait : o.client.wait;
  return line(test_text(o), o.transport, waiting, size_text(o.asked.size), pace(o), time(p50),
              time(p99), time(p999), o.time ? number(o.time->max) : std::string("-"),
              speed(o.bandwidth_GBps()), speed(o.bandwidth_GBps() * 8), speed(o.rate_Mps()),
              percent(cpu_percent(o.client.spent)), percent(cpu_percent(o.server.spent)),
              speed(o.cpu_ns_per_message(o.client)), speed(o.cpu_ns_per_message(o.server)));
}

std::string details(const outcome& o) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(),
                "  over %s: %s\n  %llu iterations in %.3f s with %s; posts %llu, complete at once "
                "%llu, waited for room %llu, doorbells %llu\n",
                o.transport.c_str(), o.reason.c_str(),
                static_cast<unsigned long long>(o.iterations), o.elapsed_s, o.peer.c_str(),
                static_cast<unsigned long long>(o.counters.sends + o.counters.recvs),
                static_cast<unsigned long long>(o.counters.immediate),
                static_cast<unsigned long long>(o.counters.waited),
                static_cast<unsigned long long>(o.counters.rings));
  std::string all(text.data());
  const bool open = o.asked.open_loop();
  if (o.time) {
    const char* const what = open                          ? "from when each was to be made"
                             : o.asked.facts().ping_pong() ? "round trips"
                                                           : "operations";
    all += latency_line(what, *o.time);
  }
  if (o.actual) all += latency_line("from when each was made", *o.actual);
  if (o.lag) all += latency_line("made late, though there was room", *o.lag);
  all += side_line("client", o, o.client) + side_line("server", o, o.server);
  if (!o.no_syscalls.empty()) all += "  system calls: " + o.no_syscalls + "\n";
  return all;
}

}  // namespace perf
