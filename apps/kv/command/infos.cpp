// INFO: state and statistics of the server.
#include "handling.hpp"
#include "information.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <type_traits>

namespace kv {
namespace {

constexpr std::array<std::string_view, 9> usual_sections{"server",      "clients",    "memory",
                                                         "persistence", "stats",      "replication",
                                                         "cpu",         "errorstats", "keyspace"};
constexpr std::array<std::string_view, 11> all_sections{
    "server", "clients",      "memory",     "persistence", "stats",   "replication",
    "cpu",    "commandstats", "errorstats", "cluster",     "keyspace"};

constexpr int ticks_per_second = 10;  // per worker: see service::tick()
constexpr std::uint64_t lru_clock_mask = (std::uint64_t{1} << 24) - 1;  // as in Redis

// Appends lines to a section.
class lines {
 public:
  explicit lines(std::string& out) noexcept : out_(out) {}
  template <class T>
  void add(std::string_view name, const T& value) {
    out_.append(name).append(":");
    if constexpr (std::is_integral_v<T>) {
      out_.append(std::to_string(value));
    } else {
      out_.append(value);
    }
    out_.append("\r\n");
  }

 private:
  std::string& out_;
};

std::string human(std::uint64_t bytes) {
  constexpr std::string_view units = "BKMGTP";
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  const int n =
      std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f%c" : "%.2f%c", size, units[unit]);
  return {text.data(), static_cast<std::size_t>(n)};
}

std::string hundredths(double value, std::string_view unit = "") {
  std::array<char, 64> text{};
  const int n = std::snprintf(text.data(), text.size(), "%.2f", value);
  return std::string(text.data(), static_cast<std::size_t>(n)).append(unit);
}

// Returns 0 if there is nothing to compare with.
double ratio(std::uint64_t part, std::uint64_t whole) noexcept {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string executable() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).string();
}

// Converts a duration; negative: it has not happened yet.
std::int64_t whole_seconds(double seconds) noexcept {
  return seconds < 0 ? -1 : static_cast<std::int64_t>(seconds);
}

// The service, and the worker that reads it on its thread.
struct view {
  service& of;
  unsigned worker;
};

struct sums {
  store_counters counters;
  store_usage usage;
  struct database {
    std::size_t keys = 0;
    std::size_t expiring = 0;
  };
  std::array<database, most_databases> databases{};
};

sums sum_up(keyspace& keys) {
  sums s;
  s.usage = keys.usage();
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    const store_counters& c = keys.at(i).counters();
    s.counters.hits += c.hits;
    s.counters.misses += c.misses;
    s.counters.expired += c.expired;
    s.counters.evicted += c.evicted;
    s.counters.moved += c.moved;
    s.counters.splits += c.splits;
    s.counters.refused += c.refused;
    for (unsigned db = 0; db < most_databases; ++db) {
      s.databases[db].keys += keys.at(i).size_of(db);
      s.databases[db].expiring += keys.at(i).volatile_size_of(db);
    }
  }
  return s;
}

void server_lines(const view& c, lines& out) {
  utsname system{};
  uname(&system);
  const settings& now = c.of.current(c.worker);
  const auto up = static_cast<std::uint64_t>(c.of.uptime().count());
  out.add("redis_version", "7.0.15");
  out.add("server_name", "cordma-kv");
  out.add("redis_mode", "standalone");
  out.add("os", std::string(system.sysname) + ' ' + system.release + ' ' + system.machine);
  out.add("arch_bits", 64);
  out.add("process_id", static_cast<std::uint64_t>(getpid()));
  out.add("run_id", c.of.run_id());
  out.add("tcp_port", now.port);
  out.add("server_time_usec", c.of.read_wall_clock_us());
  out.add("uptime_in_seconds", up);
  out.add("uptime_in_days", up / 86400);
  out.add("hz", ticks_per_second);
  out.add("lru_clock", c.of.read_wall_clock() / 1000 & lru_clock_mask);
  out.add("workers", c.of.workers());
  out.add("shards", c.of.keys().shards());
  out.add("executable", executable());
  out.add("config_file", c.of.options().config_file);
}

void client_lines(const view& c, lines& out) {
  const service::client_figures all = c.of.figures_of_clients();
  const std::size_t native = c.of.hooks.native_clients ? c.of.hooks.native_clients() : 0;
  out.add("connected_clients", c.of.clients() + native);
  out.add("cluster_connections", 0);
  out.add("maxclients", c.of.current(c.worker).maxclients);
  out.add("client_recent_max_input_buffer", all.recent_input);
  out.add("client_recent_max_output_buffer", all.recent_output);
  out.add("blocked_clients", all.blocked);
  out.add("tracking_clients", 0);
}

void memory_lines(const view& c, lines& out, const sums& s) {
  const settings& now = c.of.current(c.worker);
  const std::uint64_t resident = resident_bytes();
  const auto machine = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const std::uint64_t peak = c.of.peak_bytes(s.usage.bytes);
  out.add("used_memory", s.usage.bytes);
  out.add("used_memory_human", human(s.usage.bytes));
  out.add("used_memory_rss", resident);
  out.add("used_memory_rss_human", human(resident));
  out.add("used_memory_peak", peak);
  out.add("used_memory_peak_human", human(peak));
  out.add("used_memory_peak_perc", hundredths(ratio(s.usage.bytes, peak) * 100, "%"));
  out.add("used_memory_rss_peak", static_cast<std::uint64_t>(used.ru_maxrss) * 1024);
  out.add("used_memory_dataset", s.usage.live_bytes + s.usage.object_bytes);
  out.add("used_memory_overhead", s.usage.index_bytes);
  out.add("used_memory_startup", c.of.bytes_at_start());
  out.add("total_system_memory", machine);
  out.add("total_system_memory_human", human(machine));
  out.add("maxmemory", now.maxmemory);
  out.add("maxmemory_human", human(now.maxmemory));
  out.add("maxmemory_policy", name(now.maxmemory_policy));
  out.add("mem_fragmentation_ratio", hundredths(ratio(resident, s.usage.bytes)));
  out.add("segments", s.usage.segments);
  out.add("segments_quarantined", s.usage.quarantined);
  out.add("items_moved", s.counters.moved);
  out.add("mem_allocator", "segments");
}

void persistence_lines(const view& c, lines& out) {
  const persistence_info p = c.of.hooks.persistence ? c.of.hooks.persistence() : persistence_info();
  const auto number = [](bool b) { return std::uint64_t{b ? 1U : 0U}; };
  const auto status = [](bool failed) { return std::string_view(failed ? "err" : "ok"); };
  out.add("loading", number(p.loading || c.of.loading));
  out.add("async_loading", 0);
  out.add("rdb_changes_since_last_save", p.changes_since_save);
  out.add("rdb_bgsave_in_progress", number(p.save_in_progress));
  out.add("rdb_last_save_time", p.last_save != 0 ? p.last_save : c.of.started_ms() / 1000);
  out.add("rdb_last_bgsave_status", status(p.last_save_failed));
  out.add("rdb_last_bgsave_time_sec", whole_seconds(p.save_seconds));
  out.add("rdb_saves", p.saves);
  out.add("aof_enabled", number(p.log_enabled));
  out.add("aof_rewrite_in_progress", number(p.rewrite_in_progress));
  out.add("aof_rewrite_scheduled", 0);
  out.add("aof_last_rewrite_time_sec", whole_seconds(p.rewrite_seconds));
  out.add("aof_rewrites", p.rewrites);
  out.add("aof_last_bgrewrite_status", status(p.last_rewrite_failed));
  out.add("aof_last_write_status", status(p.last_write_failed));
  out.add("aof_last_error", p.last_log_error);
  out.add("aof_current_size", p.log_bytes);
  out.add("aof_base_size", p.log_base_bytes);
}

void stats_lines(const view& c, lines& out, const sums& s) {
  out.add("total_connections_received", c.of.total(&worker_counters::connections));
  out.add("total_commands_processed", c.of.total(&worker_counters::commands));
  const service::rates now = c.of.per_second();
  out.add("instantaneous_ops_per_sec", now.commands);
  out.add("total_net_input_bytes", c.of.total(&worker_counters::input_bytes));
  out.add("total_net_output_bytes", c.of.total(&worker_counters::output_bytes));
  out.add("total_reads_processed", c.of.total(&worker_counters::receipts));
  out.add("total_writes_processed", c.of.total(&worker_counters::sendings));
  out.add("instantaneous_input_kbps", hundredths(static_cast<double>(now.input_bytes) / 1024));
  out.add("instantaneous_output_kbps", hundredths(static_cast<double>(now.output_bytes) / 1024));
  out.add("rejected_connections", c.of.total(&worker_counters::rejected_connections));
  out.add("expired_keys", s.counters.expired);
  out.add("evicted_keys", s.counters.evicted);
  out.add("evicted_clients", 0);
  out.add("keyspace_hits", s.counters.hits);
  out.add("keyspace_misses", s.counters.misses);
  out.add("writes_refused", s.counters.refused);
  out.add("pubsub_channels", 0);
  out.add("pubsub_patterns", 0);
  out.add("latest_fork_usec", 0);
  out.add("total_error_replies", c.of.total(&worker_counters::error_replies));
  out.add("client_output_buffer_limit_disconnections",
          c.of.total(&worker_counters::killed_for_output));
}

// It has no replicas. The replication id is the run id, so each start counts as another history.
void replication_lines(const view& c, lines& out) {
  out.add("role", "master");
  out.add("connected_slaves", 0);
  out.add("master_failover_state", "no-failover");
  out.add("master_replid", c.of.run_id());
  out.add("master_repl_offset", 0);
  out.add("repl_backlog_active", 0);
}

void cpu_lines(lines& out) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto add = [&](std::string_view name, const timeval& t) {
    std::array<char, 48> text{};
    const int n =
        std::snprintf(text.data(), text.size(), "%lld.%06lld", static_cast<long long>(t.tv_sec),
                      static_cast<long long>(t.tv_usec));
    out.add(name, std::string_view(text.data(), static_cast<std::size_t>(n)));
  };
  add("used_cpu_sys", used.ru_stime);
  add("used_cpu_user", used.ru_utime);
}

void command_lines(const view& c, lines& out) {
  for (const known_command& k : c.of.commands().all()) {
    const std::uint64_t calls = c.of.total(k.index, &command_counters::calls);
    const std::uint64_t rejected = c.of.total(k.index, &command_counters::rejected);
    if (calls == 0 && rejected == 0) continue;
    const std::uint64_t us = c.of.total(k.index, &command_counters::nanoseconds) / 1000;
    std::array<char, 160> text{};
    const int n = std::snprintf(
        text.data(), text.size(),
        "calls=%llu,usec=%llu,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu",
        static_cast<unsigned long long>(calls), static_cast<unsigned long long>(us),
        calls == 0 ? 0.0 : static_cast<double>(us) / static_cast<double>(calls),
        static_cast<unsigned long long>(rejected),
        static_cast<unsigned long long>(c.of.total(k.index, &command_counters::failed)));
    out.add("cmdstat_" + k.full_name, std::string_view(text.data(), static_cast<std::size_t>(n)));
  }
}

void write_section(const view& c, std::string& text, std::string_view section, const sums& s) {
  std::string title(section);
  title[0] = static_cast<char>(title[0] & ~0x20);
  if (section == "cpu") title = "CPU";
  if (!text.empty()) text += "\r\n";
  text += "# " + title + "\r\n";
  lines out(text);
  if (section == "server") server_lines(c, out);
  if (section == "clients") client_lines(c, out);
  if (section == "memory") memory_lines(c, out, s);
  if (section == "persistence") persistence_lines(c, out);
  if (section == "stats") stats_lines(c, out, s);
  if (section == "replication") replication_lines(c, out);
  if (section == "cpu") cpu_lines(out);
  if (section == "commandstats") command_lines(c, out);
  if (section == "cluster") out.add("cluster_enabled", 0);
  if (section == "errorstats") {
    for (const auto& [code, count] : c.of.errors()) {
      out.add("errorstat_" + code, "count=" + std::to_string(count));
    }
  }
  for (unsigned db = 0; section == "keyspace" && db < most_databases; ++db) {
    const sums::database& of = s.databases[db];
    if (of.keys == 0) continue;
    out.add("db" + std::to_string(db), "keys=" + std::to_string(of.keys) + ",expires=" +
                                           std::to_string(of.expiring) + ",avg_ttl=0");
  }
  if (c.of.hooks.more_info) text += c.of.hooks.more_info(section);
}

std::string tell(const view& c, std::span<const std::string_view> asked) {
  std::vector<std::string_view> wanted;
  const auto want = [&](std::string_view section) {
    if (std::ranges::find(wanted, section) == wanted.end()) wanted.push_back(section);
  };
  if (asked.empty()) std::ranges::for_each(usual_sections, want);
  for (const std::string_view one : asked) {
    if (is_word(one, "default")) std::ranges::for_each(usual_sections, want);
    if (is_word(one, "all") || is_word(one, "everything"))
      std::ranges::for_each(all_sections, want);
    for (const std::string_view section : all_sections) {
      if (is_word(one, section)) want(section);
    }
  }
  std::string text;
  const sums s = sum_up(c.of.keys());
  for (const std::string_view section : wanted) write_section(c, text, section, s);
  // Sections that only main provides.
  const bool others =
      asked.empty() || is_word(asked.front(), "all") || is_word(asked.front(), "everything");
  if (c.of.hooks.more_info && (others || wanted.empty())) {
    text += c.of.hooks.more_info(others ? std::string_view() : asked.front());
  }
  return text;
}

void info(call& c) {
  const view here{.of = c.of, .worker = c.who.origin.worker};
  c.out.verbatim(tell(here, c.args.subspan(1)));
}

constexpr auto infos_table = std::to_array<command>({
    {.name = "info",
     .run = info,
     .arity = -1,
     .flags = flag_loading | flag_stale,
     .categories = in_dangerous,
     .shards = reach::all,
     .group = "server",
     .since = "1.0.0",
     .summary = "Get information and statistics about the server",
     .tips = "nondeterministic_output request_policy:all_shards response_policy:special"},
});

}  // namespace

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string information(service& of, unsigned worker, std::string_view section) {
  const view here{.of = of, .worker = worker};
  return tell(here, section.empty() ? std::span<const std::string_view>() : std::span(&section, 1));
}

command_group info_commands() noexcept { return {.commands = infos_table}; }

}  // namespace kv
