#include "report.hpp"

#include "../../support/printable.hpp"
#include "../target/resume.hpp"
#include "as_text.hpp"
#include "itemized.hpp"
#include "progress_line.hpp"

#include <cordma/runtime/units.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace copy {
namespace {

constexpr int look_ms = 200;
constexpr double quiet_s = 0.5;  // before the first line

// The signals that end the transfer in order. With nohup SIGHUP is ignored, so that the transfer
// continues without its terminal.
sigset_t interrupts() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hup{};
  const bool is_ignored = ::sigaction(SIGHUP, nullptr, &hup) == 0 && hup.sa_handler == SIG_IGN;
  if (!is_ignored) sigaddset(&set, SIGHUP);
  return set;
}

std::string json_text(const nlohmann::json& j) {
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Peak memory of this program: that of getrusage() includes the program that started it.
std::uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

exit_code code_of(const std::exception& e) noexcept {
  if (const auto* const place = dynamic_cast<const failed_place*>(&e)) {
    switch (place->kind()) {
      case failing::may_not: return exit_code::refused;
      case failing::selection: return exit_code::selection;
      case failing::file: return exit_code::file;
    }
  }
  const auto* const failed = dynamic_cast<const cordma::error*>(&e);
  if (failed == nullptr) return exit_code::file;
  switch (failed->condition()) {
    case cordma::errc::rejected: return exit_code::refused;
    case cordma::errc::timed_out: return exit_code::timeout;
    case cordma::errc::invalid_value: return exit_code::stream;
    case cordma::errc::unsupported_version: return exit_code::protocol;
    case cordma::errc::unreachable:
    case cordma::errc::connection_aborted:
    case cordma::errc::truncated:
    case cordma::errc::connection_reset:
    case cordma::errc::not_connected:
    case cordma::errc::remote_access:
    case cordma::errc::io_failed:
    case cordma::errc::shutdown:
    case cordma::errc::flushed: return exit_code::socket;
    default: return exit_code::file;
  }
}

const char* sign_of(item::change c) noexcept {
  switch (c) {
    case item::change::made: return "new      ";
    case item::change::updated: return "updated  ";
    case item::change::deleted: return "deleted  ";
    case item::change::metadata: return "metadata ";
  }
  return "";
}

}  // namespace

void report::block_interrupts() noexcept {
  const sigset_t set = interrupts();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

report::report(const request& r) : request_(r) {
  const sigset_t set = interrupts();
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  over_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !over_) throw std::system_error(errno, std::generic_category(), "signalfd");
  on_terminal_ = support::status_line::on_terminal();
  watcher_ = std::thread([this] { watch(); });
}

report::~report() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(over_.get(), &one, sizeof one);
  watcher_.join();
}

void report::watch() {
  for (;;) {
    pollfd fds[] = {{over_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    ::poll(fds, 2, look_ms);
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0) {
      signalfd_siginfo info{};
      [[maybe_unused]] const auto n = ::read(signals_.get(), &info, sizeof info);
      if (interrupted_.exchange(true)) ::_exit(static_cast<int>(exit_code::signal));
      stop_.request_stop();
    }
    const bool wanted = (on_terminal_ || request_.progress) && !request_.quiet;
    if (wanted) show();
  }
}

// On a terminal the line is redrawn at the terminal's width; elsewhere a line is printed every ten
// seconds.
void report::show() {
  const std::lock_guard lock(screen_);
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  if (s < quiet_s || outcome_) return;
  progress_figures now;
  now.done = static_cast<double>(progress_.bytes_done.load());
  now.found = static_cast<double>(progress_.bytes_found.load());
  now.all_found = progress_.all_found;
  now.rate = static_cast<double>(progress_.bytes_moved.load()) / s;
  now.files_done = progress_.files_done;
  now.files_found = progress_.files_found;
  if (!on_terminal_) {
    static std::chrono::steady_clock::time_point last{};
    if (std::chrono::steady_clock::now() - last < std::chrono::seconds(10)) return;
    last = std::chrono::steady_clock::now();
    std::fprintf(stderr, "%s\n", progress_text(now).c_str());
    return;
  }
  line_.show(progress_line(now, support::status_line::width()));
}

item_sink report::sink() {
  return [this](const item& i) {
    const bool wanted = request_.verbose != 0 || request_.options.dry_run || request_.itemize;
    if (!wanted || request_.json == "-") return;
    // -v prints a path once per transfer, not once per connection.
    if (!request_.is_local() && request_.reconnect > cordma::duration::zero()) {
      const auto [before, is_new] = told_.try_emplace(i.path, connections_);
      if (!is_new && before->second != connections_) return;
    }
    const std::lock_guard lock(screen_);
    line_.hide();
    const bool directory = i.kind == entry_kind::directory;
    const std::string sign =
        request_.itemize ? itemized(i, !request_.target.here(), request_.options.times) + ' '
                         : sign_of(i.what);
    std::fprintf(out(), "%s%s%s\n", sign.c_str(), support::printable(i.path).c_str(),
                 directory ? "/" : "");
  };
}

void report::connected(const connection& c) {
  transport_ = c.transport;
  reason_ = c.reason;
  cipher_ = c.cipher;
  if (++connections_ > 1 || request_.verbose == 0 || request_.json == "-") return;
  std::fprintf(out(), "over %s (%s)\n", way().c_str(), reason_.c_str());
}

void report::lost(const std::string& why) {
  if (request_.quiet) return;
  const std::lock_guard lock(screen_);
  line_.hide();
  std::fprintf(stderr, "cordma-cp: connection lost: %s; reconnecting for up to %s\n",
               support::printable(why).c_str(),
               cordma::format_duration(request_.reconnect).c_str());
}

std::string report::way() const {
  return cipher_.empty() ? transport_ : transport_ + " with TLS, " + cipher_;
}

void report::conclude(outcome o) {
  const std::lock_guard lock(screen_);
  line_.hide();
  took_ = std::chrono::steady_clock::now() - began_;
  outcome_ = std::move(o);
  for (const problem& p : outcome_->problems) {
    const char* const note = p.what == problem::kind::left_out ? "left out: " : "";
    if (!request_.quiet || p.what != problem::kind::left_out) {
      std::fprintf(stderr, "cordma-cp: %s%s: %s\n", note, support::printable(p.path).c_str(),
                   support::printable(p.why).c_str());
    }
  }
  if (const std::uint64_t more = outcome_->problems.not_remembered(); more != 0) {
    std::fprintf(stderr, "cordma-cp: and %llu more problems\n",
                 static_cast<unsigned long long>(more));
  }
  const bool failed = outcome_->problems.has(problem::kind::failed);
  const bool vanished = outcome_->problems.has(problem::kind::vanished);
  code_ = failed                                         ? exit_code::partial
          : vanished                                     ? exit_code::vanished
          : outcome_->problems.has(problem::kind::limit) ? exit_code::limit
                                                         : exit_code::fine;
  summarize();
  if (!request_.json.empty()) write_json();
}

void report::broke_off(const std::exception& e) {
  const std::lock_guard lock(screen_);
  line_.hide();
  took_ = std::chrono::steady_clock::now() - began_;
  broken_ = e.what();
  code_ = code_of(e);
  if (interrupted_) {
    code_ = exit_code::signal;
    broken_ = "interrupted";
    std::fprintf(stderr, "cordma-cp: interrupted%s\n", way_on().c_str());
  } else {
    std::fprintf(stderr, "cordma-cp: %s\n", support::printable(broken_).c_str());
  }
  if (!request_.json.empty()) write_json();
}

// Describes the effect of the same command after an interruption.
std::string report::way_on() const {
  if (out() == stderr || request_.sources.front().is_standard_stream()) return "";
  std::string text = "; the same command goes on with what is not whole yet";
  if (!request_.options.resume) return text + ", from the beginning of each file";
  return text + ", and of files of " + std::to_string(smallest_resumed >> 20) +
         " MiB and more only with what is missing";
}

void report::summarize() {
  if (request_.quiet || request_.json == "-") return;
  const tally& t = outcome_->done;
  const double s = took_.count();
  std::fprintf(out(), "%s%llu files, %s in %.2f s (%s/s) over %s",
               request_.options.dry_run ? "would copy " : "",
               static_cast<unsigned long long>(t.files),
               in_bytes(static_cast<double>(t.bytes)).c_str(), s,
               in_bytes(static_cast<double>(t.bytes) / s).c_str(), way().c_str());
  const auto also = [this](std::uint64_t n, const char* what) {
    if (n != 0) std::fprintf(out(), ", %llu %s", static_cast<unsigned long long>(n), what);
  };
  also(t.same, "the same");
  also(t.directories, "directories");
  also(t.links, "links");
  also(t.specials, "devices, FIFOs and sockets");
  also(t.deleted, "deleted");
  if (t.resumed_bytes != 0)
    std::fprintf(out(), ", %s were there", in_bytes(static_cast<double>(t.resumed_bytes)).c_str());
  also(t.damaged, "chunks damaged on the way, and sent again");
  if (connections_ > 1) also(connections_ - 1, connections_ == 2 ? "reconnect" : "reconnects");
  std::fprintf(out(), "\n");
  if (!request_.stats) return;
  rusage spent{};
  ::getrusage(RUSAGE_SELF, &spent);
  const auto seconds = [](const timeval& v) {
    return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) / 1e6;
  };
  const double cpu = seconds(spent.ru_utime) + seconds(spent.ru_stime);
  std::fprintf(out(), "  found %llu files, %s\n",
               static_cast<unsigned long long>(progress_.files_found.load()),
               in_bytes(static_cast<double>(progress_.bytes_found.load())).c_str());
  std::fprintf(out(), "  CPU of this process: %.2f s user, %.2f s system, %.2f s per GB\n",
               seconds(spent.ru_utime), seconds(spent.ru_stime),
               cpu / std::max(1e-9, static_cast<double>(t.bytes) / 1e9));
  std::fprintf(out(), "  peak memory %s, of which %s for what is on its way\n",
               in_bytes(static_cast<double>(peak_bytes())).c_str(),
               in_bytes(static_cast<double>(request_.options.memory_bytes)).c_str());
  std::fprintf(out(), "  over %s: %s\n", way().c_str(), reason_.c_str());
}

void report::write_json() {
  nlohmann::json j{{"schema", "cordma-cp/1"},    {"exit_code", static_cast<int>(code_)},
                   {"transport", transport_},    {"tls_cipher", cipher_},
                   {"elapsed_s", took_.count()}, {"interrupted", interrupted_.load()},
                   {"error", as_text(broken_)}};
  const tally t = outcome_ ? outcome_->done : tally{};
  j["files"] = t.files;
  j["bytes"] = t.bytes;
  j["same"] = t.same;
  j["directories"] = t.directories;
  j["links"] = t.links;
  j["specials"] = t.specials;
  j["deleted"] = t.deleted;
  j["resumed_bytes"] = t.resumed_bytes;
  j["damaged_chunks"] = t.damaged;
  j["reconnects"] = connections_ > 1 ? connections_ - 1 : 0;
  j["bytes_found"] = progress_.bytes_found.load();
  rusage spent{};
  ::getrusage(RUSAGE_SELF, &spent);
  j["peak_rss_bytes"] = peak_bytes();
  j["cpu_s"] = static_cast<double>(spent.ru_utime.tv_sec + spent.ru_stime.tv_sec) +
               static_cast<double>(spent.ru_utime.tv_usec + spent.ru_stime.tv_usec) / 1e6;
  j["problems"] = nlohmann::json::array();
  j["problems_not_listed"] = outcome_ ? outcome_->problems.not_remembered() : 0;
  if (outcome_) {
    constexpr const char* kinds[] = {"", "left out", "failed", "vanished", "limit"};
    for (const problem& p : outcome_->problems) {
      j["problems"].push_back({{"kind", kinds[static_cast<std::size_t>(p.what)]},
                               {"path", as_text(p.path)},
                               {"why", as_text(p.why)}});
    }
  }
  const std::string text = json_text(j) + "\n";
  if (request_.json == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  errno = 0;
  std::ofstream out(request_.json);
  out << text;
  out.close();
  if (out) return;
  std::fprintf(stderr, "cordma-cp: --json: %s: %s\n", request_.json.c_str(), std::strerror(errno));
  if (code_ == exit_code::fine) code_ = exit_code::file;
}

}  // namespace copy
