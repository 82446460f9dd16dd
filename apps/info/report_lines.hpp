// Collects the lines of the report of RDMA devices, in the layout of ibv_devinfo.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace info {

// A flag, or several flags, with a name.
struct bit_name {
  template <class E>
  constexpr bit_name(E flags, const char* of_them) noexcept
      : bit(static_cast<std::uint64_t>(flags)), name(of_them) {}
  std::uint64_t bit;
  const char* name;
};

struct value_name {
  template <class E>
  constexpr value_name(E number, const char* of_it) noexcept
      : value(static_cast<int>(number)), name(of_it) {}
  int value;
  const char* name;
};

// "name (7)"; "otherwise (7)" if the value has no name.
template <class E>
[[nodiscard]] std::string named(E value, std::span<const value_name> names, const char* otherwise) {
  const int number = static_cast<int>(value);
  const auto at = std::ranges::find(names, number, &value_name::value);
  return (at != names.end() ? at->name : otherwise) + std::string(" (") + std::to_string(number) +
         ")";
}
[[nodiscard]] std::string hex(std::uint64_t value, int digits = 1);
[[nodiscard]] std::string upper_hex(std::uint64_t value);

// Bound to one thread. `depth` is in tabs.
class report_lines {
 public:
  // Formats like printf.
  [[gnu::format(printf, 3, 4)]] void line(int depth, const char* format, ...);
  // "name:<tabs>value". The values are in the column of `ibv_devinfo -v`: one column for ports,
  // another for the rest.
  void field(int depth, std::string_view name, const std::string& value);
  // With the values in this column.
  void field_at(std::size_t column, int depth, std::string_view name, const std::string& value);
  void number(int depth, std::string_view name, std::int64_t value);
  // One line for each of `bits` that has a name, and one line for all without a name.
  template <class E>
  void flags(E bits, std::span<const bit_name> names) {
    list(static_cast<std::uint64_t>(bits), names);
  }
  void append(const std::string& lines) { all_ += lines; }
  [[nodiscard]] std::string take() noexcept { return std::move(all_); }

 private:
  void list(std::uint64_t bits, std::span<const bit_name> names);
  std::string all_;
};

}  // namespace info
