// Measures the latency of single operations, one at a time.
#pragma once

#include "service.hpp"

#include <cstdint>

namespace kv::cli {

struct latency_options {
  double duration_s = 0;  // 0: until Ctrl-C
  double pause_ms = 0;    // between two rounds of operations
  std::uint32_t value_bytes = 64;
  bool json = false;
};

// Writes a separate key and erases it at the end. Returns the exit code.
[[nodiscard]] int run_latency(const service& s, const latency_options& o);

}  // namespace kv::cli
