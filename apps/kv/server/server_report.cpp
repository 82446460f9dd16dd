// The reports of a server about itself, and its reload of a changed configuration.
#include "server.hpp"

#include <algorithm>
#include <map>

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace kv {
namespace {

[[noreturn]] void fail_reload(const std::string& why) {
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value, why));
}

[[nodiscard]] std::uint64_t machine_memory() noexcept {
  struct sysinfo now{};
  return ::sysinfo(&now) == 0 ? std::uint64_t{now.totalram} * now.mem_unit : 0;
}

}  // namespace

doors server::open_doors() const noexcept {
  return options_.native.port != 0 ? doors::redis_and_native : doors::redis;
}

void server::fit_open_files(settings& s) const {
  const rlim_t wanted = files_wanted(s.maxclients, open_doors());
  const rlim_t limit = raise_open_files(wanted);
  if (limit >= wanted) return;
  const std::uint64_t possible = clients_possible(limit, open_doors());
  if (possible == 0) {
    cordma::throw_error(cordma::failure(
        cordma::errc::full, "the limit of open files, " + std::to_string(limit) +
                                ", leaves none for clients: " + how_to_raise_files(wanted)));
  }
  const bool native = open_doors() == doors::redis_and_native;
  log_.write(log_level::warning, "maxclients is " + std::to_string(possible) + " and not " +
                                     std::to_string(s.maxclients) +
                                     ": the limit of open files is " + std::to_string(limit) +
                                     (native ? ", and native clients take up to 4 each" : "") +
                                     "; raise it: " + how_to_raise_files(wanted));
  s.maxclients = possible;
}

std::string server::fit_more_clients(const settings& before, const settings& after) const {
  if (after.maxclients <= before.maxclients) return {};
  const rlim_t wanted = files_wanted(after.maxclients, open_doors());
  const rlim_t limit = raise_open_files(wanted);
  if (limit >= wanted) return {};
  return "The operating system is not able to handle the specified number of clients, try with " +
         std::to_string(clients_possible(limit, open_doors()));
}

void server::report_limits() const {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = RLIM_INFINITY;
  const rlim_t locked = locked_memory_limit();
  log_.write(log_level::notice, "limits: " + limits_text(files.rlim_cur, locked));
  const auto locks = &cordma::transport::capabilities::locks_memory;
  if (!context_ || std::ranges::none_of(context_->transports(), locks)) return;
  const std::string warning = locked_memory_warning(locked, options_.configured.values.maxmemory);
  if (!warning.empty()) log_.write(log_level::warning, warning);
}

std::string server::server_information() const {
  const std::string engine = workers_.front()->door().engine();
  return "multiplexing_api:" + (engine == "asio" ? "epoll" : engine) +
         "\r\nprocess_supervised:" + (has_service_manager() ? "systemd" : "no") + "\r\n";
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
  report_limits();
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

namespace {

using rules_by_name = std::map<std::string, std::string>;

[[nodiscard]] rules_by_name rules_of(const users& all) {
  rules_by_name found;
  for (const std::shared_ptr<const user>& u : all.all()) found.emplace(u->name, u->describe());
  return found;
}

// Returns lines for the log.
[[nodiscard]] std::vector<std::string> differences(const rules_by_name& before,
                                                   const rules_by_name& after) {
  std::vector<std::string> lines;
  for (const auto& [name, rules] : after) {
    const auto was = before.find(name);
    if (was == before.end()) {
      lines.push_back("user " + name + " is new");
    } else if (was->second != rules) {
      lines.push_back("user " + name + " has changed");
    }
  }
  for (const auto& [name, rules] : before) {
    if (!after.contains(name)) lines.push_back("user " + name + " is gone");
  }
  return lines;
}

// Returns settings that the service does not have and that cannot change at run time.
[[nodiscard]] std::vector<std::string> that_take_a_restart(const server_options& before,
                                                           const server_options& after) {
  std::vector<std::string> names;
  const auto look = [&](const char* name, bool same) {
    if (!same) names.emplace_back(name);
  };
  look("wait", before.wait == after.wait);
  look("io", before.io == after.io);
  look("pidfile", before.pidfile == after.pidfile);
  look("native-port", before.native.port == after.native.port);
  look("native-token-file", before.native.token_file == after.native.token_file);
  look("native-one-sided", before.native.one_sided == after.native.one_sided);
  return names;
}

}  // namespace

std::string server::take_over(std::span<const parameter* const> altered,
                              const parsed_settings& fresh, const std::unique_ptr<users>& listed) {
  const keyspace::hold everything(*keys_, keys_->all());
  settings next = *service_->snapshot();
  for (const parameter* const p : altered) {
    const std::string why = p->set(next, p->get(fresh.values));
    if (!why.empty()) return std::string(p->name) + ": " + why;
  }
  std::string why = service_->replace(std::move(next));
  if (!why.empty()) return why;
  service_->take_users(listed);
  return service_->configure_users(options_.configured.users, fresh.users);
}

bool server::mind_rewritten(const reader& read) {
  const std::string text = service_->take_rewritten();
  if (text.empty()) return false;
  try {
    server_options written = read(text);
    fit_open_files(written.configured.values);
    options_.configured = std::move(written.configured);
  } catch (const cordma::error&) {
    // The file has invalid lines that were added by hand; the next read finds them again.
  }
  return true;
}

// Tries all that can fail before applying anything. Long work is done earlier still, because
// clients wait for the first worker. Values of CONFIG SET from that time remain.
void server::reload(const server_options& read) {
  server_options fresh = read;
  fit_open_files(fresh.configured.values);
  settings last = options_.configured.values;
  std::vector<const parameter*> altered;
  std::vector<std::string> changed;
  std::vector<std::string> restart = that_take_a_restart(options_, fresh);
  // Users stay as they are if aclfile changed, since the new file is not read before a restart:
  // otherwise clients could connect without a password until then.
  const bool users_move = fresh.configured.values.aclfile != last.aclfile;
  if (users_move) fresh.configured.users = options_.configured.users;
  for (const parameter& p : all_parameters()) {
    const std::string value = p.get(fresh.configured.values);
    if (value == p.get(last)) continue;  // it may differ by CONFIG SET, which remains
    if (p.settable == parameter::when::start || (users_move && p.name == "requirepass")) {
      restart.emplace_back(p.name);
      continue;
    }
    const std::string why = p.set(last, value);
    if (!why.empty()) fail_reload(std::string(p.name) + ": " + why);
    altered.push_back(&p);
    changed.push_back(std::string(p.name) + " is now " +
                      (p.secret ? "another" : "\"" + value + "\""));
  }
  std::shared_ptr<const tls_acceptor> certificates = tls_of(last);
  std::unique_ptr<users> listed;
  std::string why = service_->read_users(listed);
  if (!why.empty()) fail_reload("aclfile: " + why);
  rules_by_name before;
  workers_.front()->call([&] {
    before = rules_of(service_->accounts());
    why = take_over(altered, fresh.configured, listed);
  });
  if (!why.empty()) fail_reload(why);
  options_.configured = {std::move(last), fresh.configured.users};
  {
    const std::lock_guard hold(tls_guard_);
    tls_ = std::move(certificates);
  }
  for (const std::string& line : differences(before, rules_of(service_->accounts()))) {
    changed.push_back(line);
  }
  for (const std::string& line : changed) log_.write(log_level::notice, line);
  for (const std::string& name : restart) {
    log_.write(log_level::warning,
               name + " has changed in the configuration, which takes a restart");
  }
  if (!log_.reopen()) log_.write(log_level::warning, "the log cannot be opened again, and goes on");
}

}  // namespace kv
