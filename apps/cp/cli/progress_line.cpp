#include "progress_line.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <vector>

namespace copy {
namespace {

constexpr std::size_t smallest_bar = 10;  // columns, without its ends
constexpr std::size_t largest_bar = 40;

std::string share_of(const progress_figures& f, const char* form) {
  if (f.found <= 0) return "";
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), form, 100 * std::min(1.0, f.done / f.found));
  return text.data();
}

// Returns a negative number if the remaining time is unknown.
double seconds_left(const progress_figures& f) {
  const bool known = f.rate > 0 && f.found > f.done && f.all_found;
  return known ? (f.found - f.done) / f.rate : -1;
}

std::string left_of(const progress_figures& f) {
  const double s = seconds_left(f);
  return s < 0 ? "" : in_time(s) + " left";
}

std::string sizes_of(const progress_figures& f) {
  return in_bytes(f.done) + (f.all_found ? " of " : " of at least ") + in_bytes(f.found);
}

std::string files_of(const progress_figures& f) {
  return std::to_string(f.files_done) + "/" + std::to_string(f.files_found) + " files";
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

// Fits in five columns: "59s", "59:59", "23h59", "999d".
std::string in_short_time(double s) {
  constexpr double hour = 3600;
  if (s < hour) return without_spaces(in_time(s));
  std::array<char, 24> text{};
  const auto minutes = static_cast<unsigned long long>(s / 60);
  const unsigned long long hours = minutes / 60;
  if (hours < 24) std::snprintf(text.data(), text.size(), "%lluh%02llu", hours, minutes % 60);
  if (hours >= 24) std::snprintf(text.data(), text.size(), "%llud", hours / 24);
  if (hours / 24 > 999) return ">999d";
  return text.data();
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!all.empty()) all += between;
    all += part;
  }
  return all;
}

std::string bar_of(const progress_figures& f, std::size_t width) {
  const double share = f.found > 0 ? std::min(1.0, f.done / f.found) : 0;
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  std::string bar(full, '=');
  if (full < width) bar += '>';
  bar.resize(width, ' ');
  return '[' + bar + ']';
}

// Joins as many of the parts, from the first on, as fit.
std::string shortest(const progress_figures& f, std::size_t width) {
  const double s = seconds_left(f);
  const std::string parts[] = {share_of(f, "%.0f%%"), without_spaces(in_bytes(f.rate)) + "/s",
                               s < 0 ? "" : in_short_time(s)};
  std::string line;
  for (const std::string& part : parts) {
    const std::string longer = joined({line, part}, " ");
    if (longer.size() > width) break;
    line = longer;
  }
  return line;
}

}  // namespace

std::string in_bytes(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes,
                units[unit]);
  return text.data();
}

std::string in_time(double s) {
  std::array<char, 32> text{};
  const auto whole = static_cast<unsigned long long>(s);
  const unsigned long long minutes = whole / 60;
  if (s < 60) {
    std::snprintf(text.data(), text.size(), "%llu s", whole);
  } else if (s < 3600) {
    std::snprintf(text.data(), text.size(), "%llu:%02llu", minutes, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%llu:%02llu:%02llu", minutes / 60, minutes % 60,
                  whole % 60);
  }
  return text.data();
}

std::string progress_text(const progress_figures& f) {
  const std::string figures =
      joined({sizes_of(f), in_bytes(f.rate) + "/s", left_of(f), files_of(f)}, ", ");
  return joined({share_of(f, "%3.0f %%"), figures}, "  ");
}

std::string progress_line(const progress_figures& f, std::size_t width) {
  const std::string share = share_of(f, "%3.0f %%");
  const std::string rate = in_bytes(f.rate) + "/s";
  const std::string left = left_of(f);
  const std::vector<std::string> by_length[] = {
      {sizes_of(f), rate, left, files_of(f)}, {sizes_of(f), rate, left}, {rate, left}};
  for (const std::vector<std::string>& parts : by_length) {
    const std::string figures = joined(parts, ", ");
    const std::string line = joined({share, figures}, "  ");
    if (line.size() > width) continue;
    constexpr std::size_t around = 4;  // the ends of the bar, and the space around it
    const std::size_t room = width - line.size();
    if (share.empty() || room < smallest_bar + around) return line;
    const std::string bar = bar_of(f, std::min(room - around, largest_bar));
    return joined({share, bar, figures}, "  ");
  }
  return shortest(f, width);
}

}  // namespace copy
