// EVAL and SCRIPT, for the scripts that lock_script.hpp recognises.
#include "digest.hpp"
#include "handling.hpp"
#include "lock_script.hpp"

#include "../resp/number.hpp"

#include <algorithm>
#include <array>

namespace kv {
namespace {

constexpr std::size_t first_key = 3;
constexpr std::string_view unknown_script =
    "ERR cordma-kv runs no Lua: of scripts it takes only the lock scripts of known client "
    "libraries (compare and delete, compare and expire)";
constexpr std::string_view script_error = "ERR ERROR";  // redis.error_reply('ERROR')
constexpr std::string_view no_script = "NOSCRIPT No matching script. Please use EVAL.";

// Keys and arguments of a script. REQUIRES that its number of keys was checked.
struct script_call {
  call& c;
  std::span<const std::string_view> keys;
  std::span<const std::string_view> args;

  [[nodiscard]] hashed_key key(std::size_t i) const noexcept { return c.of.keys().key(keys[i]); }
};

// Returns the string at the key if it equals ARGV[1]. Returns no value after an error reply if the
// key holds another type.
std::optional<found> held(const script_call& s, const hashed_key& k) {
  const auto f = string_at(s.c, k);
  if (!f) return std::nullopt;
  return *f && f->value == s.args[0] ? *f : found();
}

// Returns the end of a time to live that begins now. Returns no value after an error reply.
std::optional<std::int64_t> end_of(const script_call& s, std::string_view text, std::int64_t more,
                                   std::int64_t unit_ms) {
  const auto n = parse_integer(text);
  std::int64_t when = 0;
  if (!n) {
    s.c.out.error(not_an_integer);
    return std::nullopt;
  }
  if (__builtin_mul_overflow(*n, unit_ms, &when) || __builtin_add_overflow(when, more, &when) ||
      __builtin_add_overflow(when, static_cast<std::int64_t>(now_of(s.c)), &when)) {
    s.c.out.error("ERR invalid expire time in 'pexpire' command");
    return std::nullopt;
  }
  return when;
}

// Returns the end of a lock that is set now, by ARGV[2]. Returns no value after an error reply.
std::optional<unix_ms> end_of_lock(const script_call& s) {
  const auto when = end_of(s, s.args[1], 0, 1);
  if (!when) return std::nullopt;
  if (*when > static_cast<std::int64_t>(now_of(s.c))) return static_cast<unix_ms>(*when);
  s.c.out.error("ERR invalid expire time in 'set' command");
  return std::nullopt;
}

void expire_at(const script_call& s, const hashed_key& k, std::int64_t when) {
  const unix_ms at = static_cast<unix_ms>(std::max<std::int64_t>(when, 1));
  if (store_of(s.c, k).set_expiry(k, at) == put_outcome::out_of_memory) {
    return s.c.out.error(out_of_memory);
  }
  s.c.out.integer(1);
}

// The reply if the key holds something else or does not exist.
enum class otherwise : std::uint8_t { zero, null, gone, error };

void say_not_held(const script_call& s, otherwise no, bool exists) {
  switch (no) {
    case otherwise::zero: return s.c.out.integer(0);
    case otherwise::null: return s.c.out.null();
    case otherwise::gone: return s.c.out.integer(exists ? 0 : -1);
    case otherwise::error: break;
  }
  exists ? s.c.out.error(script_error) : s.c.out.ok();
}

void erase_one(const script_call& s, otherwise no) {
  const hashed_key k = s.key(0);
  const auto there = string_at(s.c, k);
  if (!there) return;
  if (!*there || there->value != s.args[0]) return say_not_held(s, no, there->at != nullptr);
  store_of(s.c, k).erase(k);
  s.c.out.integer(1);
}

void expire_one(const script_call& s, std::int64_t unit_ms, otherwise no) {
  const hashed_key k = s.key(0);
  const auto f = held(s, k);
  if (!f) return;
  if (!*f) return say_not_held(s, no, true);
  const auto when = end_of(s, s.args[1], 0, unit_ms);
  if (when) expire_at(s, k, *when);
}

// Returns false after an error reply.
bool set_one(const script_call& s) {
  const auto when = end_of_lock(s);
  if (!when || !fits(s.c, s.keys[0], s.args[0].size())) return false;
  return put(s.c, s.key(0), s.args[0], *when, s.c.out.mark());
}

void renew_one(const script_call& s) {
  const auto f = held(s, s.key(0));
  if (!f) return;
  if (!*f) return s.c.out.integer(0);
  if (set_one(s)) s.c.out.ok();
}

// Takes the key if it does not exist; otherwise it must hold ARGV[1].
void take_one(const script_call& s, lock_script what) {
  const hashed_key k = s.key(0);
  const auto there = string_at(s.c, k);
  if (!there) return;
  const bool expires = what == lock_script::take_or_expire;
  if (*there && there->value != s.args[0]) {
    return expires ? s.c.out.null() : s.c.out.error(script_error);
  }
  if (*there && expires) return expire_one(s, 1, otherwise::null);
  if (!set_one(s)) return;
  expires ? s.c.out.integer(1) : s.c.out.ok();
}

void tell_seconds_left(const script_call& s) {
  const auto f = held(s, s.key(0));
  if (!f) return;
  if (!*f) return s.c.out.error(script_error);
  if (!f->at->expires()) return s.c.out.integer(-1);
  constexpr std::uint64_t half = 500;
  s.c.out.integer(static_cast<std::int64_t>((f->at->expiry() - now_of(s.c) + half) / 1000));
}

void lengthen_one(const script_call& s, bool renews) {
  const hashed_key k = s.key(0);
  const auto f = held(s, k);
  if (!f) return;
  if (!*f || !f->at->expires()) return s.c.out.integer(0);
  const auto left = static_cast<std::int64_t>(f->at->expiry() - now_of(s.c));
  const auto when = end_of(s, s.args[1], renews ? 0 : left, 1);
  if (when) expire_at(s, k, *when);
}

void erase_all(const script_call& s) {
  std::int64_t erased = 0;
  for (std::size_t i = 0; i < s.keys.size(); ++i) {
    const hashed_key k = s.key(i);
    const auto f = held(s, k);
    if (!f) return;
    if (*f && store_of(s.c, k).erase(k)) ++erased;
  }
  s.c.out.integer(erased);
}

// All or nothing, like MSET. Returns false after an error reply.
bool has_room_for_all(const script_call& s) {
  keyspace& keys = s.c.of.keys();
  std::array<std::size_t, keyspace::most_shards> more{};
  for (std::size_t i = 0; i < s.keys.size(); ++i) {
    if (!fits(s.c, s.keys[i], 0)) return false;
    more[keys.index_of(s.key(i))] += store::bytes_of(s.keys[i], s.args[0]);
  }
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    if (more[i] == 0 || keys.at(i).make_room(more[i]) == put_outcome::done) continue;
    s.c.out.error(out_of_memory);
    return false;
  }
  return true;
}

void set_all(const script_call& s) {
  if (s.args[0].size() > max_value_bytes) return s.c.out.error(value_too_long);
  const auto when = end_of_lock(s);
  if (!when || !has_room_for_all(s)) return;
  const std::size_t mark = s.c.out.mark();
  for (std::size_t i = 0; i < s.keys.size(); ++i) {
    if (!put(s.c, s.key(i), s.args[0], *when, mark, at_limit::exceeded)) return;
  }
  s.c.out.integer(static_cast<std::int64_t>(s.keys.size()));
}

void renew_all(const script_call& s) {
  for (std::size_t i = 0; i < s.keys.size(); ++i) {
    const auto f = held(s, s.key(i));
    if (!f) return;
    if (!*f) return s.c.out.integer(0);
  }
  set_all(s);
}

void take_all(const script_call& s) {
  for (std::size_t i = 0; i < s.keys.size(); ++i) {
    const hashed_key k = s.key(i);
    if (store_of(s.c, k).peek(k)) return s.c.out.integer(0);
  }
  set_all(s);
}

// Returns the commands that the script consists of and that users may be denied.
std::span<const std::string_view> commands_of(lock_script what) noexcept {
  static constexpr std::array<std::string_view, 2> erasing{"get", "del"};
  static constexpr std::array<std::string_view, 2> expiring{"get", "pexpire"};
  static constexpr std::array<std::string_view, 2> expiring_seconds{"get", "expire"};
  static constexpr std::array<std::string_view, 3> lengthening{"get", "pttl", "pexpire"};
  static constexpr std::array<std::string_view, 2> renewing{"get", "set"};
  static constexpr std::array<std::string_view, 2> taking{"exists", "set"};
  static constexpr std::array<std::string_view, 3> taking_one{"get", "pexpire", "set"};
  static constexpr std::array<std::string_view, 2> looking{"get", "ttl"};
  switch (what) {
    case lock_script::erase:
    case lock_script::erase_or_null:
    case lock_script::erase_or_gone:
    case lock_script::erase_or_error:
    case lock_script::erase_all: return erasing;
    case lock_script::expire_ms:
    case lock_script::expire_ms_or_null: return expiring;
    case lock_script::expire_seconds:
    case lock_script::expire_seconds_or_null: return expiring_seconds;
    case lock_script::renew:
    case lock_script::take_or_renew: return renewing;
    case lock_script::take_or_expire: return taking_one;
    case lock_script::seconds_left: return looking;
    case lock_script::lengthen:
    case lock_script::lengthen_or_renew: return lengthening;
    case lock_script::renew_all: return renewing;
    case lock_script::take_all: break;
  }
  return taking;
}

void note_denied(call& c, std::string_view name) {
  c.of.denials().add({.reason = "command",
                      .context = "lua",
                      .object = std::string(name),
                      .user = c.who.said().user,
                      .client = describe(c.who, now_of(c)),
                      .when = now_of(c)},
                     static_cast<std::size_t>(c.of.current(c.who.origin.worker).acllog_max_len));
}

// Returns false after an error reply.
bool is_allowed(call& c, lock_script what) {
  if (c.who.unlimited() || c.who.who() == nullptr) return true;
  for (const std::string_view name : commands_of(what)) {
    if (c.who.who()->may_run(*c.of.commands().find(name))) continue;
    note_denied(c, name);
    c.out.error("NOPERM this user has no permissions to run the '" + std::string(name) +
                "' command, which the script takes");
    return false;
  }
  return true;
}

std::size_t arguments_of(lock_script what) noexcept {
  switch (what) {
    case lock_script::erase:
    case lock_script::erase_or_null:
    case lock_script::erase_or_gone:
    case lock_script::erase_or_error:
    case lock_script::erase_all:
    case lock_script::seconds_left: return 1;
    case lock_script::lengthen_or_renew: return 3;
    default: return 2;
  }
}

bool takes_any_keys(lock_script what) noexcept {
  return what == lock_script::erase_all || what == lock_script::renew_all ||
         what == lock_script::take_all;
}

void run(const script_call& s, lock_script what) {
  if (!is_allowed(s.c, what)) return;
  if (s.args.size() < arguments_of(what) || (s.keys.empty() && !takes_any_keys(what))) {
    return s.c.out.error("ERR the script takes more keys or arguments than it was given");
  }
  switch (what) {
    case lock_script::erase: return erase_one(s, otherwise::zero);
    case lock_script::erase_or_null: return erase_one(s, otherwise::null);
    case lock_script::erase_or_gone: return erase_one(s, otherwise::gone);
    case lock_script::erase_or_error: return erase_one(s, otherwise::error);
    case lock_script::expire_ms: return expire_one(s, 1, otherwise::zero);
    case lock_script::expire_ms_or_null: return expire_one(s, 1, otherwise::null);
    case lock_script::expire_seconds: return expire_one(s, 1000, otherwise::zero);
    case lock_script::expire_seconds_or_null: return expire_one(s, 1000, otherwise::null);
    case lock_script::renew: return renew_one(s);
    case lock_script::take_or_expire:
    case lock_script::take_or_renew: return take_one(s, what);
    case lock_script::seconds_left: return tell_seconds_left(s);
    case lock_script::lengthen: return lengthen_one(s, false);
    case lock_script::lengthen_or_renew: return lengthen_one(s, s.args[2] != "0");
    case lock_script::erase_all: return erase_all(s);
    case lock_script::renew_all: return renew_all(s);
    case lock_script::take_all: return take_all(s);
  }
}

// Returns no value after an error reply.
std::optional<script_call> arguments(call& c) {
  const auto n = integer_arg(c, 2);
  if (!n) return std::nullopt;
  if (*n > static_cast<std::int64_t>(c.count() - first_key)) {
    c.out.error("ERR Number of keys can't be greater than number of args");
    return std::nullopt;
  }
  if (*n < 0) {
    c.out.error("ERR Number of keys can't be negative");
    return std::nullopt;
  }
  const auto keys = static_cast<std::size_t>(*n);
  return script_call{c, c.args.subspan(first_key, keys), c.args.subspan(first_key + keys)};
}

void eval(call& c) {
  const auto given = arguments(c);
  if (!given) return;
  const auto what = recognise(c.arg(1));
  if (!what) return c.out.error(unknown_script);
  c.of.scripts().add(sha1(c.arg(1)), *what);
  run(*given, *what);
}

void evalsha(call& c) {
  const auto given = arguments(c);
  if (!given) return;
  const auto what = c.of.scripts().find(c.arg(1));
  what ? run(*given, *what) : c.out.error(no_script);
}

void script_load(call& c) {
  const auto what = recognise(c.arg(2));
  if (!what) return c.out.error(unknown_script);
  const std::string name = sha1(c.arg(2));
  c.of.scripts().add(name, *what);
  c.out.bulk(name);
}

void script_exists(call& c) {
  c.out.array(c.count() - 2);
  for (const std::string_view name : c.args.subspan(2)) {
    c.out.integer(c.of.scripts().find(name) ? 1 : 0);
  }
}

void script_flush(call& c) {
  if (c.count() > 3 ||
      (c.count() == 3 && !is_word(c.arg(2), "sync") && !is_word(c.arg(2), "async"))) {
    return c.out.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
  }
  c.of.scripts().clear();
  c.out.ok();
}

void script_kill(call& c) { c.out.error("NOTBUSY No scripts in execution right now."); }

void script_help(call& c) {
  reply_help(c, "SCRIPT",
             {"EXISTS <sha1> [<sha1> ...]",
              "    Return information about the existence of the scripts in the script cache.",
              "FLUSH [ASYNC|SYNC]", "    Flush the script cache.", "KILL",
              "    Kill the currently executing script: there is none.", "LOAD <script>",
              "    Load a lock script into the script cache without executing it."});
}

constexpr auto script_parts = std::to_array<command>({
    {.name = "exists",
     .run = script_exists,
     .arity = -3,
     .flags = flag_noscript,
     .complexity = "O(N) with N being the number of scripts to check",
     .summary = "Check existence of scripts in the script cache.",
     .tips = "request_policy:all_shards response_policy:agg_logical_and"},
    {.name = "flush",
     .run = script_flush,
     .arity = -2,
     .flags = flag_noscript,
     .complexity = "O(N) with N being the number of scripts in cache",
     .summary = "Remove all the scripts from the script cache.",
     .tips = "request_policy:all_nodes response_policy:all_succeeded"},
    {.name = "kill",
     .run = script_kill,
     .arity = 2,
     .flags = flag_noscript | flag_allow_busy,
     .summary = "Kill the script currently in execution.",
     .tips = "request_policy:all_shards response_policy:one_succeeded"},
    {.name = "load",
     .run = script_load,
     .arity = 3,
     .flags = flag_noscript | flag_stale,
     .complexity = "O(N) with N being the length in bytes of the script body",
     .summary = "Load a lock script into the script cache.",
     .tips = "request_policy:all_nodes response_policy:all_succeeded"},
    help_part(script_help, "5.0.0"),
});

constexpr std::uint32_t script_flags = flag_may_write | flag_noscript | flag_stale |
                                       flag_skip_monitor | flag_no_mandatory_keys |
                                       flag_movablekeys;

constexpr key_positions keys_of_script(std::string_view note) {
  return {.first = first_key,
          .step = 1,
          .use = use_rw | use_access | use_update,
          .counted_at = 2,
          .note = note};
}

constexpr auto scripts_table = std::to_array<command>({
    {.name = "eval",
     .run = eval,
     .arity = -3,
     .flags = script_flags,
     .categories = in_scripting,
     .keys =
         keys_of_script("We cannot tell how the keys will be used so we assume the worst, RW and "
                        "UPDATE"),
     .since = "2.6.0",
     .complexity = "Depends on the script that is executed.",
     .summary = "Execute a lock script server side"},
    {.name = "evalsha",
     .run = evalsha,
     .arity = -3,
     .flags = script_flags,
     .categories = in_scripting,
     .keys = keys_of_script({}),
     .since = "2.6.0",
     .complexity = "Depends on the script that is executed.",
     .summary = "Execute a lock script server side, by its SHA-1"},
    container("script", "2.6.0", "A container for script management commands",
              {.commands = script_parts,
               .since = "2.6.0",
               .categories = in_scripting,
               .shards = reach::own}),
});

}  // namespace

command_group script_commands() noexcept {
  return {.commands = scripts_table, .name = "scripting", .since = "2.6.0"};
}

}  // namespace kv
