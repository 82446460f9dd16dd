// Commands on keys of any type: DEL, EXISTS, RENAME, COPY ...
#include "databases.hpp"
#include "handling.hpp"

#include "../keyspace/journal_gate.hpp"
#include "../resp/number.hpp"

#include <algorithm>
#include <array>

namespace kv {
namespace {

constexpr std::string_view no_such_key = "ERR no such key";

// Replies with the number of its keys for which `counts(store, key)` is true.
template <class Counts>
void count_keys(call& c, Counts counts) {
  hashed_keys keys(c);
  std::int64_t counted = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    counted += counts(store_of(c, k), k) ? 1 : 0;
  }
  c.out.integer(counted);
}

void del(call& c) {
  count_keys(c, [](store& s, const hashed_key& k) { return s.erase(k); });
}
void unlink(call& c) {
  count_keys(c, [](store& s, const hashed_key& k) { return s.erase(k, freeing::later); });
}
void exists(call& c) {
  count_keys(c, [](store& s, const hashed_key& k) { return s.contains(k); });
}
// As exists(), and counts as a use of each key.
void touch(call& c) {
  count_keys(c, [](store& s, const hashed_key& k) { return static_cast<bool>(s.find(k)); });
}

void type(call& c) {
  const found f = store_of(c, c.key).peek(c.key);
  c.out.simple(!f ? "none" : f.is_string() ? "string" : "hash");
}

// Replaces the value of the key by this hash, even beyond the memory limit. Returns false if out of
// memory; the key may then hold a part of it.
bool put_hash(store& s, const hashed_key& k, const hash_value& fields, unix_ms expiry) {
  s.erase(k);
  bool done = true;
  fields.for_each([&](const hash_value::entry& e) {
    done = done && s.field_put(k, e.field, e.value) == put_outcome::done;
  });
  return done && (expiry == never_expires || s.set_expiry(k, expiry) == put_outcome::done);
}

// Copies the value and expiry of `from` to `to`. Returns false after an error reply; `to` is then
// unchanged, or erased if a hash ran out of memory.
bool duplicate(call& c, const found& from, const hashed_key& to, at_limit then) {
  store& s = store_of(c, to);
  const unix_ms expiry = from.at->expiry();
  if (from.is_string()) return put(c, to, from.value, expiry, c.out.mark(), then);
  // Copied, because making room may evict the original.
  const hash_value fields = *from.fields;
  if (then == at_limit::refused && s.make_room(fields.bytes()) != put_outcome::done) {
    c.out.error(out_of_memory);
    return false;
  }
  if (put_hash(s, to, fields, expiry)) return true;
  s.erase(to);
  c.out.error(out_of_memory);
  return false;
}

// Moves the value of `from` to `to` and erases `from`. It may exceed the limit, since only one of
// them remains. Within a shard an object is handed over, between shards it is copied. Returns false
// after an error reply; `from` is then unchanged.
bool relocate(call& c, const found& held, const hashed_key& from, const hashed_key& to) {
  if (&store_of(c, from) == &store_of(c, to) && held.at->kind() != value_kind::string) {
    const auto done = store_of(c, to).rename(from, to);
    if (done == put_outcome::done) return true;
    c.out.error(done ? out_of_memory : no_such_key);
    return false;
  }
  if (!duplicate(c, held, to, at_limit::exceeded)) return false;
  store_of(c, from).erase(from);
  return true;
}

enum class target : std::uint8_t { replaced, kept };

void rename_to(call& c, target there) {
  const hashed_key to = c.of.keys().key(c.arg(2));
  const found from = store_of(c, c.key).find(c.key);
  if (!from) return c.out.error(no_such_key);
  if (!fits(c, c.arg(2), 0)) return;
  if (c.arg(1) == c.arg(2)) return there == target::kept ? c.out.integer(0) : c.out.ok();
  if (there == target::kept && store_of(c, to).peek(to)) return c.out.integer(0);
  const found again =
      store_of(c, c.key).peek(c.key);  // finding the target may have changed the store
  if (!relocate(c, again, c.key, to)) return;
  there == target::kept ? c.out.integer(1) : c.out.ok();
}

void rename(call& c) { rename_to(c, target::replaced); }
void renamenx(call& c) { rename_to(c, target::kept); }

// Returns no value after an error reply.
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
  const found held = store_of(c, c.key).peek(c.key);
  if (relocate(c, held, c.key, to)) c.out.integer(1);
}

// A copy of a value outside the keyspace.
struct kept_value {
  std::string text;
  std::optional<hash_value> fields;
  unix_ms expiry = never_expires;
};

kept_value kept(const found& f) {
  kept_value v{.text = std::string(f.value), .fields = std::nullopt, .expiry = f.at->expiry()};
  if (!f.is_string()) v.fields.emplace(*f.fields);
  return v;
}

// Stores a kept value. Returns false if out of memory; the key then holds a part of it or its old
// value.
bool put_back(call& c, const hashed_key& k, const kept_value& v) {
  store& s = store_of(c, k);
  if (!v.fields) return s.put(k, v.text, v.expiry, at_limit::exceeded) == put_outcome::done;
  return put_hash(s, k, *v.fields, v.expiry);
}

// Swaps the values of two keys. Returns false after an out-of-memory reply; both values are then
// restored as far as memory permits.
bool swap_keys(call& c, const hashed_key& one, const hashed_key& other) {
  static_cast<void>(store_of(c, one).peek(one));  // removes it if it has expired
  const found of_other = store_of(c, other).peek(other);
  const found of_one = store_of(c, one).peek(one);
  if (!of_one && !of_other) return true;
  if (!of_other) return relocate(c, of_one, one, other);
  if (!of_one) return relocate(c, of_other, other, one);
  const kept_value first = kept(of_one);
  const kept_value second = kept(of_other);
  if (put_back(c, other, first) && put_back(c, one, second)) return true;
  static_cast<void>(put_back(c, one, first));
  static_cast<void>(put_back(c, other, second));
  c.out.error(out_of_memory);
  return false;
}

// The distinct key names of two databases, and the bytes that a journal needs to record their swap.
struct both_databases {
  std::vector<std::string> names;
  std::size_t bytes = 0;
};

both_databases look_at(keyspace& keys, unsigned one, unsigned other) {
  constexpr std::size_t of_change = 64;  // besides its texts
  constexpr std::size_t of_field = 16;
  both_databases all;
  for (const unsigned database : {one, other}) {
    each_key(keys, database, store::scanned::all, [&](const found& f, std::string_view name) {
      all.names.emplace_back(name);
      all.bytes += 2 * (name.size() + of_change) + f.value.size();
      if (!f.is_string()) all.bytes += f.fields->bytes() + f.fields->size() * of_field;
    });
  }
  std::ranges::sort(all.names);
  const auto twice = std::ranges::unique(all.names);
  all.names.erase(twice.begin(), twice.end());
  return all;
}

// Swaps key by key, so that each key is in one of the two databases at any time. If memory runs
// out, the earlier keys are swapped back.
void swapdb(call& c) {
  const auto one = database_arg(c, 1, "ERR invalid first DB index");
  if (!one) return;
  const auto other = database_arg(c, 2, "ERR invalid second DB index");
  if (!other) return;
  if (*one == *other) return c.out.ok();
  keyspace& keys = c.of.keys();
  const both_databases all = look_at(keys, *one, *other);
  constexpr std::size_t longest = max_key_bytes - database_mark.size() - 1;
  if (std::ranges::any_of(all.names, [](const std::string& n) { return n.size() > longest; })) {
    return c.out.error(key_too_long);
  }
  // The swap is one record of the journal, so that it is complete after a crash.
  if (all.bytes > max_record_bytes) {
    return c.out.error("ERR SWAPDB takes no more than 1 GB of keys and values, and these are " +
                       std::to_string(all.bytes) + " bytes");
  }
  const auto swap = [&](const std::string& name) {
    const std::string first = key_in(*one, name);
    const std::string second = key_in(*other, name);
    return swap_keys(c, keys.key(first), keys.key(second));
  };
  const std::size_t mark = c.out.mark();
  std::size_t done = 0;
  while (done < all.names.size() && swap(all.names[done])) ++done;
  if (done == all.names.size()) return c.out.ok();
  bool restored = true;
  while (done != 0) restored = swap(all.names[--done]) && restored;
  c.out.rewind(mark);
  c.out.error(out_of_memory);
  if (!restored && c.of.hooks.warn)
    c.of.hooks.warn("SWAPDB ran out of memory, and some keys stay swapped");
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

void randomkey(call& c) {
  keyspace& keys = c.of.keys();
  const unsigned database = c.who.database;
  std::uint32_t from =
      static_cast<std::uint32_t>(c.of.read_clock().time_since_epoch().count()) % keys.shards();
  for (std::uint32_t i = 0; i < keys.shards(); ++i, from = (from + 1) % keys.shards()) {
    const item* const one = keys.at(from).random(database);
    if (one != nullptr) return c.out.bulk(place_of_key(one->key()).name);
  }
  c.out.null();
}

void dbsize(call& c) {
  c.out.integer(static_cast<std::int64_t>(c.of.keys().size_of(c.who.database)));
}

// Returns no value after an error reply.
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

// Clears the shards if no other database has keys, else erases key by key.
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
    std::vector<std::string> gone;
    each_key(keys, database, store::scanned::all,
             [&](const found& f, std::string_view) { gone.emplace_back(f.at->key()); });
    for (const std::string& key : gone) {
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
  // Otherwise a start after a crash would load the erased keys from the old snapshot.
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
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_rm | use_delete},
     .complexity = {},
     .summary = "Delete a key",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "unlink",
     .run = unlink,
     .arity = -2,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_rm | use_delete},
     .since = "4.0.0",
     .complexity = {},
     .summary = "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but "
                "non blocking",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "exists",
     .run = exists,
     .arity = -2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro},
     .complexity = "O(N) where N is the number of keys to check.",
     .summary = "Determine if a key exists",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "touch",
     .run = touch,
     .arity = -2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro},
     .since = "3.2.1",
     .complexity = "O(N) where N is the number of keys that will be touched.",
     .summary =
         "Alters the last access time of a key(s). Returns the number of existing keys specified",
     .tips = "request_policy:multi_shard response_policy:agg_sum"},
    {.name = "type",
     .run = type,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro},
     .summary = "Determine the type stored at key"},
    {.name = "rename",
     .run = rename,
     .arity = 3,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_rw | use_access | use_delete,
              .second_use = use_ow | use_update},
     .summary = "Rename a key"},
    {.name = "renamenx",
     .run = renamenx,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_rw | use_access | use_delete,
              .second_use = use_ow | use_insert},
     .summary = "Rename a key, only if the new key does not exist"},
    {.name = "copy",
     .run = copy,
     .arity = -3,
     .flags = flag_write | flag_denyoom,
     .keys = {.first = 1,
              .last = 2,
              .step = 1,
              .use = use_ro | use_access,
              .second_use = use_ow | use_update},
     .since = "6.2.0",
     .complexity = {},
     .summary = "Copy a key"},
    {.name = "randomkey",
     .run = randomkey,
     .arity = 1,
     .flags = flag_readonly,
     .shards = reach::all,
     .summary = "Return a random key from the keyspace",
     .tips = "request_policy:all_shards nondeterministic_output"},
    {.name = "dbsize",
     .run = dbsize,
     .arity = 1,
     .flags = flag_readonly | flag_fast,
     .shards = reach::all,
     .group = "server",
     .summary = "Return the number of keys in the selected database",
     .tips = "request_policy:all_shards response_policy:agg_sum"},
    {.name = "move",
     .run = move,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update},
     .shards = reach::all,
     .summary = "Move a key to another database"},
    {.name = "swapdb",
     .run = swapdb,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .categories = in_dangerous,
     .shards = reach::all,
     .group = "server",
     .since = "4.0.0",
     .complexity = "O(N) where N is the number of keys of both databases",
     .summary = "Swap two databases"},
    {.name = "flushdb",
     .run = flushdb,
     .arity = -1,
     .categories = in_dangerous,
     .shards = reach::all,
     .group = "server",
     .complexity = "O(N) where N is the number of keys in the selected database",
     .summary = "Remove all keys from the current database",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
    {.name = "flushall",
     .run = flushall,
     .arity = -1,
     .categories = in_dangerous,
     .shards = reach::all,
     .group = "server",
     .complexity = "O(N) where N is the total number of keys in all databases",
     .summary = "Remove all keys from all databases",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
});

}  // namespace

command_group key_commands() noexcept {
  return {.commands = keys_table,
          .name = "generic",
          .since = "1.0.0",
          .flags = flag_write,
          .categories = in_keyspace};
}

}  // namespace kv
