// How far a transfer is; for whoever shows it. Written by its thread, read by any.
#pragma once

#include <atomic>
#include <cstdint>

namespace copy {

struct progress {
  std::atomic<std::uint64_t> files_found{0};
  std::atomic<std::uint64_t> bytes_found{0};
  std::atomic<bool> all_found{false};
  std::atomic<std::uint64_t> files_done{0};  // those that were the same included
  std::atomic<std::uint64_t> bytes_done{0};  // likewise
  std::atomic<std::uint64_t> bytes_moved{0};
};

}  // namespace copy
