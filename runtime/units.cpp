#include <cordma/runtime/units.hpp>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

namespace cordma {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

// The largest first: formatting uses the first unit that divides the value.
constexpr std::array<unit, 5> sizes{
    {{"T", 1ULL << 40}, {"G", 1ULL << 30}, {"M", 1ULL << 20}, {"k", 1ULL << 10}, {"", 1}}};
constexpr std::array<unit, 6> times{{{"h", 3'600'000'000'000ULL},
                                     {"min", 60'000'000'000ULL},
                                     {"s", 1'000'000'000ULL},
                                     {"ms", 1'000'000ULL},
                                     {"us", 1'000ULL},
                                     {"ns", 1}}};

struct quantity {
  std::uint64_t number;
  std::string_view unit;
};

std::optional<quantity> split(std::string_view text) {
  quantity q{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), q.number);
  if (error != std::errc()) return std::nullopt;
  q.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!q.unit.empty() && q.unit.front() == ' ') q.unit.remove_prefix(1);
  return q;
}

std::optional<std::uint64_t> times_factor(std::uint64_t n, std::uint64_t factor,
                                          std::uint64_t most) {
  if (n > most / factor) return std::nullopt;
  return n * factor;
}

failure bad(std::string_view text, const char* what) {
  return {errc::invalid_value, "\"" + std::string(text) + "\" " + what};
}

constexpr const char* no_size =
    "is no size: use a number of bytes, or one with k, M, G or T (powers of 1024), such as 64k";
constexpr const char* no_time =
    "is no time: use a number with ns, us, ms, s, min or h, such as 10us";

}  // namespace

result<std::uint64_t> parse_size(std::string_view text) {
  const std::optional<quantity> q = split(text);
  if (!q) return bad(text, no_size);
  std::string_view rest = q->unit;
  std::uint64_t factor = 1;
  bool binary = false;  // a factor was named, so that "iB" may follow
  for (const unit& u : sizes) {
    if (rest.empty() || u.name.empty()) continue;
    if (std::tolower(rest.front()) != std::tolower(u.name.front())) continue;
    factor = u.factor;
    binary = true;
    rest.remove_prefix(1);
    break;
  }
  if (!(rest.empty() || rest == "B" || (binary && rest == "iB"))) return bad(text, no_size);
  const auto bytes = times_factor(q->number, factor, std::numeric_limits<std::uint64_t>::max());
  if (!bytes) return bad(text, "is larger than any memory");
  return *bytes;
}

result<duration> parse_duration(std::string_view text) {
  const std::optional<quantity> q = split(text);
  if (!q) return bad(text, no_time);
  if (q->number == 0 && q->unit.empty()) return duration::zero();
  for (const unit& u : times) {
    if (q->unit != u.name) continue;
    const auto ns =
        times_factor(q->number, u.factor, static_cast<std::uint64_t>(duration::max().count()));
    if (!ns) return bad(text, "is longer than 292 years");
    return duration(static_cast<duration::rep>(*ns));
  }
  return bad(text, no_time);
}

std::string format_size(std::uint64_t bytes) {
  for (const unit& u : sizes) {
    if (bytes != 0 && bytes % u.factor == 0) {
      return std::to_string(bytes / u.factor).append(u.name);
    }
  }
  return "0";
}

std::string format_duration(duration time) {
  const auto ns = static_cast<std::uint64_t>(time.count());
  for (const unit& u : times) {
    if (ns != 0 && ns % u.factor == 0) return std::to_string(ns / u.factor).append(u.name);
  }
  return "0";
}

}  // namespace cordma
