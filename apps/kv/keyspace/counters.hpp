// Counters of a worker: written by its thread, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kv {

// Upper limit of commands and subcommands in the table.
inline constexpr std::size_t most_commands = 256;

class relaxed_counter {
 public:
  void add(std::uint64_t by = 1) noexcept {
    n_.store(n_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void clear() noexcept { n_.store(0, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept { return n_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> n_{0};
};

struct command_counters {
  relaxed_counter calls;
  relaxed_counter nanoseconds;
  relaxed_counter rejected;  // refused before execution
  relaxed_counter failed;    // completed with an error reply
};

struct worker_counters {
  relaxed_counter commands;
  relaxed_counter connections;
  relaxed_counter rejected_connections;
  relaxed_counter input_bytes;
  relaxed_counter output_bytes;
  relaxed_counter receipts;  // receive operations, of any number of bytes each
  relaxed_counter sendings;
  relaxed_counter error_replies;
  relaxed_counter killed_for_output;
  relaxed_counter writes;     // commands that may have changed something
  relaxed_counter looked_at;  // clients examined to see whether they wait for an event
  std::array<command_counters, most_commands> each;
};

}  // namespace kv
