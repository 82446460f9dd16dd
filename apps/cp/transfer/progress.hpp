// Progress of a transfer, for display. Written by the transfer's thread, read by any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace copy {

struct progress {
  std::atomic<std::uint64_t> files_found{0};
  std::atomic<std::uint64_t> bytes_found{0};
  std::atomic<bool> all_found{false};
  std::atomic<std::uint64_t> files_done{0};  // including unchanged files
  std::atomic<std::uint64_t> bytes_done{0};  // including those of unchanged files
  std::atomic<std::uint64_t> bytes_moved{0};
};

}  // namespace copy
