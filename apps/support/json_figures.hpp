// Results and their conditions as JSON. Only for sources that write JSON, because nlohmann-json is
// slow to compile.
#pragma once

#include "conditions.hpp"
#include "figures.hpp"

#include <nlohmann/json.hpp>

namespace support {

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
