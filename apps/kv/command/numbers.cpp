// Strings that hold numbers: INCR and related commands.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace kv {
namespace {

void add(call& c, std::int64_t by) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  std::int64_t before = 0;
  if (*f) {
    const auto n = parse_integer(f->value);
    if (!n) return c.out.error(not_an_integer);
    before = *n;
  }
  std::int64_t after = 0;
  if (__builtin_add_overflow(before, by, &after)) {
    return c.out.error("ERR increment or decrement would overflow");
  }
  if (!fits(c, c.arg(1), 0)) return;
  std::array<char, 24> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), after).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  const unix_ms expiry = *f ? f->at->expiry() : never_expires;
  if (put(c, c.key, text, expiry, c.out.mark())) c.out.integer(after);
}

void incr(call& c) { add(c, 1); }
void decr(call& c) { add(c, -1); }
void incrby(call& c) {
  const auto by = integer_arg(c, 2);
  if (by) add(c, *by);
}
void decrby(call& c) {
  const auto by = integer_arg(c, 2);
  if (!by) return;
  if (*by == std::numeric_limits<std::int64_t>::min()) {
    return c.out.error("ERR decrement would overflow");
  }
  add(c, -*by);
}

void incrbyfloat(call& c) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  const auto before = *f ? parse_float(f->value) : std::optional<long double>(0);
  const auto by = before ? parse_float(c.arg(2)) : std::nullopt;
  if (!by) return c.out.error(not_a_float);
  const long double after = *before + *by;
  if (std::isnan(after) || std::isinf(after)) {
    return c.out.error("ERR increment would produce NaN or Infinity");
  }
  if (!fits(c, c.arg(1), 0)) return;
  const std::string text = format_float(after);
  const unix_ms expiry = *f ? f->at->expiry() : never_expires;
  if (put(c, c.key, text, expiry, c.out.mark())) c.out.bulk(text);
}

constexpr auto numbers_table = std::to_array<command>({
    {.name = "incr",
     .run = incr,
     .arity = 2,
     .summary = "Increment the integer value of a key by one"},
    {.name = "decr",
     .run = decr,
     .arity = 2,
     .summary = "Decrement the integer value of a key by one"},
    {.name = "incrby",
     .run = incrby,
     .arity = 3,
     .summary = "Increment the integer value of a key by the given amount"},
    {.name = "decrby",
     .run = decrby,
     .arity = 3,
     .summary = "Decrement the integer value of a key by the given number"},
    {.name = "incrbyfloat",
     .run = incrbyfloat,
     .arity = 3,
     .since = "2.6.0",
     .summary = "Increment the float value of a key by the given amount"},
});

}  // namespace

command_group number_commands() noexcept {
  return {.commands = numbers_table,
          .name = "string",
          .since = "1.0.0",
          .flags = flag_write | flag_denyoom | flag_fast,
          .categories = in_string,
          .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update}};
}

}  // namespace kv
