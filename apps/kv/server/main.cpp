// cordma-kv: a key-value service for Redis clients and for clients that read remote memory.
#include "../../support/standard_descriptors.hpp"
#include "../../support/standard_output.hpp"
#include "../journal/load.hpp"
#include "configuration.hpp"
#include "preflight.hpp"
#include "server.hpp"

#include <cordma/runtime/dump_handler.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr const char* program = "cordma-kv";
constexpr int bad_usage = 2;
constexpr int most_readings = 10;  // of a configuration that is being rewritten

// If it could not end, another signal within this time ends it anyway.
constexpr auto insistence = std::chrono::seconds(10);

// Signals are taken by the main thread only, when it waits for one. Made before any other thread.
class signals {
 public:
  static constexpr int client_wish =
      SIGUSR2;  // for SHUTDOWN; never counts as the second signal that ends it at once
  signals() {
    sigemptyset(&set_);
    for (const int s : {SIGTERM, SIGINT, SIGHUP, client_wish}) sigaddset(&set_, s);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }
  [[nodiscard]] int wait() noexcept {
    int which = 0;
    if (std::exchange(wished_, false)) return client_wish;
    if (std::exchange(reload_, false)) return SIGHUP;
    return ::sigwait(&set_, &which) == 0 ? which : SIGTERM;
  }
  // True if a signal to end has arrived. Other signals are left for the next wait().
  [[nodiscard]] bool end_has_come() noexcept {
    constexpr timespec at_once{};
    for (;;) {
      const int which = ::sigtimedwait(&set_, nullptr, &at_once);
      if (which == SIGTERM || which == SIGINT) return true;
      if (which == SIGHUP) reload_ = true;
      if (which == client_wish) wished_ = true;
      if (which < 0 && errno != EINTR) return false;
    }
  }

 private:
  sigset_t set_{};
  bool reload_ = false;
  bool wished_ = false;
};

// A pid file that exists as long as this object. Throws cordma::error if it cannot be written.
class pid_file {
 public:
  explicit pid_file(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    constexpr mode_t permission = 0644;
    const cordma::unique_fd file(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, permission));  // NOLINT
    const std::string text = std::to_string(::getpid()) + "\n";
    if (!file || ::write(file.get(), text.data(), text.size()) < 0) {
      const int error = errno;
      cordma::throw_error(cordma::failure::from_os(error, "pidfile: " + path_));
    }
  }
  ~pid_file() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  pid_file(const pid_file&) = delete;
  pid_file& operator=(const pid_file&) = delete;

 private:
  std::string path_;
};

// Long values arrive in memory that grows. Without this, each of them is returned to the kernel and
// faulted in again, which takes twice the CPU time of a SET of 1 MB.
void keep_freed_memory() noexcept {
  constexpr int most_free_bytes = 64 << 20;  // per worker
  constexpr int own_mapping_above = 32 << 20;
  ::mallopt(M_TRIM_THRESHOLD, most_free_bytes);
  ::mallopt(M_MMAP_THRESHOLD, own_mapping_above);
}

void write_lines(logbook& log, log_level level, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    log.write(level, std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
}

void reload(server& s, const command_line& said, logbook& log) noexcept try {
  tell_service_manager("RELOADING=1");
  const auto written = [&said](const std::string& text) {
    return read_options(text, said.config_file, said.options);
  };
  server_options fresh = read_options(said);
  // The file may have been rewritten meanwhile. The limit keeps a client that rewrites it
  // repeatedly from blocking this.
  for (int again = 0; again < most_readings && s.mind_rewritten(written); ++again) {
    fresh = read_options(said);
  }
  s.reload(fresh);
  log.write(log_level::notice, "the configuration was read again");
  tell_service_manager("READY=1");
} catch (const std::exception& e) {
  write_lines(log, log_level::warning,
              std::string("the configuration stays as it was: ") + e.what());
  tell_service_manager("READY=1");
}

// A shutdown in progress and the signals for it: the second one ends it at once. SHUTDOWN does not
// count as one.
class ending {
 public:
  explicit ending(signals& from_outside) noexcept : from_outside_(from_outside) {}
  void begin(int which) noexcept { came_ = which == signals::client_wish ? 0 : 1; }
  [[nodiscard]] bool by_signal() const noexcept { return came_ != 0; }
  [[nodiscard]] bool hurried() noexcept {
    while (came_ < hurry && from_outside_.end_has_come()) ++came_;
    return came_ >= hurry;
  }

 private:
  static constexpr int hurry = 2;
  signals& from_outside_;
  int came_ = 0;
};

// Serves until it is to end and may, or a second signal arrives during that.
void serve_until_end(server& it, const command_line& said, signals& from_outside, ending& end,
                     logbook& log) {
  // Time of the last signal that did not end it.
  std::optional<std::chrono::steady_clock::time_point> stayed;
  for (;;) {
    const int which = from_outside.wait();
    if (which == SIGHUP) {
      reload(it, said, log);
      continue;
    }
    // Skips a request that an earlier shutdown has handled.
    if (which == signals::client_wish && !it.is_wished()) continue;
    log.write(log_level::notice,
              "ending: what is under way is finished; a second signal ends it at once");
    tell_service_manager("STATUS=ending");
    end.begin(which);
    const bool insisted =
        end.by_signal() && stayed && std::chrono::steady_clock::now() - *stayed < insistence;
    const bool may = it.may_end(insisted, [&] { return end.hurried(); });
    if (may || end.hurried()) return;
    if (end.by_signal()) stayed = std::chrono::steady_clock::now();
    tell_service_manager("STATUS=serving: it could not end, as not all could be kept; see the log");
  }
}

int serve(const command_line& said) {
  const server_options options = read_options(said);
  const settings& s = options.configured.values;
  signals from_outside;
  logbook log(s.logfile, parse_log_level(s.loglevel).value_or(log_level::notice));
  bool unwanted = false;
  for (const std::string& w : options.warnings) {
    log.write(log_level::warning, options.config_file + ": " + w);
  }
  try {
    server it(options, log, [] { ::kill(::getpid(), signals::client_wish); });
    it.open([&] { return unwanted = unwanted || from_outside.end_has_come(); });
    const pid_file here(options.pidfile);
    log.write(log_level::notice, "ready");
    tell_service_manager("READY=1\nSTATUS=serving");
    ending end(from_outside);
    serve_until_end(it, said, from_outside, end, log);
    tell_service_manager("STOPPING=1\nSTATUS=ending");
    const bool whole = !end.hurried() && it.close([&] { return end.hurried(); });
    if (end.hurried()) {
      log.write(log_level::warning, "ended at once, by a second signal");
      ::_exit(EXIT_FAILURE);  // does not wait for anything in progress
    }
    log.write(whole ? log_level::notice : log_level::warning,
              whole ? "ended" : "ended, not as it should");
    return whole ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& e) {
    if (unwanted) {
      log.write(log_level::notice, "ended while it was loading: all is on the disk as it was");
      return EXIT_SUCCESS;
    }
    log.write(log_level::warning, std::string("it cannot start: ") + e.what());
    if (!s.logfile.empty()) std::fprintf(stderr, "%s: %s\n", program, e.what());
    return EXIT_FAILURE;
  }
}

// Checks all that a start checks, except its ports and the data on the disk. Findings go to
// standard error; the log is not written.
int check_config(const command_line& said) {
  const server_options options = read_options(said);
  const settings& s = options.configured.values;
  check_writable("logfile", s.logfile);
  {
    logbook log({}, parse_log_level(s.loglevel).value_or(log_level::notice));
    const server it(options, log, [] {});
  }
  for (const std::string& w : options.warnings) {
    std::fprintf(stderr, "%s: %s: %s\n", program, options.config_file.c_str(), w.c_str());
  }
  std::printf("the configuration is right\n");
  return support::finish_output(program, EXIT_SUCCESS);
}

// Writes findings to standard output, and the reason of a failed check to standard error.
int check_aof(const std::string& path, check_mode mode) {
  const cordma::result<check_report> got = check_journal(path, mode);
  if (!got) {
    std::fprintf(stderr, "%s: %s\n", program, got.why().message().c_str());
    return EXIT_FAILURE;
  }
  const bool good = (*got).whole || (*got).fixed;
  std::fwrite((*got).text.data(), 1, (*got).text.size(), stdout);
  std::printf("the journal is %s\n", (*got).whole ? "whole" : (*got).fixed ? "mended" : "damaged");
  return support::finish_output(program, good ? EXIT_SUCCESS : EXIT_FAILURE);
}

int run(const std::vector<std::string>& arguments) {
  using wish = command_line::wish;
  command_line said;
  try {
    said = parse_command_line(arguments);
    if (!said.config_file.empty()) {  // the working directory may change
      said.config_file = std::filesystem::absolute(said.config_file).string();
    }
    if (said.what == wish::serve || said.what == wish::check) static_cast<void>(read_options(said));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return bad_usage;
  }
  switch (said.what) {
    case wish::serve: return serve(said);
    case wish::check: return check_config(said);
    case wish::check_aof: return check_aof(said.aof, check_mode::look);
    case wish::fix_aof: return check_aof(said.aof, check_mode::fix);
    case wish::version: std::printf("cordma-kv " CORDMA_VERSION "\n"); break;
    case wish::help: std::fputs(help_text().c_str(), stdout); break;
  }
  return support::finish_output(program, 0);
}

}  // namespace
}  // namespace kv

int main(int argc, char** argv) try {
  support::hold_standard_descriptors();
  kv::keep_freed_memory();
  cordma::install_dump_handler(SIGUSR1).value();  // of waiting coroutines, on standard error
  return kv::run(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::exception& e) {
  std::fprintf(stderr, "cordma-kv: %s\n", e.what());
  return EXIT_FAILURE;
}
