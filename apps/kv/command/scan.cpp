// Iteration over all keys: SCAN and KEYS.
#include "databases.hpp"
#include "handling.hpp"

#include "../resp/glob.hpp"
#include "../resp/number.hpp"

#include <array>
#include <charconv>

namespace kv {
namespace {

constexpr std::int64_t usual_count = 10;
constexpr std::int64_t most_count = std::int64_t{1} << 40;

struct scan_how {
  std::int64_t count = usual_count;
  std::optional<std::string_view> pattern;
  std::optional<std::string_view> type;

  [[nodiscard]] bool wants(const found& f, std::string_view name) const noexcept {
    if (type && !is_word(*type, f.is_string() ? "string" : "hash")) return false;
    return !pattern || *pattern == "*" || matches_glob(*pattern, name);
  }
};

// Returns no value after an error reply.
std::optional<scan_how> scan_options(call& c) {
  scan_how how;
  for (std::size_t i = 2; i < c.count(); i += 2) {
    if (i + 1 >= c.count()) {
      c.out.error(syntax_error);
      return std::nullopt;
    }
    if (is_word(c.arg(i), "count")) {
      const auto n = integer_arg(c, i + 1);
      if (!n) return std::nullopt;
      how.count = *n;
    } else if (is_word(c.arg(i), "match")) {
      how.pattern = c.arg(i + 1);
    } else if (is_word(c.arg(i), "type")) {
      how.type = c.arg(i + 1);
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

void scan(call& c) {
  std::optional<std::uint64_t> cursor = cursor_arg(c, 1);
  if (!cursor) return;
  const std::optional<scan_how> how = scan_options(c);
  if (!how) return;
  std::vector<std::string_view> given;
  std::int64_t seen = 0;
  // As Redis: visits this number of keys, matching or not, in at most ten times as many buckets.
  std::int64_t buckets = how->count > most_count ? most_count * 10 : how->count * 10;
  bool more = c.of.keys().size_of(c.who.database) != 0;
  if (!more) cursor = 0;
  while (more) {
    cursor = c.of.keys().scan(*cursor, [&](const found& f) {
      ++seen;
      const key_place at = place_of_key(f.at->key());
      if (at.database == c.who.database && how->wants(f, at.name)) given.push_back(at.name);
    });
    more = *cursor != 0 && seen < how->count && --buckets > 0;
  }
  c.out.array(2);
  std::array<char, 24> digits{};
  char* const stop = std::to_chars(digits.data(), digits.data() + digits.size(), *cursor).ptr;
  c.out.bulk({digits.data(), static_cast<std::size_t>(stop - digits.data())});
  c.out.array(given.size());
  for (const std::string_view key : given) c.out.bulk(key);
}

void all_keys(call& c) {
  const std::string_view pattern = c.arg(1);
  std::vector<std::string_view> given;
  each_key(c.of.keys(), c.who.database, store::scanned::living,
           [&](const found&, std::string_view name) {
             if (pattern == "*" || matches_glob(pattern, name)) given.push_back(name);
           });
  c.out.array(given.size());
  for (const std::string_view key : given) c.out.bulk(key);
}

constexpr auto scan_table = std::to_array<command>({
    {.name = "scan",
     .run = scan,
     .arity = -2,
     .since = "2.8.0",
     .complexity = {},
     .summary = "Incrementally iterate the keys space",
     .tips = "nondeterministic_output request_policy:special"},
    {.name = "keys",
     .run = all_keys,
     .arity = 2,
     .categories = in_dangerous,
     .since = "1.0.0",
     .complexity = {},
     .summary = "Find all keys matching the given pattern",
     .tips = "request_policy:all_shards nondeterministic_output_order"},
});

}  // namespace

command_group scan_commands() noexcept {
  return {.commands = scan_table,
          .name = "generic",
          .flags = flag_readonly,
          .categories = in_keyspace,
          .shards = reach::all};
}

}  // namespace kv
