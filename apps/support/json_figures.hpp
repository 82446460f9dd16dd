// Figures and their conditions as JSON. For sources that write JSON: nlohmann-json is slow to compile.
#pragma once

#include "conditions.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace support {

// To six digits, which is what a measurement is good for.
[[nodiscard]] inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

[[nodiscard]] inline nlohmann::ordered_json to_json(const conditions& c) {
  return {{"host", c.host},
          {"cpu", c.cpu},
          {"cpus", c.cpus},
          {"virtual", c.is_virtual},
          {"governor", c.governor},
          {"kernel", c.kernel},
          {"machine", c.machine},
          {"clock",
           {{"source", c.clock},
            {"steady", c.clock_steady},
            {"overhead_ns", rounded(c.clock_overhead_ns)}}},
          {"load", rounded(c.load)},
          {"date", c.date}};
}

}  // namespace support
