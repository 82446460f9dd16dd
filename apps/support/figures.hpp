// Rounds results to the precision of a measurement.
#pragma once

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace support {

// Rounds to six digits.
[[nodiscard]] inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

// Formats with three digits, for any magnitude.
[[nodiscard]] inline std::string number(double value) {
  std::array<char, 32> text{};
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace support
