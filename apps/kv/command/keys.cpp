// Keys, whatever they hold: DEL, EXISTS, RENAME, COPY ...
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

void copy(call& c) {
  target there = target::kept;
  for (std::size_t i = 3; i < c.count(); ++i) {
    if (is_word(c.arg(i), "replace")) {
      there = target::replaced;
    } else if (is_word(c.arg(i), "db") && i + 1 < c.count()) {
      const auto number = integer_arg(c, ++i);
      if (!number) return;
      if (*number != 0) return c.out.error("ERR DB index is out of range");
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
  std::uint32_t from =
      static_cast<std::uint32_t>(c.of.read_clock().time_since_epoch().count()) % keys.shards();
  for (std::uint32_t i = 0; i < keys.shards(); ++i, from = (from + 1) % keys.shards()) {
    const item* const one = keys.at(from).random();
    if (one != nullptr) return c.out.bulk(one->key());
  }
  c.out.null();
}

void dbsize(call& c) {
  std::size_t keys = 0;
  for (std::uint32_t i = 0; i < c.of.keys().shards(); ++i) keys += c.of.keys().at(i).size();
  c.out.integer(static_cast<std::int64_t>(keys));
}

void flush(call& c) {
  if (c.count() > 2 ||
      (c.count() == 2 && !is_word(c.arg(1), "sync") && !is_word(c.arg(1), "async"))) {
    c.out.error(syntax_error);
    return std::nullopt;
  }
  const freeing when =
      c.count() == 2 && is_word(c.arg(1), "async") ? freeing::later : freeing::at_once;
  for (std::uint32_t i = 0; i < c.of.keys().shards(); ++i) c.of.keys().at(i).clear(when);
  c.out.ok();
}

void flushall(call& c) {
  const std::size_t mark = c.out.mark();
  flush(c);
  if (c.out.is_error_at(mark) || !c.of.hooks.drop_snapshot) return;
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
     .run = exists,
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
    {.name = "flushdb",
     .run = flush,
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
