#include <cordma/runtime/trace.hpp>

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/dump_writer.hpp>
#include <cordma/runtime/live_reactors.hpp>
#include <cordma/runtime/process.hpp>
#include <cordma/runtime/reactor.hpp>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace cordma {
namespace {

// The trace file of the process.
struct trace_file {
  std::mutex opening;
  std::string name;  // as passed by the program
  std::uint32_t made_after = 0;
  std::atomic<int> fd{-1};
  std::atomic<bool> failed{false};
  std::atomic<bool> ended{false};
};

trace_file& the_file() noexcept {
  static trace_file* const file = new trace_file;  // exit handlers use it until the end
  return *file;
}
constinit std::atomic<int> open_fd{-1};

bool is_ours(const trace_file& f) noexcept {
  return f.made_after == detail::fork_count.load(std::memory_order_relaxed);
}

std::string with_process_id(std::string_view name) {
  std::string path(name);
  const std::string id = std::to_string(::getpid());
  for (std::size_t at = 0; (at = path.find("%p", at)) != std::string::npos; at += id.size()) {
    path.replace(at, 2, id);
  }
  return path;
}

void report_failure(int code) noexcept {
  if (the_file().failed.exchange(true)) return;
  dump_writer out(STDERR_FILENO, 1);
  out << "cordma: the trace is incomplete: writing its file failed: " << ::strerrordesc_np(code);
  out.end_line();
}

// Writes nanoseconds as microseconds with three digits behind the point.
void put_time(dump_writer& out, std::int64_t ns) noexcept {
  const auto rest = static_cast<int>(ns % 1000);
  out << static_cast<std::uint64_t>(ns / 1000) << "." << rest / 100 << rest / 10 % 10 << rest % 10;
}

// Writes the last line of the file: without it the JSON is not closed, which viewers accept.
void end_file() noexcept {
  if (the_file().failed.load() || the_file().ended.exchange(true)) return;
  dump_writer out(open_fd.load(), 1);
  out << R"({"name":"process_name","ph":"M","pid":)" << static_cast<int>(::getpid())
      << R"(,"args":{"name":"cordma"}}])";
  out.end_line();
}

void write_all() noexcept {
  if (!is_tracing() || the_file().ended.load()) return;
  detail::for_each_live_reactor([](detail::live_reactor& e, reactor& r) {
    const pid_t thread = e.thread.load(std::memory_order_relaxed);
    detail::visit_held(e, r, thread, [&r, thread]() noexcept {
      if (trace_ring* const ring = r.trace()) ring->write(static_cast<std::uint64_t>(thread));
    });
  });
  end_file();
}

result<void> open_file(trace_file& f, std::string_view name) {
  const std::string path = with_process_id(name);
  // O_NONBLOCK: otherwise open() of a FIFO without a reader waits.
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0) {
    return failure::from_os(
        errno, {"opening the trace file \"", path, "\" (setting trace, CORDMA_TRACE)"});
  }
  static_cast<void>(::fcntl(fd, F_SETFL, O_APPEND));
  f.name = name;
  f.made_after = detail::fork_count.load(std::memory_order_relaxed);
  f.failed = false;
  f.ended = false;
  open_fd.store(fd);
  dump_writer out(fd, 1);
  out << "[";
  out.end_line();
  out.flush();
  if (out.error() != 0) report_failure(out.error());
  return {};
}

}  // namespace

std::string_view name(trace_point p) noexcept {
  constexpr std::array<std::string_view, trace_point_count> names{"post", "completion", "event",
                                                                  "arm",  "sleep",      "wake"};
  return names[static_cast<std::size_t>(p)];
}

bool is_tracing() noexcept {
  return open_fd.load(std::memory_order_relaxed) >= 0 && is_ours(the_file());
}

result<void> start_trace(std::string_view name) {
  trace_file& f = the_file();
  const std::scoped_lock lock(f.opening);
  if (open_fd.load() >= 0 && is_ours(f)) {
    if (f.name == name) return {};
    return failure{errc::invalid_value, "the trace file of this process is \"" + f.name +
                                            "\" already: a second one, \"" + std::string(name) +
                                            "\", is not possible"};
  }
  const bool parent_has_one = open_fd.load() >= 0;
  if (parent_has_one && name.find("%p") == std::string_view::npos) return {};
  const result<void> opened = open_file(f, name);
  if (!opened || parent_has_one) return opened;
  static_cast<void>(std::atexit([] { write_all(); }));
  detail::call_before_abort([]() noexcept { write_all(); });
  return {};
}

void trace_ring::write(std::uint64_t thread) noexcept {
  if (!is_tracing() || the_file().failed.load() || the_file().ended.load()) return;
  const tick_pair now = tick_pair::now();
  const double rate = begun_.rate_until(now);
  const auto process = static_cast<std::uint64_t>(::getpid());
  dump_writer out(open_fd.load(), UINT_MAX);
  if (next_ - written_ > size) written_ = next_ - size;
  for (; written_ != next_; ++written_) {
    const entry& e = entries_[written_ % size];
    const auto point = static_cast<trace_point>(e.amount_and_point & 0xFF);
    const bool waits = point == trace_point::sleep || point == trace_point::wake;
    out << R"({"name":")" << (waits ? "sleep" : e.what) << R"(","cat":")" << cordma::name(point)
        << R"(","ph":")"
        << (point == trace_point::sleep  ? "B"
            : point == trace_point::wake ? "E"
                                         : "i")
        << R"(","ts":)";
    put_time(out, time_ != nullptr ? static_cast<std::int64_t>(e.ticks)
                                   : begun_.time.time_since_epoch().count() +
                                         static_cast<std::int64_t>(
                                             static_cast<double>(e.ticks - begun_.ticks) * rate));
    out << R"(,"pid":)" << process << R"(,"tid":)" << thread;
    if (!waits) {
      out << R"(,"s":"t","args":{"about":")" << e.about << R"(","amount":)"
          << (e.amount_and_point >> 8) << "}";
    }
    out << "},";
    out.end_line();
    if (out.error() != 0) break;
  }
  out.flush();
  if (out.error() != 0) report_failure(out.error());
}

}  // namespace cordma
