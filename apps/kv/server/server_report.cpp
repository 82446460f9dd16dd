// What a server says of itself, and what it does where its configuration has changed.
#include "metrics_page.hpp"
#include "server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr rlim_t other_files = 96;  // besides clients: files of the journal, rings, what listens

[[nodiscard]] std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::uint64_t rest = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    rest = bytes % 1024;
    bytes /= 1024;
    ++unit;
  }
  const std::string tenths = unit == 0 ? "" : "." + std::to_string(rest * 10 / 1024);
  return std::to_string(bytes) + tenths + " " + units[unit];
}

[[nodiscard]] std::uint64_t machine_memory() noexcept {
  struct sysinfo now{};
  return ::sysinfo(&now) == 0 ? std::uint64_t{now.totalram} * now.mem_unit : 0;
}

}  // namespace

void server::fit_open_files() {
  settings& s = options_.configured.values;
  const rlim_t wanted = s.maxclients + other_files;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  const rlimit more{.rlim_cur = std::min(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &more) == 0) limit = more;
  if (limit.rlim_cur >= wanted) return;
  if (limit.rlim_cur <= other_files) {
    cordma::throw_error(
        cordma::failure(cordma::errc::full,
                        "the limit of open files, " + std::to_string(limit.rlim_cur) +
                            ", leaves none for clients: ulimit -n, or LimitNOFILE= in the unit"));
  }
  const std::uint64_t possible = limit.rlim_cur - other_files;
  log_.write(log_level::warning,
             "maxclients is " + std::to_string(possible) + " and not " +
                 std::to_string(s.maxclients) + ": the limit of open files is " +
                 std::to_string(limit.rlim_cur) + "; raise it to " + std::to_string(wanted) +
                 " (ulimit -Hn, or LimitNOFILE= in the unit)");
  s.maxclients = possible;
}

void server::report() const {
  const settings& s = options_.configured.values;
  log_.write(log_level::notice, "cordma-kv " CORDMA_VERSION ", process " +
                                    std::to_string(::getpid()) +
                                    (options_.config_file.empty() ? ", without a configuration file"
                                                                  : ", " + options_.config_file));
  for (const std::string& a : addresses_) log_.write(log_level::notice, "listening: " + a);
  std::string memory = "memory: ";
  const std::uint64_t all = machine_memory();
  if (s.maxmemory == 0) {
    memory += "no limit but the machine's " + size_text(all) +
              "; with maxmemory it would end before the machine does";
  } else {
    memory += size_text(s.maxmemory) + ", " + std::string(name(s.maxmemory_policy));
  }
  log_.write(log_level::notice, memory);
  if (all != 0 && s.maxmemory > all) {
    log_.write(log_level::warning, "maxmemory is more than the machine's " + size_text(all));
  }
  log_.write(log_level::notice, std::to_string(workers_.size()) + " worker(s), sockets by " +
                                    workers_.front()->door().engine() +
                                    ", waiting: " + std::string(name(options_.wait)) +
                                    ", at most " + std::to_string(s.maxclients) + " clients");
  const bool open_to_all =
      s.requirepass.empty() && s.aclfile.empty() && options_.configured.users.empty();
  if (!reached_from_afar_ || !open_to_all) return;
  log_.write(
      log_level::warning,
      s.protected_mode
          ? "clients of other hosts are refused: protected mode is on and there is no password "
            "(requirepass)"
          : "whoever reaches it may do anything: there is no password (requirepass), and protected "
            "mode is off");
}

void server::reload(const server_options& fresh) {
  settings& last = options_.configured.values;
  const settings& now = fresh.configured.values;
  settings next = *service_->snapshot();
  for (const parameter& p : all_parameters()) {
    const std::string value = p.get(now);
    if (value == p.get(last)) continue;  // CONFIG SET may have changed it since: that stays
    if (p.settable == parameter::when::start) {
      log_.write(log_level::warning,
                 std::string(p.name) + " has changed in the configuration, which takes a restart");
      continue;
    }
    const std::string why = p.set(next, value);
    if (why.empty()) p.set(last, value);
    log_.write(log_level::notice,
               std::string(p.name) +
                   (why.empty() ? " is now " + (p.name == "requirepass" ? std::string("another")
                                                                        : "\"" + value + "\"")
                                : ": " + why));
  }
  if (fresh.wait != options_.wait || fresh.io != options_.io) {
    log_.write(log_level::warning, "wait and io take a restart");
  }
  std::string refused;
  {
    const keyspace::hold everything(*keys_, keys_->all());
    refused = service_->replace(std::move(next));
  }
  if (!refused.empty())
    log_.write(log_level::warning, "the configuration is not taken over: " + refused);
  try {
    std::shared_ptr<const tls_acceptor> anew = tls_of(last);
    const std::lock_guard hold(tls_guard_);
    tls_ = std::move(anew);
  } catch (const std::exception& e) {
    log_.write(log_level::warning, std::string("the certificates stay as they were: ") + e.what());
  }
  if (!log_.reopen()) log_.write(log_level::warning, "the log cannot be opened again, and goes on");
}

std::string server::figures() const {
  using kind = metrics_text::kind;
  service& s = *service_;
  metrics_text out;
  const auto one = [&out](std::string_view name, kind k, std::string_view help, auto value) {
    out.family(name, k, help).value(std::uint64_t{value});
  };
  const auto total = [&s](relaxed_counter worker_counters::* which) { return s.total(which); };
  one("uptime_seconds", kind::gauge, "Since it was started",
      (s.read_wall_clock() - s.started_ms()) / 1000);
  one("connected_clients", kind::gauge, "Clients now", clients());
  one("max_clients", kind::gauge, "maxclients", s.snapshot()->maxclients);
  one("connections_received_total", kind::counter, "Clients ever",
      total(&worker_counters::connections));
  one("rejected_connections_total", kind::counter, "Above maxclients",
      total(&worker_counters::rejected_connections));
  one("commands_processed_total", kind::counter, "Commands carried out",
      total(&worker_counters::commands));
  one("error_replies_total", kind::counter, "Replies that were errors",
      total(&worker_counters::error_replies));
  one("clients_killed_for_output_total", kind::counter, "Above client-output-buffer-limit",
      total(&worker_counters::killed_for_output));
  std::uint64_t counts[4] = {0, 0, 0, 0};
  std::array<store_counters, keyspace::most_shards> shards{};
  std::uint64_t keys = 0;
  std::uint64_t expiring = 0;
  std::uint64_t used = 0;
  for (std::uint32_t i = 0; i < keys_->shards(); ++i) {
    const keyspace::hold hold(*keys_, std::uint64_t{1} << i);
    const store& shard = keys_->at(i);
    shards[i] = shard.counters();
    keys += shard.size();
    expiring += shard.volatile_size();
    used += shard.usage().bytes;
  }
  for (const store_counters& c : shards) {
    counts[0] += c.hits;
    counts[1] += c.misses;
    counts[2] += c.expired;
    counts[3] += c.evicted;
  }
  one("keys", kind::gauge, "Keys now", keys);
  one("keys_expiring", kind::gauge, "Keys now that have a time to live", expiring);
  one("memory_used_bytes", kind::gauge, "Of keys and values, with what finds them", used);
  one("memory_max_bytes", kind::gauge, "maxmemory; 0: no limit", s.snapshot()->maxmemory);
  one("keyspace_hits_total", kind::counter, "Keys that were found", counts[0]);
  one("keyspace_misses_total", kind::counter, "Keys that were not there", counts[1]);
  one("expired_keys_total", kind::counter, "Keys whose time was over", counts[2]);
  one("evicted_keys_total", kind::counter, "Keys that made room", counts[3]);
  const journal_info j = durability_->info();
  one("journal_enabled", kind::gauge, "appendonly", std::uint64_t{j.appendonly ? 1U : 0U});
  one("journal_bytes", kind::gauge, "Of its files", j.current_bytes);
  one("journal_pending_bytes", kind::gauge, "Not on the disk yet", j.pending_bytes);
  one("journal_in_trouble", kind::gauge, "1 while it cannot be written",
      std::uint64_t{j.trouble ? 1U : 0U});
  one("changes_since_snapshot", kind::gauge, "Changes that the last snapshot has not",
      j.changes_since_snapshot);
  const auto by_worker = [&](std::string_view name, kind k, std::string_view help, auto value) {
    out.family(name, k, help);
    for (const std::unique_ptr<worker>& w : workers_) {
      out.value(std::uint64_t{value(*w)}, "worker=\"" + std::to_string(w->index()) + "\"");
    }
  };
  const auto door = [](relaxed_counter door_counters::* which) {
    return [which](worker& w) { return (w.door().counters().*which).get(); };
  };
  by_worker("worker_clients", kind::gauge, "Clients of each worker",
            [](worker& w) { return w.clients().load(); });
  by_worker("input_bytes_total", kind::counter, "Bytes that came",
            door(&door_counters::received_bytes));
  by_worker("output_bytes_total", kind::counter, "Bytes that went",
            door(&door_counters::sent_bytes));
  by_worker("kernel_calls_total", kind::counter, "System calls for sockets",
            door(&door_counters::kernel_calls));
  by_worker("reading_pauses_total", kind::counter,
            "Clients that were not read, for they did not read", door(&door_counters::pauses));
  by_worker("idle_clients_closed_total", kind::counter, "Clients above timeout",
            door(&door_counters::timed_out));
  return out.take();
}

}  // namespace kv
