// String commands: GET, SET and related ones.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace kv {
namespace {

enum class presence : std::uint8_t { any, must, must_not, must_equal };

struct set_how {
  presence exists = presence::any;
  bool returns_old = false;
  bool keeps_expiry = false;
  unix_ms expiry = never_expires;
  std::string_view equal{};  // value for must_equal
};

void get(call& c) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  if (*f) {
    c.out.bulk(f->value);
  } else {
    c.out.null();
  }
}

// Parses SET's options. Returns no value after an error reply.
std::optional<set_how> set_options(call& c) {
  set_how how;
  std::optional<time_form> form;
  std::size_t time_at = 0;
  for (std::size_t i = 3; i < c.count(); ++i) {
    const std::string_view word = c.arg(i);
    const std::optional<time_form> time = i + 1 < c.count() ? time_form_of(word) : std::nullopt;
    const auto free = [&](presence p) { return how.exists == presence::any || how.exists == p; };
    if (is_word(word, "nx") && free(presence::must_not)) {
      how.exists = presence::must_not;
    } else if (is_word(word, "xx") && free(presence::must)) {
      how.exists = presence::must;
    } else if (is_word(word, "ifeq") && how.exists == presence::any && i + 1 < c.count()) {
      how.exists = presence::must_equal;
      how.equal = c.arg(++i);
    } else if (is_word(word, "get")) {
      how.returns_old = true;
    } else if (is_word(word, "keepttl") && !form) {
      how.keeps_expiry = true;
    } else if (time && (!form || form == time) && !how.keeps_expiry) {
      form = time;
      time_at = ++i;
    } else {
      c.out.error(syntax_error);
      return std::nullopt;
    }
  }
  if (!form) return how;
  const std::optional<unix_ms> when = expiry_arg(c, time_at, *form);
  if (!when) return std::nullopt;
  how.expiry = *when;
  return how;
}

bool is_met(const set_how& how, const found& f) noexcept {
  switch (how.exists) {
    case presence::any: return true;
    case presence::must: return static_cast<bool>(f);
    case presence::must_not: return !f;
    case presence::must_equal: return f && f.value == how.equal;
  }
  return false;
}

void set_with_options(call& c) {
  const std::optional<set_how> how = set_options(c);
  if (!how) return;
  const std::size_t mark = c.out.mark();
  const bool looks = how->exists != presence::any || how->returns_old || how->keeps_expiry;
  const found f = looks ? store_of(c, c.key).find(c.key) : found();
  const bool there = static_cast<bool>(f);
  const bool looks_into = how->returns_old || how->exists == presence::must_equal;
  if (looks_into && there && !f.is_string()) return c.out.error(wrong_type);
  if (how->returns_old) there ? c.out.bulk(f.value) : c.out.null();
  if (!is_met(*how, f)) {
    if (!how->returns_old) c.out.null();
    return;
  }
  const unix_ms expiry = how->keeps_expiry && there ? f.at->expiry() : how->expiry;
  if (put(c, c.key, c.arg(2), expiry, mark) && !how->returns_old) c.out.ok();
}

void set(call& c) {
  if (!fits(c, c.arg(1), c.arg(2).size())) return;
  if (c.count() > 3) return set_with_options(c);
  if (put(c, c.key, c.arg(2), never_expires, c.out.mark())) c.out.ok();
}

void setnx(call& c) {
  if (!fits(c, c.arg(1), c.arg(2).size())) return;
  if (store_of(c, c.key).find(c.key)) return c.out.integer(0);
  if (put(c, c.key, c.arg(2), never_expires, c.out.mark())) c.out.integer(1);
}

void set_expiring(call& c, time_form form) {
  if (!fits(c, c.arg(1), c.arg(3).size())) return;
  const std::optional<unix_ms> when = expiry_arg(c, 2, form);
  if (when && put(c, c.key, c.arg(3), *when, c.out.mark())) c.out.ok();
}
void setex(call& c) { set_expiring(c, {.seconds = true, .absolute = false}); }
void psetex(call& c) { set_expiring(c, {.seconds = false, .absolute = false}); }

void getset(call& c) {
  if (!fits(c, c.arg(1), c.arg(2).size())) return;
  const std::size_t mark = c.out.mark();
  const auto f = string_at(c, c.key);
  if (!f) return;
  *f ? c.out.bulk(f->value) : c.out.null();
  static_cast<void>(put(c, c.key, c.arg(2), never_expires, mark));
}

void getdel(call& c) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  if (!*f) return c.out.null();
  c.out.bulk(f->value);
  store_of(c, c.key).erase(c.key);
}

void delifeq(call& c) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  const bool same = *f && f->value == c.arg(2);
  if (same) store_of(c, c.key).erase(c.key);
  c.out.integer(same ? 1 : 0);
}

void getex(call& c) {
  std::optional<time_form> form;
  std::size_t time_at = 0;
  bool persist = false;
  for (std::size_t i = 2; i < c.count(); ++i) {
    const std::optional<time_form> time = i + 1 < c.count() ? time_form_of(c.arg(i)) : std::nullopt;
    if (is_word(c.arg(i), "persist") && !form) {
      persist = true;
    } else if (time && (!form || form == time) && !persist) {
      form = time;
      time_at = ++i;
    } else {
      return c.out.error(syntax_error);
    }
  }
  const auto f = string_at(c, c.key);
  if (!f) return;
  if (!*f) return c.out.null();
  const std::size_t mark = c.out.mark();
  unix_ms expiry = never_expires;
  if (form) {
    const std::optional<unix_ms> when = expiry_arg(c, time_at, *form);
    if (!when) return;
    expiry = *when;
  }
  c.out.bulk(f->value);
  if (!form && !(persist && f->at->expires())) return;
  if (store_of(c, c.key).set_expiry(c.key, expiry) == put_outcome::out_of_memory) {
    c.out.rewind(mark);
    c.out.error(out_of_memory);
  }
}

void mget(call& c) {
  hashed_keys keys(c);
  c.out.array(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    const found f = store_of(c, k).find(k);
    f&& f.is_string() ? c.out.bulk(f.value) : c.out.null();
  }
}

// Returns false after an error reply.
bool pairs_fit(call& c) {
  if (c.count() % 2 == 0) {
    c.out.error("ERR wrong number of arguments for '" + c.what.full_name + "' command");
    return false;
  }
  for (std::size_t i = 1; i < c.count(); i += 2) {
    if (!fits(c, c.arg(i), c.arg(i + 1).size())) return false;
  }
  return true;
}

// All or nothing: makes room for all pairs before the first is stored. Returns false after an error
// reply.
bool pairs_have_room(call& c) {
  keyspace& keys = c.of.keys();
  std::array<std::size_t, keyspace::most_shards> more{};
  hashed_keys all(c);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const hashed_key& k = all.next();
    more[keys.index_of(k)] += store::bytes_of(k.text, c.arg(2 + i * 2));
  }
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    if (more[i] == 0 || keys.at(i).make_room(more[i]) == put_outcome::done) continue;
    c.out.error(out_of_memory);
    return false;
  }
  return true;
}

bool put_pairs(call& c) {
  hashed_keys keys(c);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    const std::string_view value = c.arg(2 + i * 2);
    if (!put(c, k, value, never_expires, c.out.mark(), at_limit::exceeded)) return false;
  }
  return true;
}

void mset(call& c) {
  if (pairs_fit(c) && pairs_have_room(c) && put_pairs(c)) c.out.ok();
}

void msetnx(call& c) {
  if (!pairs_fit(c) || !pairs_have_room(c)) return;
  hashed_keys keys(c);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const hashed_key& k = keys.next();
    if (store_of(c, k).peek(k)) return c.out.integer(0);
  }
  if (put_pairs(c)) c.out.integer(1);
}

bool length_fits(call& c, std::size_t bytes) {
  if (bytes <= std::min<std::uint64_t>(max_value_bytes,
                                       c.of.current(c.who.origin.worker).proto_max_bulk_len)) {
    return true;
  }
  c.out.error(value_too_long);
  return false;
}

void append(call& c) {
  const auto f = string_at(c, c.key);
  if (!f) return;
  const std::size_t bytes = f->value.size() + c.arg(2).size();
  if (!fits(c, c.arg(1), 0) || !length_fits(c, bytes)) return;
  const std::array<std::string_view, 2> pieces{f->value, c.arg(2)};
  const unix_ms expiry = *f ? f->at->expiry() : never_expires;
  if (put(c, c.key, pieces, expiry, c.out.mark())) c.out.integer(static_cast<std::int64_t>(bytes));
}

void string_length(call& c) {
  const auto f = string_at(c, c.key);
  if (f) c.out.integer(static_cast<std::int64_t>(f->value.size()));
}

void getrange(call& c) {
  const auto from = integer_arg(c, 2);
  if (!from) return;
  const auto to = integer_arg(c, 3);
  if (!to) return;
  const auto f = string_at(c, c.key);
  if (!f) return;
  const auto size = static_cast<std::int64_t>(f->value.size());
  if (size == 0 || (*from < 0 && *to < 0 && *from > *to)) return c.out.bulk({});
  const std::int64_t first = std::max<std::int64_t>(*from < 0 ? size + *from : *from, 0);
  const std::int64_t last =
      std::min(std::max<std::int64_t>(*to < 0 ? size + *to : *to, 0), size - 1);
  if (first > last) return c.out.bulk({});
  c.out.bulk(
      f->value.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first + 1)));
}

void setrange(call& c) {
  static constexpr std::array<char, 4096> zeros{};
  const auto offset = integer_arg(c, 2);
  if (!offset) return;
  if (*offset < 0) return c.out.error("ERR offset is out of range");
  const auto f = string_at(c, c.key);
  if (!f) return;
  const std::string_view old = f->value;
  const std::string_view piece = c.arg(3);
  if (piece.empty()) return c.out.integer(static_cast<std::int64_t>(old.size()));
  const auto at = static_cast<std::size_t>(*offset);
  if (!fits(c, c.arg(1), 0) || !length_fits(c, at + piece.size())) return;
  std::vector<std::string_view> pieces{old.substr(0, at)};
  for (std::size_t gap = at > old.size() ? at - old.size() : 0; gap != 0;) {
    pieces.emplace_back(zeros.data(), std::min(gap, zeros.size()));
    gap -= pieces.back().size();
  }
  pieces.push_back(piece);
  if (old.size() > at + piece.size()) pieces.push_back(old.substr(at + piece.size()));
  const unix_ms expiry = *f ? f->at->expiry() : never_expires;
  const std::size_t bytes = std::max(old.size(), at + piece.size());
  if (put(c, c.key, pieces, expiry, c.out.mark())) c.out.integer(static_cast<std::int64_t>(bytes));
}

constexpr auto strings_table = std::to_array<command>({
    {.name = "get",
     .run = get,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .summary = "Get the value of a key"},
    {.name = "set",
     .run = set,
     .arity = -3,
     .keys = {.first = 1,
              .last = 1,
              .step = 1,
              .use = use_rw | use_access | use_update | use_variable,
              .note = "RW and ACCESS due to the optional `GET` argument"},
     .summary = "Set the string value of a key"},
    {.name = "setnx",
     .run = setnx,
     .arity = 3,
     .flags = flag_write | flag_denyoom | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ow | use_insert},
     .summary = "Set the value of a key, only if the key does not exist"},
    {.name = "delifeq",
     .run = delifeq,
     .arity = 3,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_delete},
     .since = "9.0.0",
     .summary = "Delete key if value matches string."},
    {.name = "setex",
     .run = setex,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ow | use_update},
     .since = "2.0.0",
     .summary = "Set the value and expiration of a key"},
    {.name = "psetex",
     .run = psetex,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ow | use_update},
     .since = "2.6.0",
     .summary = "Set the value and expiration in milliseconds of a key"},
    {.name = "getset",
     .run = getset,
     .arity = 3,
     .flags = flag_write | flag_denyoom | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_update},
     .summary = "Set the string value of a key and return its old value"},
    {.name = "getdel",
     .run = getdel,
     .arity = 2,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_access | use_delete},
     .since = "6.2.0",
     .summary = "Get the value of a key and delete the key"},
    {.name = "getex",
     .run = getex,
     .arity = -2,
     .flags = flag_write | flag_fast,
     .keys = {.first = 1,
              .last = 1,
              .step = 1,
              .use = use_rw | use_access | use_update,
              .note = "RW and UPDATE because it changes the TTL"},
     .since = "6.2.0",
     .summary = "Get the value of a key and optionally set its expiration"},
    {.name = "mget",
     .run = mget,
     .arity = -2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro | use_access},
     .complexity = "O(N) where N is the number of keys to retrieve.",
     .summary = "Get the values of all the given keys",
     .tips = "request_policy:multi_shard"},
    {.name = "mset",
     .run = mset,
     .arity = -3,
     .keys = {.first = 1, .last = -1, .step = 2, .use = use_ow | use_update},
     .since = "1.0.1",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Set multiple keys to multiple values",
     .tips = "request_policy:multi_shard response_policy:all_succeeded"},
    {.name = "msetnx",
     .run = msetnx,
     .arity = -3,
     .keys = {.first = 1, .last = -1, .step = 2, .use = use_ow | use_insert},
     .since = "1.0.1",
     .complexity = "O(N) where N is the number of keys to set.",
     .summary = "Set multiple keys to multiple values, only if none of the keys exist",
     .tips = "request_policy:multi_shard response_policy:agg_min"},
    {.name = "append",
     .run = append,
     .arity = 3,
     .flags = flag_write | flag_denyoom | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_insert},
     .since = "2.0.0",
     .complexity = {},
     .summary = "Append a value to a key"},
    {.name = "strlen",
     .run = string_length,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro},
     .since = "2.2.0",
     .summary = "Get the length of the value stored in a key"},
    {.name = "getrange",
     .run = getrange,
     .arity = 4,
     .flags = flag_readonly,
     .since = "2.4.0",
     .complexity = {},
     .summary = "Get a substring of the string stored at a key"},
    {.name = "substr",
     .run = getrange,
     .arity = 4,
     .flags = flag_readonly,
     .complexity = {},
     .summary = "Get a substring of the string stored at a key"},
    {.name = "setrange",
     .run = setrange,
     .arity = 4,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_update},
     .since = "2.2.0",
     .complexity = {},
     .summary = "Overwrite part of a string at key starting at the specified offset"},
});

}  // namespace

command_group string_commands() noexcept {
  return {.commands = strings_table,
          .name = "string",
          .since = "1.0.0",
          .flags = flag_write | flag_denyoom,
          .categories = in_string,
          .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access}};
}

}  // namespace kv
