// LATENCY: events that took long.
#include "handling.hpp"

#include <array>
#include <cstdio>

namespace kv {
namespace {

void latest(call& c) {
  const auto events = c.of.latency().events();
  c.out.array(events.size());
  for (const latency_log::event& e : events) {
    c.out.array(4);
    c.out.bulk(e.name);
    c.out.integer(static_cast<std::int64_t>(e.last.when_s));
    c.out.integer(static_cast<std::int64_t>(e.last.took_ms));
    c.out.integer(static_cast<std::int64_t>(e.worst_ms));
  }
}

void history(call& c) {
  const auto samples = c.of.latency().history(c.arg(2));
  c.out.array(samples.size());
  for (const latency_log::sample& s : samples) {
    c.out.array(2);
    c.out.integer(static_cast<std::int64_t>(s.when_s));
    c.out.integer(static_cast<std::int64_t>(s.took_ms));
  }
}

void reset(call& c) {
  if (c.count() == 2) {
    return c.out.integer(static_cast<std::int64_t>(c.of.latency().forget_all()));
  }
  std::int64_t forgotten = 0;
  for (const std::string_view name : c.args.subspan(2)) {
    forgotten += c.of.latency().forget(name) ? 1 : 0;
  }
  c.out.integer(forgotten);
}

// Returns the advice of LATENCY DOCTOR about an event.
std::string_view advice_for(std::string_view event) noexcept {
  if (event == "expire-cycle") {
    return "Many keys expire at once: spread their times to live.";
  }
  return "SLOWLOG GET shows the commands: KEYS, large hashes and long values take time.";
}

std::string report(const std::vector<latency_log::event>& events, std::uint64_t threshold_ms) {
  if (threshold_ms == 0) {
    return "Latency events are not recorded: latency-monitor-threshold is 0. CONFIG SET "
           "latency-monitor-threshold MILLISECONDS turns that on.\n";
  }
  const std::string limit = std::to_string(threshold_ms) + " ms";
  if (events.empty()) return "No event took " + limit + " or longer.\n";
  std::string text = "Events that took " + limit + " or longer:\n";
  for (const latency_log::event& e : events) {
    std::array<char, 32> mean{};
    const int n = std::snprintf(mean.data(), mean.size(), "%.1f", e.mean_ms);
    text += e.name + ": " + std::to_string(e.samples) + " times, " +
            std::string(mean.data(), static_cast<std::size_t>(n)) + " ms on average, " +
            std::to_string(e.worst_ms) + " ms at worst. ";
    text.append(advice_for(e.name)).append("\n");
  }
  return text;
}

void doctor(call& c) {
  const std::uint64_t threshold = c.of.current(c.who.origin.worker).latency_monitor_threshold;
  c.out.verbatim(report(c.of.latency().events(), threshold));
}

void help(call& c) {
  reply_help(c, "LATENCY",
             {"DOCTOR", "    Return a human readable latency analysis report.", "HISTORY <event>",
              "    Return time-latency samples for the <event> class.", "LATEST",
              "    Return the latest latency samples for all events.", "RESET [<event> ...]",
              "    Reset latency data of one or more <event> classes.",
              "    (default: reset all data for all event classes)"});
}

constexpr std::string_view tips =
    "nondeterministic_output request_policy:all_nodes response_policy:special";

constexpr auto latency_parts = std::to_array<command>({
    {.name = "latest",
     .run = latest,
     .arity = 2,
     .summary = "Return the latest latency samples for all events",
     .tips = tips},
    {.name = "history",
     .run = history,
     .arity = 3,
     .summary = "Return timestamp-latency samples for the event",
     .tips = tips},
    {.name = "reset",
     .run = reset,
     .arity = -2,
     .summary = "Reset latency data for one or more events",
     .tips = "request_policy:all_nodes response_policy:all_succeeded"},
    {.name = "doctor",
     .run = doctor,
     .arity = 2,
     .summary = "Return a human readable latency analysis report",
     .tips = tips},
    help_part(help, "2.8.13"),
});

constexpr auto latencies_table = std::to_array<command>({
    container("latency", "2.8.13", "A container for latency diagnostics commands",
              {.commands = latency_parts,
               .since = "2.8.13",
               .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
               .shards = reach::own}),
});

}  // namespace

command_group latency_commands() noexcept {
  return {.commands = latencies_table, .name = "server"};
}

}  // namespace kv
