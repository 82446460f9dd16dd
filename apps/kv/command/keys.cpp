// Keys, whatever they hold: DEL, EXISTS, RENAME, COPY ...
#include "databases.hpp"
#include "handling.hpp"

#include "../resp/number.hpp"

#include <algorithm>
#include <array>

namespace kv {
namespace {

void erase_all(call& c, freeing when) {
  hashed_keys keys(c);
  std::int64_t erased = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    erased += store_of(c, k).erase(k, when) ? 1 : 0;
  }
  c.out.integer(erased);
}

void del(call& c) { erase_all(c, freeing::at_once); }
void unlink(call& c) { erase_all(c, freeing::later); }

void exists(call& c) {
  hashed_keys keys(c);
  std::int64_t there = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    there += store_of(c, k).contains(k) ? 1 : 0;
  }
  c.out.integer(there);
}

// As exists(), and it is a use of each.
void touch(call& c) {
  hashed_keys keys(c);
  std::int64_t there = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    there += store_of(c, k).find(k) ? 1 : 0;
  }
  c.out.integer(there);
}

void type(call& c) {
  const found f = store_of(c, c.key).peek(c.key);
  c.out.simple(!f ? "none" : f.is_string() ? "string" : "hash");
}

// What `from` holds is `to`'s as well, with its expiry. False: it was answered, and `to` holds what it held.
bool duplicate(call& c, const found& from, const hashed_key& to, at_limit then) {
  store& s = store_of(c, to);
  const unix_ms expiry = from.at->expiry();
  if (from.is_string()) return put(c, to, from.value, expiry, c.out.mark(), then);
  // Making room for the first of them may give up the very hash.
  const hash_value fields = *from.fields;
  if (then == at_limit::refused && s.make_room(fields.bytes()) != put_outcome::done) {
    c.out.error(out_of_memory);
    return false;
  }
  s.erase(to);
  bool done = true;
  fields.for_each([&](const hash_value::entry& e) {
    done = done && s.field_put(to, e.field, e.value) == put_outcome::done;
  });
  if (done && expiry != never_expires) done = s.set_expiry(to, expiry) == put_outcome::done;
  if (done) return true;
  s.erase(to);
  c.out.error(out_of_memory);
  return false;
}

enum class target : std::uint8_t { replaced, kept };

void rename_to(call& c, target there) {
  const hashed_key to = c.of.keys().key(c.arg(2));
  const found from = store_of(c, c.key).find(c.key);
  if (!from) return c.out.error("ERR no such key");
  if (!fits(c, c.arg(2), 0)) return;
  if (c.arg(1) == c.arg(2)) return there == target::kept ? c.out.integer(0) : c.out.ok();
  if (there == target::kept && store_of(c, to).peek(to)) return c.out.integer(0);
  const found again =
      store_of(c, c.key).peek(c.key);  // looking for the other may have changed the store
  if (!duplicate(c, again, to, at_limit::exceeded)) return;
  store_of(c, c.key).erase(c.key);
  there == target::kept ? c.out.integer(1) : c.out.ok();
}

void rename(call& c) { rename_to(c, target::replaced); }
void renamenx(call& c) { rename_to(c, target::kept); }

// No value: it is none, which was answered.
std::optional<unsigned> database_arg(call& c, std::size_t i,
                                     std::string_view otherwise = not_an_integer) {
  const auto n = integer_arg(c, i, otherwise);
  if (!n) return std::nullopt;
  if (*n >= 0 && static_cast<std::uint64_t>(*n) < c.of.current(c.who.origin.worker).databases) {
    return static_cast<unsigned>(*n);
  }
  c.out.error("ERR DB index is out of range");
  return std::nullopt;
}

// Beyond the limit, as both do not stay. False: it was answered.
bool relocate(call& c, const hashed_key& from, const hashed_key& to) {
  const found f = store_of(c, from).peek(from);
  if (!f) return true;
  if (!fits(c, to.text, 0)) return false;
  if (!duplicate(c, f, to, at_limit::exceeded)) return false;
  store_of(c, from).erase(from);
  return true;
}

void move(call& c) {
  const auto database = database_arg(c, 2);
  if (!database) return;
  if (*database == c.who.database) {
    return c.out.error("ERR source and destination objects are the same");
  }
  const std::string name = key_in(*database, place_of_key(c.arg(1)).name);
  const hashed_key to = c.of.keys().key(name);
  if (!fits(c, name, 0)) return;
  if (!store_of(c, c.key).find(c.key) || store_of(c, to).peek(to)) return c.out.integer(0);
  if (relocate(c, c.key, to)) c.out.integer(1);
}

std::vector<std::string> names_in(keyspace& keys, unsigned database) {
  std::vector<std::string> names;
  std::uint64_t cursor = 0;
  do {
    cursor = keys.scan(cursor, [&](const found& f) {
      const key_place at = place_of_key(f.at->key());
      if (at.database == database) names.emplace_back(at.name);
    });
  } while (cursor != 0);
  return names;
}

// False: it was answered.
bool relocate_all(call& c, const std::vector<std::string>& names, unsigned from, unsigned to) {
  for (const std::string& name : names) {
    const std::string before = key_in(from, name);
    const std::string after = key_in(to, name);
    if (!relocate(c, c.of.keys().key(before), c.of.keys().key(after))) return false;
  }
  return true;
}

void swapdb(call& c) {
  const auto one = database_arg(c, 1, "ERR invalid first DB index");
  if (!one) return;
  const auto other = database_arg(c, 2, "ERR invalid second DB index");
  if (!other) return;
  if (*one == *other) return c.out.ok();
  const std::vector<std::string> ones = names_in(c.of.keys(), *one);
  const std::vector<std::string> others = names_in(c.of.keys(), *other);
  constexpr unsigned between = most_databases;  // which no client can select
  constexpr std::size_t longest = max_key_bytes - database_mark.size() - 1;
  const auto is_long = [](const std::string& name) { return name.size() > longest; };
  if (std::ranges::any_of(ones, is_long) || std::ranges::any_of(others, is_long)) {
    return c.out.error(key_too_long);
  }
  if (relocate_all(c, ones, *one, between) && relocate_all(c, others, *other, *one) &&
      relocate_all(c, ones, between, *other)) {
    c.out.ok();
  }
}

void copy(call& c) {
  target there = target::kept;
  for (std::size_t i = 3; i < c.count(); ++i) {
    if (is_word(c.arg(i), "replace")) {
      there = target::replaced;
    } else if (is_word(c.arg(i), "db") && i + 1 < c.count()) {
      if (!database_arg(c, ++i)) return;
    } else {
      return c.out.error(syntax_error);
    }
  }
  if (c.arg(1) == c.arg(2)) {
    return c.out.error("ERR source and destination objects are the same");
  }
  if (!fits(c, c.arg(2), 0)) return;
  const hashed_key to = c.of.keys().key(c.arg(2));
  if (!store_of(c, c.key).find(c.key)) return c.out.integer(0);
  if (there == target::kept && store_of(c, to).peek(to)) return c.out.integer(0);
  if (duplicate(c, store_of(c, c.key).peek(c.key), to, at_limit::refused)) c.out.integer(1);
}

// Null: there is none, or too few to be found by chance.
const item* random_in(store& keys, unsigned database) {
  constexpr int tries = 64;
  for (int i = 0; i < tries && keys.size_of(database) != 0; ++i) {
    const item* const one = keys.random();
    if (one == nullptr || place_of_key(one->key()).database == database) return one;
  }
  return nullptr;
}

void randomkey(call& c) {
  keyspace& keys = c.of.keys();
  const unsigned database = c.who.database;
  std::uint32_t from =
      static_cast<std::uint32_t>(c.of.read_clock().time_since_epoch().count()) % keys.shards();
  for (std::uint32_t i = 0; i < keys.shards(); ++i, from = (from + 1) % keys.shards()) {
    const item* const one = random_in(keys.at(from), database);
    if (one != nullptr) return c.out.bulk(place_of_key(one->key()).name);
  }
  const std::vector<std::string> few = names_in(keys, database);
  few.empty() ? c.out.null() : c.out.bulk(few[from % few.size()]);
}

void dbsize(call& c) {
  std::size_t keys = 0;
  for (std::uint32_t i = 0; i < c.of.keys().shards(); ++i) {
    keys += c.of.keys().at(i).size_of(c.who.database);
  }
  c.out.integer(static_cast<std::int64_t>(keys));
}

// No value: it was answered.
std::optional<freeing> flush_options(call& c) {
  if (c.count() > 2 ||
      (c.count() == 2 && !is_word(c.arg(1), "sync") && !is_word(c.arg(1), "async"))) {
    c.out.error(syntax_error);
    return std::nullopt;
  }
  return c.count() == 2 && is_word(c.arg(1), "async") ? freeing::later : freeing::at_once;
}

void clear_all(call& c, freeing when) {
  for (std::uint32_t i = 0; i < c.of.keys().shards(); ++i) c.of.keys().at(i).clear(when);
}

// As a whole where there is nothing else, else key by key.
void flushdb(call& c) {
  const auto when = flush_options(c);
  if (!when) return;
  keyspace& keys = c.of.keys();
  const unsigned database = c.who.database;
  bool alone = true;
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    alone = alone && keys.at(i).size_of(database) == keys.at(i).size();
  }
  if (alone) {
    clear_all(c, *when);
  } else {
    for (const std::string& name : names_in(keys, database)) {
      const std::string key = key_in(database, name);
      const hashed_key k = keys.key(key);
      keys.of(k).erase(k, *when);
    }
  }
  c.out.ok();
}

void flushall(call& c) {
  const auto when = flush_options(c);
  if (!when) return;
  clear_all(c, *when);
  c.out.ok();
  if (!c.of.hooks.drop_snapshot) return;
  // After a crash the old snapshot would bring back what is gone.
  const hook_answer dropped = c.of.hooks.drop_snapshot();
  if (!dropped.done && c.of.hooks.warn) {
    c.of.hooks.warn(
        "FLUSHALL: the old snapshot is still there, and a start after a crash would load it: " +
        dropped.text);
  }
}

constexpr auto keys_table = std::to_array<command>({
    {.name = "del",
     .run = del,
     .arity = -2,
     .flags = flag_write,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_rm | use_delete},
     .group = "generic",
     .since = "1.0.0",
     .summary = "Delete a key",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "unlink",
     .run = unlink,
     .arity = -2,
     .flags = flag_write | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_rm | use_delete},
     .group = "generic",
     .since = "4.0.0",
     .summary = "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but "
                "non blocking",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "exists",
     .run = exists,
     .arity = -2,
     .flags = flag_readonly | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro},
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of keys to check.",
     .summary = "Determine if a key exists",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "touch",
     .run = touch,
     .arity = -2,
     .flags = flag_readonly | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro},
     .group = "generic",
     .since = "3.2.1",
     .complexity = "O(N) where N is the number of keys that will be touched.",
     .summary =
         "Alters the last access time of a key(s). Returns the number of existing keys specified",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "type",
     .run = type,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro},
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Determine the type stored at key"},
    {.name = "rename",
     .run = rename,
     .arity = 3,
     .flags = flag_write,
     .categories = in_keyspace,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_rw | use_access | use_delete,
              .second_use = use_ow | use_update},
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Rename a key"},
    {.name = "renamenx",
     .run = renamenx,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_rw | use_access | use_delete,
              .second_use = use_ow | use_insert},
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Rename a key, only if the new key does not exist"},
    {.name = "copy",
     .run = copy,
     .arity = -3,
     .flags = flag_write | flag_denyoom,
     .categories = in_keyspace,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_ro | use_access,
              .second_use = use_ow | use_update},
     .group = "generic",
     .since = "6.2.0",
     .summary = "Copy a key"},
    {.name = "randomkey",
     .run = randomkey,
     .arity = 1,
     .flags = flag_readonly,
     .categories = in_keyspace,
     .shards = reach::all,
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Return a random key from the keyspace",
     .tips = "request_policy:all_shards nondeterministic_output"},
    {.name = "dbsize",
     .run = dbsize,
     .arity = 1,
     .flags = flag_readonly | flag_fast,
     .categories = in_keyspace,
     .shards = reach::all,
     .group = "server",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Return the number of keys in the selected database",
     .tips = "request_policy:all_shards response_policy:agg_sum"},
    {.name = "move",
     .run = move,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .categories = in_keyspace,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update},
     .shards = reach::all,
     .group = "generic",
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Move a key to another database"},
    {.name = "swapdb",
     .run = swapdb,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .categories = in_keyspace | in_dangerous,
     .shards = reach::all,
     .group = "server",
     .since = "4.0.0",
     .complexity = "O(N) where N is the number of keys of both databases",
     .summary = "Swap two databases"},
    {.name = "flushdb",
     .run = flushdb,
     .arity = -1,
     .flags = flag_write,
     .categories = in_keyspace | in_dangerous,
     .shards = reach::all,
     .group = "server",
     .since = "1.0.0",
     .complexity = "O(N) where N is the number of keys in the selected database",
     .summary = "Remove all keys from the current database",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
    {.name = "flushall",
     .run = flushall,
     .arity = -1,
     .flags = flag_write,
     .categories = in_keyspace | in_dangerous,
     .shards = reach::all,
     .group = "server",
     .since = "1.0.0",
     .complexity = "O(N) where N is the total number of keys in all databases",
     .summary = "Remove all keys from all databases",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
});

}  // namespace

std::span<const command> key_commands() noexcept { return keys_table; }

}  // namespace kv
