// Values on a command line, and what to say when they are wrong.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace perf {

// A sentence that says what is wrong and what would be right.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  usage_error(const std::string& option, const std::string& given, const std::string& allowed)
      : std::runtime_error(option + ": '" + given + "' will not do; it takes " + allowed) {}
};

// Decimal digits, with K, M or G for powers of 1024, or KB, MB or GB for powers of 1000. None for
// anything else.
[[nodiscard]] std::optional<std::uint64_t> bytes_from(const std::string& text) noexcept;
// A number above 0, with K or M for powers of 1000. None for anything else.
[[nodiscard]] std::optional<double> rate_from(const std::string& text) noexcept;
// A whole number from `least` to `most`. Throws usage_error.
[[nodiscard]] std::uint64_t number_from(const std::string& option, const std::string& text,
                                        std::uint64_t least, std::uint64_t most);
// The same with a fraction.
[[nodiscard]] double seconds_from(const std::string& option, const std::string& text, double least,
                                  double most);
// CLI11's complaint as a sentence of ours, with the option that was perhaps meant.
[[nodiscard]] std::string sentence(const CLI::ParseError& e, const CLI::App& app);

}  // namespace perf
