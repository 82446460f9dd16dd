#include "report_lines.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace info {
namespace {

constexpr int depth_of_flags = 5;

}  // namespace

std::string hex(std::uint64_t value, int digits) {
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "0x%0*llx", digits,
                static_cast<unsigned long long>(value));
  return room.data();
}

std::string upper_hex(std::uint64_t value) {
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "0x%llX", static_cast<unsigned long long>(value));
  return room.data();
}

void report_lines::line(int depth, const char* format, ...) {
  std::array<char, 512> room{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(room.data(), room.size(), format, arguments);
  va_end(arguments);
  all_.append(static_cast<std::size_t>(depth), '\t').append(room.data()).append("\n");
}

void report_lines::field(int depth, std::string_view name, const std::string& value) {
  constexpr int depth_of_ports = 3;
  field_at(depth == depth_of_ports ? 24 : 32, depth, name, value);
}

void report_lines::field_at(std::size_t column, int depth, std::string_view name,
                            const std::string& value) {
  std::string head = std::string(name) + ":";
  std::size_t at = head.size();
  do {
    head += '\t';
    at = (at / 8 + 1) * 8;
  } while (at < column);
  line(depth, "%s%s", head.c_str(), value.c_str());
}

void report_lines::number(int depth, std::string_view name, std::int64_t value) {
  field(depth, name, std::to_string(value));
}

void report_lines::list(std::uint64_t bits, std::span<const bit_name> names) {
  for (const bit_name& n : names) {
    if ((bits & n.bit) != 0) line(depth_of_flags, "%s", n.name);
    bits &= ~n.bit;
  }
  if (bits != 0) line(depth_of_flags, "Unknown flags: %s", upper_hex(bits).c_str());
}

}  // namespace info
