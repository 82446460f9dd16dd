// The report of a reactor, and of its lists: see reactor::dump(). All of it may run in a signal handler.
#include <cordma/runtime/dump_writer.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>
#include <cordma/runtime/task_group.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>

namespace cordma {
namespace {

constexpr unsigned max_report_lines = 200;
constexpr unsigned max_section_lines = 90;    // per section
constexpr std::size_t max_steps = 1'000'000;  // from caller to caller, and from timer to timer
constexpr std::size_t max_chain = 32;         // printed callers
constexpr std::size_t max_groups = 48;        // groups of tasks that wait at the same place
constexpr const char* in_change = "the list was just being changed";

using promise = const task_promise_base;

// The chain from the waiting coroutine to the first of its callers; through scopes and when_all to
// the tasks that wait for them.
class chain {
 public:
  void add(promise& p) noexcept {
    // The location is a pointer to static data, which differs from co_await to co_await.
    std::uintptr_t place = 0;
    std::memcpy(&place, &p.suspended_at(), sizeof place);
    hash_ = (hash_ ^ place) * 1099511628211U;
    if (length_ == max_chain) {
      cut_ = true;
    } else {
      callers_[length_++] = &p;
    }
  }
  // At most the first max_chain callers.
  [[nodiscard]] std::span<promise* const> callers() const noexcept {
    return {callers_.data(), length_};
  }
  [[nodiscard]] bool cut() const noexcept { return cut_; }
  // Equal for coroutines that wait at the same place.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::array<promise*, max_chain> callers_;
  std::size_t length_ = 0;
  bool cut_ = false;
  std::uint64_t hash_ = 14695981039346656037U;
};

// False if links do not match.
bool follow(const reactor& home, running_task& first, chain& out) noexcept {
  promise* at = first.top;
  for (std::size_t steps = 0; at->awaited() != nullptr; at = at->awaited()) {
    if (at->awaited()->awaiter() != at || ++steps == max_steps) return false;
  }
  detail::task_group* group = first.group;
  for (std::size_t steps = 0; at != nullptr; ++steps) {
    if (steps == max_steps) return false;
    out.add(*at);
    if (at->awaiter() != nullptr) {
      at = at->awaiter();
      continue;
    }
    if (group == nullptr || &group->home() != &home) break;
    at = group->joiner();
    group = nullptr;
    if (at == nullptr) break;
    group = at->context()->entry().group;
  }
  return true;
}

void print_caller(dump_writer& out, promise& p) noexcept {
  const std::source_location& at = p.suspended_at();
  if (at.line() == 0) {
    out << "a task that has not begun";
    return;
  }
  out.function(at.function_name()) << " at ";
  out.file(at.file_name()) << ":" << at.line();
}

struct alike {
  std::uint64_t hash = 0;
  std::uint64_t tasks = 0;
  running_task* first = nullptr;
};

class alike_table {
 public:
  // False if the table is full.
  bool count(std::uint64_t hash, running_task& t) noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
      if (rows_[i].hash != hash) continue;
      ++rows_[i].tasks;
      return true;
    }
    if (used_ == rows_.size()) return false;
    rows_[used_++] = {hash, 1, &t};
    return true;
  }
  [[nodiscard]] std::span<const alike> rows() const noexcept { return {rows_.data(), used_}; }

 private:
  std::array<alike, max_groups> rows_;
  std::size_t used_ = 0;
};

void print_chain(dump_writer& out, const reactor& home, const alike& row) noexcept {
  chain c;
  if (!follow(home, *row.first, c) || c.callers().empty()) return;
  for (std::size_t i = 0; i < c.callers().size(); ++i) {
    out << (i == 0 ? "    waits: " : "       in: ");
    print_caller(out, *c.callers()[i]);
    if (i == 0 && row.tasks > 1) out << "  (" << row.tasks << " tasks alike)";
    out.end_line();
  }
  if (c.cut()) {
    out << "       in: more callers";
    out.end_line();
  }
}

}  // namespace

void reactor::dump_waits(dump_writer& out) noexcept {
  if (changing_) {
    out << "  timers and descriptors: just being changed";
    out.end_line();
    return;
  }
  out << "  descriptors: epoll " << waits_.fd() << ", wake-up " << waits_.event_fd() << ", timer "
      << waits_.timer_fd();
  for (poller* const p : pollers_) {
    out << ", " << p->name();
    if (p->wait_fd() >= 0) out << " " << p->wait_fd();
  }
  out.end_line();
  out << "  timers: " << std::uint64_t{timers_.count(max_steps)};
  if (const timer* const first = timers_.first(); first != nullptr) {
    const duration left = first->when() - time_.now();
    out << (left < duration::zero() ? ", the first due since " : ", the first due in ")
        << (left < duration::zero() ? -left : left);
  }
  std::uint64_t ready = 0;
  const bool whole =
      ready_.look_through([&](ready_item& item) { ready += &item != &end_of_pass_; });
  out << "; ready to run: ";
  if (whole) {
    out << ready;
  } else {
    out << in_change;
  }
  out.end_line();
}

void detail::report_lists::print_tasks(dump_writer& out, const reactor& home) noexcept {
  ++reports_;
  std::uint64_t count = 0;
  bool whole = tasks_.look_through([this, &count, &home](running_task& t) {
    ++count;
    if (t.group == nullptr || &t.group->home() != &home) return;
    // A task that waits for others is a caller of theirs.
    task_promise_base* const joiner = t.group->joiner();
    if (joiner != nullptr) joiner->context()->entry().joins_in = reports_;
  });
  alike_table table;
  std::uint64_t left_out = 0;
  std::uint64_t in_motion = 0;
  whole = whole && tasks_.look_through([&, this](running_task& t) {
    if (t.joins_in == reports_) return;
    chain c;
    if (!follow(home, t, c)) {
      ++in_motion;
    } else if (!table.count(c.hash(), t)) {
      ++left_out;
    }
  });
  out << "  tasks: ";
  if (whole) {
    out << count;
  } else {
    out << in_change;
  }
  out.end_line();
  if (!whole) return;
  for (const alike& row : table.rows()) {
    if (out.lines_left() <= max_chain + 3) {
      left_out += row.tasks;
    } else {
      print_chain(out, home, row);
    }
  }
  if (in_motion != 0) {
    out << "    " << in_motion << " tasks: just being changed";
    out.end_line();
  }
  if (left_out != 0) {
    out << "    " << left_out << " more tasks wait";
    out.end_line();
  }
}

void detail::report_lists::print_sections(dump_writer& out) noexcept {
  const bool whole = sections_.look_through([&out](report_section& s) {
    const unsigned before = out.lines_left();
    const unsigned may = std::min(before, max_section_lines);
    out.limit(may);
    s.print_(s, out);
    out.limit(before - (may - out.lines_left()));
  });
  if (!whole) {
    out << "  Workers: " << in_change;
    out.end_line();
  }
}

failure reactor::deadlock() noexcept {
  std::array<char, 4096> room;
  std::size_t bytes = 0;
  {
    dump_writer out(room, max_chain + 30);
    reports_.print_tasks(out, *this);
    out.flush();
    bytes = out.size();
  }
  if (bytes != 0 && room[bytes - 1] == '\n') --bytes;
  return failure::of(errc::bad_state,
                     {"every coroutine waits, and in virtual time nothing is left that could wake "
                      "one: a deadlock in the program or a lost completion\n",
                      std::string_view(room.data(), bytes)});
}

void reactor::dump(int fd) noexcept {
  dump_writer out(fd, max_report_lines);
  dump(out);
}

void reactor::dump(dump_writer& out) noexcept {
  const int saved = errno;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  out << "reactor " << static_cast<const void*>(this) << ": " << cordma::name(options_.mode) << ", "
      << counters_.turns << " passes, " << counters_.sleeps << " sleeps, "
      << (in_turn_ ? "inside a pass"
          : armed_ ? "asleep"
                   : "between passes");
  out.end_line();
  dump_waits(out);
  reports_.print_sections(out);
  reports_.print_tasks(out, *this);
  out.flush();
  errno = saved;
}

}  // namespace cordma
