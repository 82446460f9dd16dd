// Commands on many fields of a hash: HGETALL, HSCAN, HRANDFIELD.
#include "handling.hpp"

#include "../resp/glob.hpp"
#include "../resp/number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <random>
#include <unordered_set>

namespace kv {
namespace {

using entry = hash_value::entry;

constexpr std::int64_t usual_count = 10;
constexpr std::int64_t most_repeated = std::int64_t{1}
                                       << 24;  // fields of one reply with repetitions

void hgetall(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  if (!*f) return c.out.map(0);
  c.out.map(f->fields->size());
  f->fields->for_each([&c](const entry& e) {
    c.out.bulk(e.field);
    c.out.bulk(e.value);
  });
}

void hkeys(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  c.out.array(*f ? f->fields->size() : 0);
  if (*f) f->fields->for_each([&c](const entry& e) { c.out.bulk(e.field); });
}

void hvals(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  c.out.array(*f ? f->fields->size() : 0);
  if (*f) f->fields->for_each([&c](const entry& e) { c.out.bulk(e.value); });
}

struct hscan_how {
  std::int64_t count = usual_count;
  std::optional<std::string_view> pattern;
};

// Returns no value after an error reply.
std::optional<hscan_how> hscan_options(call& c) {
  hscan_how how;
  for (std::size_t i = 3; i < c.count(); i += 2) {
    if (i + 1 < c.count() && is_word(c.arg(i), "count")) {
      const auto n = integer_arg(c, i + 1);
      if (!n) return std::nullopt;
      how.count = *n;
    } else if (i + 1 < c.count() && is_word(c.arg(i), "match")) {
      how.pattern = c.arg(i + 1);
    } else {
      how.count = 0;
    }
    if (how.count < 1) {
      c.out.error(syntax_error);
      return std::nullopt;
    }
  }
  return how;
}

void hscan(call& c) {
  const std::optional<std::uint64_t> cursor = cursor_arg(c, 2);
  if (!cursor) return;
  const auto f = hash_at(c, c.key);
  if (!f) return;
  if (!*f) {
    c.out.array(2);
    c.out.bulk("0");
    return c.out.array(0);
  }
  const std::optional<hscan_how> how = hscan_options(c);
  if (!how) return;
  std::vector<entry> given;
  const std::uint64_t next =
      f->fields->scan(*cursor, static_cast<std::size_t>(how->count), [&](const entry& e) {
        if (!how->pattern || matches_glob(*how->pattern, e.field)) given.push_back(e);
      });
  c.out.array(2);
  c.out.bulk(std::to_string(next));
  c.out.array(given.size() * 2);
  for (const entry& e : given) {
    c.out.bulk(e.field);
    c.out.bulk(e.value);
  }
}

entry any_field(const hash_value& all, std::mt19937_64& dice) {
  for (;;) {
    const std::optional<entry> e = all.at_random(dice());
    if (e) return *e;
  }
}

// Returns `count` distinct fields, or all.
std::vector<entry> different_fields(const hash_value& all, std::size_t count,
                                    std::mt19937_64& dice) {
  std::vector<entry> given;
  if (count < all.size() / 3) {
    std::unordered_set<const char*> taken;
    while (given.size() < count) {
      const entry e = any_field(all, dice);
      if (taken.insert(e.value.data()).second) given.push_back(e);
    }
    return given;
  }
  all.for_each([&given](const entry& e) { given.push_back(e); });
  std::ranges::shuffle(given, dice);
  given.resize(std::min(count, given.size()));
  return given;
}

void give(call& c, const entry& one, bool with_value) {
  if (with_value && c.out.is_resp3()) c.out.array(2);
  c.out.bulk(one.field);
  if (with_value) c.out.bulk(one.value);
}

void hrandfield(call& c) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t count = 1;
  if (c.count() > 2) {
    const auto n = integer_arg(c, 2);
    if (!n) return;
    if (*n == std::numeric_limits<std::int64_t>::min()) {
      return c.out.error(
          "ERR value is out of range, value must between -9223372036854775807 and "
          "9223372036854775807");
    }
    count = *n;
  }
  const bool with_values = c.count() == 4 && is_word(c.arg(3), "withvalues");
  if (c.count() > 4 || (c.count() == 4 && !with_values)) return c.out.error(syntax_error);
  if (with_values && (count < -most || count > most))
    return c.out.error("ERR value is out of range");
  const auto f = hash_at(c, c.key);
  if (!f) return;
  if (!*f) return c.count() == 2 ? c.out.null() : c.out.array(0);
  const hash_value& all = *f->fields;
  std::mt19937_64 dice(std::random_device{}());
  if (c.count() == 2) return c.out.bulk(any_field(all, dice).field);
  const bool pairs_flat = with_values && !c.out.is_resp3();
  if (count < 0) {
    // Fields may repeat.
    if (count < -most_repeated) return c.out.error("ERR value is out of range");
    const auto times = static_cast<std::uint64_t>(-count);
    c.out.array(times * (pairs_flat ? 2 : 1));
    for (std::uint64_t i = 0; i < times; ++i) give(c, any_field(all, dice), with_values);
    return;
  }
  const std::vector<entry> given = different_fields(all, static_cast<std::size_t>(count), dice);
  c.out.array(given.size() * (pairs_flat ? 2 : 1));
  for (const entry& one : given) give(c, one, with_values);
}

constexpr auto hash_walk_table = std::to_array<command>({
    {.name = "hgetall",
     .run = hgetall,
     .arity = 2,
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the fields and values in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hkeys",
     .run = hkeys,
     .arity = 2,
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the fields in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hvals",
     .run = hvals,
     .arity = 2,
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the values in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hscan",
     .run = hscan,
     .arity = -3,
     .since = "2.8.0",
     .complexity = "O(1) for every call. O(N) for a complete iteration",
     .summary = "Incrementally iterate hash fields and associated values",
     .tips = "nondeterministic_output"},
    {.name = "hrandfield",
     .run = hrandfield,
     .arity = -2,
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of fields returned",
     .summary = "Get one or multiple random fields from a hash",
     .tips = "nondeterministic_output"},
});

}  // namespace

command_group hash_walk_commands() noexcept {
  return {.commands = hash_walk_table,
          .name = "hash",
          .since = "2.0.0",
          .flags = flag_readonly,
          .categories = in_hash,
          .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access}};
}

}  // namespace kv
