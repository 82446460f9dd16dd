// Parsing of command line values, and the messages for wrong ones.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace perf {

// The message is a sentence with the fault and the accepted values.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  usage_error(const std::string& option, const std::string& given, const std::string& allowed)
      : std::runtime_error(option + ": '" + given + "' will not do; it takes " + allowed) {}
};

// Parses decimal digits, with K, M or G for powers of 1024, or KB, MB or GB for powers of 1000.
// Returns nothing for any other text.
[[nodiscard]] std::optional<std::uint64_t> bytes_from(const std::string& text) noexcept;
// Parses a number above 0, with K or M for powers of 1000. Returns nothing for any other text.
[[nodiscard]] std::optional<double> rate_from(const std::string& text) noexcept;
// Parses an integer from `least` to `most`. Throws usage_error.
[[nodiscard]] std::uint64_t number_from(const std::string& option, const std::string& text,
                                        std::uint64_t least, std::uint64_t most);
// Likewise, with a fraction.
[[nodiscard]] double seconds_from(const std::string& option, const std::string& text, double least,
                                  double most);
// Turns an error of CLI11 into a sentence, with the option that was probably meant.
[[nodiscard]] std::string sentence(const CLI::ParseError& e, const CLI::App& app);

}  // namespace perf
