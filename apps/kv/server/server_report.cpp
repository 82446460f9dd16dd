// What a server says of itself, and what it does where its configuration has changed.
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

}  // namespace kv
