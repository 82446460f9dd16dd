// Many fields of a hash: HGETALL, HSCAN, HRANDFIELD.
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

using field_map = hash_value::map;
using field = field_map::value_type;

constexpr std::size_t small_hash = 128;   // given by HSCAN as a whole
constexpr std::size_t most_windows = 64;  // a scan of a larger one goes through it at most so often
constexpr std::int64_t usual_count = 10;
constexpr std::int64_t most_repeated = std::int64_t{1}
                                       << 24;  // fields that may come several times in one reply

void hgetall(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  if (!*f) return c.out.map(0);
  c.out.map(f->fields->fields().size());
  for (const auto& [name, value] : f->fields->fields()) {
    c.out.bulk(name);
    c.out.bulk(value);
  }
}

void hkeys(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  c.out.array(*f ? f->fields->fields().size() : 0);
  if (!*f) return;
  for (const auto& [name, value] : f->fields->fields()) c.out.bulk(name);
}

void hvals(call& c) {
  const auto f = hash_at(c, c.key);
  if (!f) return;
  c.out.array(*f ? f->fields->fields().size() : 0);
  if (!*f) return;
  for (const auto& [name, value] : f->fields->fields()) c.out.bulk(value);
}

struct hscan_how {
  std::int64_t count = usual_count;
  std::optional<std::string_view> pattern;
};

// No value: it was answered.
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

// Where a field stands among all there can be: the same whatever else comes and goes. Never 0.
std::uint64_t standing(std::string_view name, std::uint64_t seed) noexcept {
  return hash_key(name, seed).hash | 1;
}

void hscan(call& c) {
  const std::optional<std::uint64_t> given_cursor = cursor_arg(c, 2);
  if (!given_cursor) return;
  const std::uint64_t cursor = *given_cursor;
  const auto f = hash_at(c, c.key);
  if (!f) return;
  if (!*f) {
    c.out.array(2);
    c.out.bulk("0");
    return c.out.array(0);
  }
  const std::optional<hscan_how> how = hscan_options(c);
  if (!how) return;
  const field_map& all = f->fields->fields();
  // From the cursor on, the part of all standings that holds about as many fields as are asked for.
  constexpr std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t until = last;
  if (all.size() > small_hash) {
    const std::size_t wanted =
        std::max(static_cast<std::size_t>(how->count), all.size() / most_windows);
    const std::uint64_t width = wanted >= all.size() ? last : last / all.size() * wanted;
    until = width > last - cursor ? last : cursor + width;
  }
  std::vector<const field*> given;
  for (const field& one : all) {
    const std::uint64_t at = standing(one.first, c.of.keys().hash_seed());
    if (at < cursor || (until != last && at >= until)) continue;
    if (!how->pattern || matches_glob(*how->pattern, one.first)) given.push_back(&one);
  }
  c.out.array(2);
  c.out.bulk(until == last ? "0" : std::to_string(until));
  c.out.array(given.size() * 2);
  for (const field* one : given) {
    c.out.bulk(one->first);
    c.out.bulk(one->second);
  }
}

// Each as likely as any other: a place in a bucket, until there is something at it.
const field& any_field(const field_map& all, std::mt19937_64& dice) {
  constexpr std::size_t few = 8;              // fields among many buckets
  constexpr std::size_t deepest = 8;          // longer chains are as good as never there
  constexpr std::size_t most_tries = 10'000;  // of which a hundred or so do it: hash_value shrinks
  for (std::size_t i = 0; i < most_tries && all.size() > few; ++i) {
    const std::size_t bucket = dice() % all.bucket_count();
    std::size_t place = dice() % deepest;
    for (auto at = all.begin(bucket); at != all.end(bucket); ++at) {
      if (place-- == 0) return *at;
    }
  }
  auto at = all.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(dice() % all.size()));
  return *at;
}

// So many different ones, or all.
std::vector<const field*> different_fields(const field_map& all, std::size_t count,
                                           std::mt19937_64& dice) {
  std::vector<const field*> given;
  if (count * 3 < all.size()) {
    std::unordered_set<const field*> taken;
    while (given.size() < count) {
      const field* const one = &any_field(all, dice);
      if (taken.insert(one).second) given.push_back(one);
    }
    return given;
  }
  for (const field& one : all) given.push_back(&one);
  std::ranges::shuffle(given, dice);
  given.resize(std::min(count, given.size()));
  return given;
}

void give(call& c, const field& one, bool with_value) {
  if (with_value && c.out.is_resp3()) c.out.array(2);
  c.out.bulk(one.first);
  if (with_value) c.out.bulk(one.second);
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
  const field_map& all = f->fields->fields();
  std::mt19937_64 dice(std::random_device{}());
  if (c.count() == 2) return c.out.bulk(any_field(all, dice).first);
  const bool pairs_flat = with_values && !c.out.is_resp3();
  if (count < 0) {
    // The same ones may come again.
    if (count < -most_repeated) return c.out.error("ERR value is out of range");
    const auto times = static_cast<std::uint64_t>(-count);
    c.out.array(times * (pairs_flat ? 2 : 1));
    for (std::uint64_t i = 0; i < times; ++i) give(c, any_field(all, dice), with_values);
    return;
  }
  const std::vector<const field*> given =
      different_fields(all, static_cast<std::size_t>(count), dice);
  c.out.array(given.size() * (pairs_flat ? 2 : 1));
  for (const field* one : given) give(c, *one, with_values);
}

constexpr auto hash_walk_table = std::to_array<command>({
    {.name = "hgetall",
     .run = hgetall,
     .arity = 2,
     .flags = flag_readonly,
     .categories = in_hash,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .group = "hash",
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the fields and values in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hkeys",
     .run = hkeys,
     .arity = 2,
     .flags = flag_readonly,
     .categories = in_hash,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .group = "hash",
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the fields in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hvals",
     .run = hvals,
     .arity = 2,
     .flags = flag_readonly,
     .categories = in_hash,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .group = "hash",
     .since = "2.0.0",
     .complexity = "O(N) where N is the size of the hash.",
     .summary = "Get all the values in a hash",
     .tips = "nondeterministic_output_order"},
    {.name = "hscan",
     .run = hscan,
     .arity = -3,
     .flags = flag_readonly,
     .categories = in_hash,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .group = "hash",
     .since = "2.8.0",
     .summary = "Incrementally iterate hash fields and associated values",
     .tips = "nondeterministic_output"},
    {.name = "hrandfield",
     .run = hrandfield,
     .arity = -2,
     .flags = flag_readonly,
     .categories = in_hash,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .group = "hash",
     .since = "6.2.0",
     .complexity = "O(N) where N is the number of fields returned",
     .summary = "Get one or multiple random fields from a hash",
     .tips = "nondeterministic_output"},
});

}  // namespace

std::span<const command> hash_walk_commands() noexcept { return hash_walk_table; }

}  // namespace kv
