// Measurements as text for people and as JSON for programs.
//
// JSON, one object per measurement, keys as cordma-perf writes them where both have them:
//   {"program":"bench-limits","test":"tcp-latency","wait":"polling","size":8,"iterations":100000,
//    "batches":100,"cpus":[0,1],"one_way_us":{"mean":..,"p50":..,"p99":..,"min":..,"max":..},
//    "valid":true}
// A bandwidth test has "bandwidth_GBps" (1e9 bytes, over all batches) and "batch_GBps" (the same
// five figures over batches) in place of "one_way_us". Several measurements make an array.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "batches.hpp"

namespace limits {

[[nodiscard]] inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

[[nodiscard]] inline std::string json_of(const distribution& batches) {
  return "{\"mean\":" + number(batches.mean) + ",\"p50\":" + number(batches.p50) +
         ",\"p99\":" + number(batches.p99) + ",\"min\":" + number(batches.min) +
         ",\"max\":" + number(batches.max) + "}";
}

[[nodiscard]] inline std::string json_of(const measurement& made) {
  const settings& how = made.how;
  std::string text = "{\"program\":\"bench-limits\",\"test\":\"" + made.test + "\"";
  text += ",\"wait\":\"" + std::string(name_of(how.wait)) + "\"";
  text += ",\"size\":" + std::to_string(how.size);
  text += ",\"iterations\":" + std::to_string(how.steps_per_batch() * how.batches);
  text += ",\"batches\":" + std::to_string(how.batches);
  text += ",\"cpus\":[" + std::to_string(how.peer_cpu) + "," + std::to_string(how.own_cpu) + "]";
  if (made.what == measurement::kind::one_way_us) {
    text += ",\"one_way_us\":" + json_of(made.batches);
  } else {
    text += ",\"bandwidth_GBps\":" + number(made.overall);
    text += ",\"batch_GBps\":" + json_of(made.batches);
  }
  return text + ",\"valid\":true}";
}

[[nodiscard]] inline std::string json_of(const std::vector<measurement>& all) {
  if (all.size() == 1) {
    return json_of(all.front());
  }
  std::string text = "[";
  for (const measurement& made : all) {
    text += (text.size() > 1 ? ",\n " : "") + json_of(made);
  }
  return text + "]";
}

inline void print_text(const measurement& made) {
  const bool latency = made.what == measurement::kind::one_way_us;
  const distribution& batches = made.batches;
  std::printf("%-13s %-7s %8zu B  %9.3f %-4s  batches: p50 %.3f  p99 %.3f  min %.3f  max %.3f\n",
              made.test.c_str(), name_of(made.how.wait).data(), made.how.size,
              latency ? batches.p50 : made.overall, latency ? "us" : "GB/s", batches.p50,
              batches.p99, batches.min, batches.max);
}

}  // namespace limits
