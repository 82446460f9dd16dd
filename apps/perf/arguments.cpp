#include "arguments.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

namespace perf {
namespace {

template <class T>
std::optional<T> parse_all(std::string_view text) noexcept {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Edit distance of two words: the number of letters to change, add or remove.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t k = 0; k <= b.size(); ++k) row[k] = k;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t k = 1; k <= b.size(); ++k) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[k - 1] ? 0 : 1);
      diagonal = row[k];
      row[k] = std::min({row[k] + 1, row[k - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest_option(const std::string& word, const CLI::App& app) {
  constexpr std::size_t far = 3;
  std::string best;
  std::size_t least = far;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& name : o->get_lnames()) {
      const std::size_t d = distance(word, "--" + name);
      if (d < least) {
        least = d;
        best = "--" + name;
      }
    }
  }
  return best;
}

}  // namespace

std::optional<std::uint64_t> bytes_from(const std::string& text) noexcept {
  std::string_view digits = text;
  std::uint64_t base = 1024;
  if (digits.ends_with('B')) {
    base = 1000;
    digits.remove_suffix(1);
  }
  const std::size_t unit =
      digits.empty() ? std::string_view::npos : std::string_view("KMG").find(digits.back());
  if (unit != std::string_view::npos) {
    digits.remove_suffix(1);
  } else if (base == 1000) {
    return std::nullopt;
  }
  auto value = parse_all<std::uint64_t>(digits);
  if (!value || unit == std::string_view::npos) return value;
  for (std::size_t i = 0; i <= unit; ++i) {
    if (*value > ~std::uint64_t{0} / base) return std::nullopt;
    *value *= base;
  }
  return value;
}

std::optional<double> rate_from(const std::string& text) noexcept {
  std::string_view digits = text;
  double factor = 1;
  if (digits.ends_with('K')) factor = 1e3;
  if (digits.ends_with('M')) factor = 1e6;
  if (factor > 1) digits.remove_suffix(1);
  const auto value = parse_all<double>(digits);
  if (!value || !(*value > 0)) return std::nullopt;
  return *value * factor;
}

std::uint64_t number_from(const std::string& option, const std::string& text, std::uint64_t least,
                          std::uint64_t most) {
  const auto value = parse_all<std::uint64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw usage_error(option, text,
                    "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

double seconds_from(const std::string& option, const std::string& text, double least, double most) {
  const auto value = parse_all<double>(text);
  if (value && *value >= least && *value <= most) return *value;
  throw usage_error(option, text, "seconds from " + plain(least) + " to " + plain(most));
}

std::string sentence(const CLI::ParseError& e, const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&e) == nullptr || rest.empty()) {
    return std::string(e.what()) + "; --help lists all options";
  }
  const std::string word = rest.front().substr(0, rest.front().find('='));
  if (!word.starts_with("-")) return "'" + word + "' was not expected; --help lists all options";
  const std::string meant = nearest_option(word, app);
  return "unknown option " + word + (meant.empty() ? "" : ", did you mean " + meant + "?") +
         (meant.empty() ? "; " : " ") + "--help lists all options";
}

}  // namespace perf
