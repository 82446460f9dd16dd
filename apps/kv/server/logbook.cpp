#include "logbook.hpp"

#include "../../support/printable.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "verbose", "notice", "warning"};
constexpr std::size_t most_line_bytes = 4 << 10;

[[nodiscard]] cordma::unique_fd open_file(const std::string& file) noexcept {
  constexpr mode_t permission = 0640;
  return cordma::unique_fd(
      ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, permission));  // NOLINT
}

}  // namespace

std::optional<log_level> parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (text == level_names[i]) return static_cast<log_level>(i);
  }
  return std::nullopt;
}

logbook::logbook(std::string file, log_level least) : file_(std::move(file)), least_(least) {
  if (file_.empty()) return;
  file_ = std::filesystem::absolute(file_).string();  // the working directory may change
  out_ = open_file(file_);
  if (!out_) cordma::throw_error(cordma::failure::from_os(errno, "logfile: " + file_));
}

void logbook::write(log_level l, std::string_view text) noexcept try {
  if (!keeps(l)) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  std::array<char, 64> when;
  const std::size_t n = ::strftime(when.data(), when.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> rest;
  const int m = std::snprintf(rest.data(), rest.size(), ".%03ldZ cordma-kv[%d] ",
                              now.tv_nsec / 1'000'000, static_cast<int>(::getpid()));
  std::string line(when.data(), n);
  line.append(rest.data(), static_cast<std::size_t>(m));
  line.append(level_names[static_cast<std::size_t>(l)]).append(": ");
  support::append_printable(line, text.substr(0, most_line_bytes));
  line += '\n';
  const std::lock_guard lock(guard_);
  const int to = out_ ? out_.get() : STDERR_FILENO;
  // A failure to write the log cannot be reported anywhere.
  [[maybe_unused]] const ssize_t written = ::write(to, line.data(), line.size());
} catch (const std::exception&) {
  return;  // out of memory for a line
}

bool logbook::reopen() noexcept {
  if (file_.empty()) return true;
  cordma::unique_fd anew = open_file(file_);
  if (!anew) return false;
  const std::lock_guard lock(guard_);
  out_ = std::move(anew);
  return true;
}

bool has_service_manager() noexcept {
  const char* const where = std::getenv("NOTIFY_SOCKET");
  return where != nullptr && *where != '\0';
}

void tell_service_manager(std::string_view state) noexcept {
  if (!has_service_manager()) return;
  const char* const where = std::getenv("NOTIFY_SOCKET");
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  const std::size_t n = std::strlen(where);
  if (n >= sizeof a.sun_path) return;
  std::memcpy(a.sun_path, where, n);
  if (a.sun_path[0] == '@') a.sun_path[0] = '\0';  // an abstract address
  const cordma::unique_fd s(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!s) return;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + n);
  ::sendto(s.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&a),
           bytes);
}

}  // namespace kv
