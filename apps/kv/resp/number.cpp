#include "number.hpp"

#include "words.hpp"

#include <strings.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace kv {
namespace {

constexpr std::size_t longest_float = 5 * 1024;  // in characters, as in Redis
constexpr int float_digits = 17;                 // after the decimal point

struct memory_unit {
  const char* name;
  std::uint64_t bytes;
};
constexpr std::uint64_t kilo = 1000;
constexpr std::uint64_t kibi = 1024;
constexpr std::array<memory_unit, 8> memory_units{{{"", 1},
                                                   {"b", 1},
                                                   {"k", kilo},
                                                   {"kb", kibi},
                                                   {"m", kilo* kilo},
                                                   {"mb", kibi* kibi},
                                                   {"g", kilo* kilo* kilo},
                                                   {"gb", kibi* kibi* kibi}}};

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  const char* const digits = text.data() + (text[0] == '-' ? 1 : 0);
  const char* const end = text.data() + text.size();
  if (digits == end) return std::nullopt;
  if (*digits == '0') {
    if (text.size() == 1) return 0;
    return std::nullopt;
  }
  if (*digits < '1' || *digits > '9') return std::nullopt;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_cursor(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return negative ? -number : number;
}

std::optional<long double> parse_float(std::string_view text) {
  if (text.empty() || text.size() >= longest_float || is_blank(text[0])) return std::nullopt;
  const std::string copy(text);  // zero-terminated
  char* end = nullptr;
  errno = 0;
  const long double number = std::strtold(copy.c_str(), &end);
  if (static_cast<std::size_t>(end - copy.c_str()) != text.size()) return std::nullopt;
  if (errno == ERANGE && (std::isinf(number) || std::fpclassify(number) == FP_ZERO)) {
    return std::nullopt;
  }
  if (errno == EINVAL || std::isnan(number)) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_memory(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  for (const memory_unit& u : memory_units) {
    if (unit.size() != std::string_view(u.name).size() ||
        strncasecmp(unit.data(), u.name, unit.size()) != 0) {
      continue;
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(number, u.bytes, &bytes)) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

std::string format_float(long double number) {
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, longest_float> text{};
  const int written = std::snprintf(text.data(), text.size(), "%.*Lf", float_digits, number);
  if (written <= 0 || static_cast<std::size_t>(written) >= text.size()) return {};
  std::string_view digits(text.data(), static_cast<std::size_t>(written));
  if (digits.find('.') != std::string_view::npos) {
    while (digits.ends_with('0')) digits.remove_suffix(1);
    if (digits.ends_with('.')) digits.remove_suffix(1);
  }
  return digits == "-0" ? std::string("0") : std::string(digits);
}

std::string format_double(double number) {
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> text{};
  const int written = std::snprintf(text.data(), text.size(), "%.17g", number);
  return {text.data(), static_cast<std::size_t>(written)};
}

}  // namespace kv
