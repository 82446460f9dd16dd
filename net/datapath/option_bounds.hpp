// The common failure of objects with options outside their bounds.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <string>

namespace cordma::detail {

// Throws invalid_value. `option` is, for example, "stream_options::notices".
inline void require_within(const char* option, std::uint32_t value, std::uint32_t least,
                           std::uint32_t most) {
  if (value >= least && value <= most) return;
  throw_error({errc::invalid_value, std::string(option) + " is " + std::to_string(value) +
                                        ": it can be " + std::to_string(least) + " to " +
                                        std::to_string(most)});
}

inline void require_positive(const char* option, duration value) {
  if (value > duration::zero()) return;
  throw_error({errc::invalid_value, std::string(option) + " is not above 0"});
}

}  // namespace cordma::detail
