// Hashes: fields and their values under one key.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace kv {
namespace {

// Returns false after an error reply.
bool put_field(call& c, std::string_view field, std::string_view value, bool& is_new) {
  if (store_of(c, c.key).field_put(c.key, field, value, &is_new) == put_outcome::done) return true;
  c.out.error(out_of_memory);
  return false;
}

// Makes room before the hash is looked up, because that may evict the hash itself. Returns false
// after an error reply.
bool has_room(call& c, std::size_t bytes) {
  if (store_of(c, c.key).make_room(bytes) == put_outcome::done) return true;
  c.out.error(out_of_memory);
  return false;
}

// Stores fields and values from argument 2 on. Returns no value after an error reply.
std::optional<std::int64_t> put_fields(call& c) {
  if (c.count() % 2 != 0) {
    c.out.error("ERR wrong number of arguments for '" + c.what.full_name + "' command");
    return std::nullopt;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 2; i < c.count(); i += 2) {
    bytes += hash_value::bytes_of(c.arg(i), c.arg(i + 1));
  }
  if (!fits(c, c.arg(1), 0) || !has_room(c, bytes) || !hash_at(c, c.key)) return std::nullopt;
  std::int64_t added = 0;
  for (std::size_t i = 2; i < c.count(); i += 2) {
    bool is_new = false;
    if (!put_field(c, c.arg(i), c.arg(i + 1), is_new)) return std::nullopt;
    added += is_new ? 1 : 0;
  }
  return added;
}

void hset(call& c) {
  const auto added = put_fields(c);
  if (added) c.out.integer(*added);
}

void hmset(call& c) {
  if (put_fields(c)) c.out.ok();
}

void hsetnx(call& c) {
  if (!has_room(c, hash_value::bytes_of(c.arg(2), c.arg(3)))) return;
  const auto f = hash_at(c, c.key);
  if (!f || !fits(c, c.arg(1), 0)) return;
  if (*f && f->fields->contains(c.arg(2))) return c.out.integer(0);
  bool is_new = false;
  if (put_field(c, c.arg(2), c.arg(3), is_new)) c.out.integer(1);
}

void give(call& c, const found& f, std::string_view field) {
  const std::optional<std::string_view> value = f ? f.fields->find(field) : std::nullopt;
  value ? c.out.bulk(*value) : c.out.null();
}

void hget(call& c) {
  const auto f = hash_at(c, c.key);
  if (f) give(c, *f, c.arg(2));
}

void hmget(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  c.out.array(c.count() - 2);
  for (std::size_t i = 2; i < c.count(); ++i) give(c, *f, c.arg(i));
}

void hdel(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  std::int64_t erased = 0;
  for (std::size_t i = 2; *f && i < c.count(); ++i) {
    erased += store_of(c, c.key).field_erase(c.key, c.arg(i)) ? 1 : 0;
  }
  c.out.integer(erased);
}

void hlen(call& c) {
  const auto f = hash_at(c, c.key);
  if (f) c.out.integer(*f ? static_cast<std::int64_t>(f->fields->size()) : 0);
}

void hexists(call& c) {
  const auto f = hash_at(c, c.key);
  if (f) c.out.integer(*f && f->fields->contains(c.arg(2)) ? 1 : 0);
}

void hstrlen(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  const std::optional<std::string_view> value = *f ? f->fields->find(c.arg(2)) : std::nullopt;
  c.out.integer(value ? static_cast<std::int64_t>(value->size()) : 0);
}

void hincrby(call& c) {
  if (!has_room(c, hash_value::bytes_of(c.arg(2), c.arg(3)))) return;
  const auto by = integer_arg(c, 3);
  if (!by) return;
  const auto f = hash_at(c, c.key);
  if (!f || !fits(c, c.arg(1), 0)) return;
  const std::optional<std::string_view> value = *f ? f->fields->find(c.arg(2)) : std::nullopt;
  const auto before = value ? parse_integer(*value) : std::optional<std::int64_t>(0);
  if (!before) return c.out.error("ERR hash value is not an integer");
  std::int64_t after = 0;
  if (__builtin_add_overflow(*before, *by, &after)) {
    return c.out.error("ERR increment or decrement would overflow");
  }
  std::array<char, 24> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), after).ptr;
  bool is_new = false;
  if (put_field(c, c.arg(2), {digits.data(), static_cast<std::size_t>(end - digits.data())},
                is_new)) {
    c.out.integer(after);
  }
}

void hincrbyfloat(call& c) {
  if (!has_room(c, hash_value::bytes_of(c.arg(2), c.arg(3)))) return;
  const auto by = parse_float(c.arg(3));
  if (!by) return c.out.error(not_a_float);
  if (std::isinf(*by)) return c.out.error("ERR value is NaN or Infinity");
  const auto f = hash_at(c, c.key);
  if (!f || !fits(c, c.arg(1), 0)) return;
  const std::optional<std::string_view> value = *f ? f->fields->find(c.arg(2)) : std::nullopt;
  const auto before = value ? parse_float(*value) : std::optional<long double>(0);
  if (!before) return c.out.error("ERR hash value is not a float");
  const long double after = *before + *by;
  if (std::isnan(after) || std::isinf(after)) {
    return c.out.error("ERR increment would produce NaN or Infinity");
  }
  const std::string text = format_float(after);
  bool is_new = false;
  if (put_field(c, c.arg(2), text, is_new)) c.out.bulk(text);
}

constexpr auto hashes_table = std::to_array<command>({
    {.name = "hset",
     .run = hset,
     .arity = -4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_update},
     .complexity = {},
     .summary = "Set the string value of a hash field"},
    {.name = "hmset",
     .run = hmset,
     .arity = -4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_update},
     .complexity = "O(N) where N is the number of fields being set.",
     .summary = "Set multiple hash fields to multiple values"},
    {.name = "hsetnx",
     .run = hsetnx,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_insert},
     .summary = "Set the value of a hash field, only if the field does not exist"},
    {.name = "hget",
     .run = hget,
     .arity = 3,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .summary = "Get the value of a hash field"},
    {.name = "hmget",
     .run = hmget,
     .arity = -3,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .complexity = "O(N) where N is the number of fields being requested.",
     .summary = "Get the values of all the given hash fields"},
    {.name = "hdel",
     .run = hdel,
     .arity = -3,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_delete},
     .complexity = "O(N) where N is the number of fields to be removed.",
     .summary = "Delete one or more hash fields"},
    {.name = "hlen",
     .run = hlen,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .summary = "Get the number of fields in a hash"},
    {.name = "hexists",
     .run = hexists,
     .arity = 3,
     .flags = flag_readonly | flag_fast,
     .summary = "Determine if a hash field exists"},
    {.name = "hstrlen",
     .run = hstrlen,
     .arity = 3,
     .flags = flag_readonly | flag_fast,
     .since = "3.2.0",
     .summary = "Get the length of the value of a hash field"},
    {.name = "hincrby",
     .run = hincrby,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update},
     .summary = "Increment the integer value of a hash field by the given number"},
    {.name = "hincrbyfloat",
     .run = hincrbyfloat,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update},
     .since = "2.6.0",
     .summary = "Increment the float value of a hash field by the given amount"},
});

}  // namespace

command_group hash_commands() noexcept {
  return {.commands = hashes_table,
          .name = "hash",
          .since = "2.0.0",
          .flags = flag_write | flag_denyoom | flag_fast,
          .categories = in_hash,
          .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro}};
}

}  // namespace kv
