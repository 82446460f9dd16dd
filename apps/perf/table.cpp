#include "outcome.hpp"

#include <array>
#include <cstdio>

namespace perf {
namespace {

constexpr const char* heading_format = "%-14s %-6s %-9s %8s %8s %9s %9s %9s %9s %8s %8s %7s %7s\n";

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

// Three digits, whatever the magnitude.
std::string number(double value) {
  std::array<char, 32> text{};
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string percent(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.1f" : "%.0f", value);
  return text.data();
}

template <class... Text>
std::string line(const Text&... cells) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), heading_format, cells.c_str()...);
  return text.data();
}

}  // namespace

std::string table_heading() {
  using s = std::string;
  return line(s(""), s(""), s(""), s(""), s("think"), s("p50"), s("p99"), s("p99.9"), s("max"),
              s(""), s(""), s("CPU %"), s("CPU %")) +
         line(s("test"), s("over"), s("waiting"), s("size"), s("us"), s("us"), s("us"), s("us"),
              s("us"), s("GB/s"), s("M/s"), s("client"), s("server"));
}

std::string table_row(const outcome& o) {
  const bool timed = o.time.has_value();
  const auto time = [&](double latency::* which) {
    return timed ? number((*o.time).*which) : std::string("-");
  };
  return line(std::string(facts(o.asked.what).name), o.transport,
              std::string(cordma::name(o.asked.wait)), size_text(o.asked.size),
              std::to_string(o.asked.think_us), time(&latency::p50), time(&latency::p99),
              time(&latency::p999), time(&latency::max), number(o.bandwidth_GBps()),
              number(o.rate_Mps()), percent(cpu_percent(o.client)), percent(cpu_percent(o.server)));
}

std::string details(const outcome& o) {
  std::array<char, 1024> text{};
  std::snprintf(
      text.data(), text.size(),
      "  over %s: %s\n  %llu iterations in %.3f s with %s; CPU per message %.0f ns here, %.0f ns "
      "there\n  sleeps %lld here, %lld there; context switches %lld and %lld (voluntary), %lld and "
      "%lld (not)\n  posts %llu, complete at once %llu, waited for room %llu, doorbells %llu\n",
      o.transport.c_str(), o.reason.c_str(), static_cast<unsigned long long>(o.iterations),
      o.elapsed_s, o.peer.c_str(), o.cpu_ns_per_message(o.client), o.cpu_ns_per_message(o.server),
      static_cast<long long>(o.client.sleeps), static_cast<long long>(o.server.sleeps),
      static_cast<long long>(o.client.voluntary_switches),
      static_cast<long long>(o.server.voluntary_switches),
      static_cast<long long>(o.client.involuntary_switches),
      static_cast<long long>(o.server.involuntary_switches),
      static_cast<unsigned long long>(o.counters.sends + o.counters.recvs),
      static_cast<unsigned long long>(o.counters.immediate),
      static_cast<unsigned long long>(o.counters.waited),
      static_cast<unsigned long long>(o.counters.rings));
  return text.data();
}

}  // namespace perf
