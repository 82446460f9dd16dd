// Lines of the report of RDMA devices as they are gathered, laid out as ibv_devinfo does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace cordma::transport::verbs {

struct bit_name {
  std::uint64_t bit;
  const char* name;
};

struct value_name {
  int value;
  const char* name;
};

// "name (7)"; of a value that has no name "otherwise (7)".
[[nodiscard]] std::string named(int value, std::span<const value_name> names,
                                const char* otherwise);
[[nodiscard]] std::string hex(std::uint64_t value, int digits = 1);
[[nodiscard]] std::string upper_hex(std::uint64_t value);

// For one thread. Depth is in tabs.
class report_lines {
 public:
  // As printf writes it.
  [[gnu::format(printf, 3, 4)]] void line(int depth, const char* format, ...);
  // "name:<tabs>value", the values in the column of `ibv_devinfo -v`: one for what a port has, one for all else.
  void field(int depth, const char* name, const std::string& value);
  // The values in this column.
  void field_at(std::size_t column, int depth, const char* name, const std::string& value);
  void number(int depth, const char* name, std::int64_t value);
  // A line for each of `bits` that has a name, and one for those that have none.
  void flags(std::uint64_t bits, std::span<const bit_name> names);
  void append(const std::string& lines) { all_ += lines; }
  [[nodiscard]] std::string take() noexcept { return std::move(all_); }

 private:
  std::string all_;
};

}  // namespace cordma::transport::verbs
