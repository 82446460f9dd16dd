// trace: a record of posts, completions, events and waits with their times, as Chrome trace JSON, which Perfetto opens.
// Off unless the setting `trace` (CORDMA_TRACE) names a file.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/ticks.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cordma {

enum class trace_point : std::uint8_t { post, completion, event, arm, sleep, wake };
inline constexpr std::size_t trace_point_count = 6;
[[nodiscard]] std::string_view name(trace_point p) noexcept;

// The last 65,536 entries of one reactor, in 2 MiB. Bound to its thread.
class trace_ring {
 public:
  // `time` is null in real time.
  explicit trace_ring(clock* time) noexcept : time_(time), begun_(tick_pair::now()) {}

  // `what` is static text: an operation, a transport. `about` names an object, `amount` counts bytes or things.
  void add(trace_point point, const char* what, const void* about = nullptr,
           std::uint64_t amount = 0) noexcept {
    entries_[next_++ % entries_.size()] = {
        time_ == nullptr ? read_ticks()
                         : static_cast<std::uint64_t>(time_->now().time_since_epoch().count()),
        about, what, amount << 8 | static_cast<std::uint64_t>(point)};
  }
  // Writes the entries that were not written yet to the trace file, with `thread` as their thread.
  // Allocates nothing.
  void write(std::uint64_t thread) noexcept;

 private:
  struct entry {
    std::uint64_t ticks;
    const void* about;
    const char* what;
    std::uint64_t amount_and_point;
  };
  static_assert(sizeof(entry) == 32);
  static constexpr std::size_t size = 65536;

  clock* time_;
  tick_pair begun_;
  std::uint64_t next_ = 0;
  std::uint64_t written_ = 0;  // entries
  std::array<entry, size> entries_;
};

// Creates the file, or empties it; "%p" in its name stands for the process id. Reactors of Workers
// that are created later have a ring each; it is written when its reactor is destroyed, when the
// program calls exit() or returns from main(), and when a check fails. A process has one trace
// file: naming it again does nothing. A child of fork() has one if its name contains "%p". If the
// disk is full, one line on standard error reports it, and the program continues. Errors:
// invalid_value (another file is open), operating_system, not_permitted, not_found.
[[nodiscard]] result<void> start_trace(std::string_view file);
// True if this process has a trace file.
[[nodiscard]] bool is_tracing() noexcept;

}  // namespace cordma
