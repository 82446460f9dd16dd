// Time to live of keys.
#include "handling.hpp"

#include <array>
#include <limits>

namespace kv {
namespace {

struct expire_rule {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
};

// Returns no value after an error reply.
std::optional<expire_rule> rule_of(call& c) {
  expire_rule r;
  for (std::size_t i = 3; i < c.count(); ++i) {
    const std::string_view word = c.arg(i);
    if (is_word(word, "nx")) {
      r.nx = true;
    } else if (is_word(word, "xx")) {
      r.xx = true;
    } else if (is_word(word, "gt")) {
      r.gt = true;
    } else if (is_word(word, "lt")) {
      r.lt = true;
    } else {
      c.out.error("ERR Unsupported option " + std::string(word));
      return std::nullopt;
    }
  }
  if (r.nx && (r.xx || r.gt || r.lt)) {
    c.out.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return std::nullopt;
  }
  if (r.gt && r.lt) {
    c.out.error("ERR GT and LT options at the same time are not compatible");
    return std::nullopt;
  }
  return r;
}

bool holds(const expire_rule& r, const item& i, std::int64_t when) noexcept {
  const auto now = static_cast<std::int64_t>(i.expiry());
  if (r.nx && i.expires()) return false;
  if (r.xx && !i.expires()) return false;
  if (r.gt && (!i.expires() || when <= now)) return false;  // no expiry counts as later than any
  return !(r.lt && i.expires() && when >= now);
}

void expire_to(call& c, time_form form) {
  const auto rule = rule_of(c);
  if (!rule) return;
  const auto n = integer_arg(c, 2);
  if (!n) return;
  std::int64_t when = *n;
  const auto base = form.absolute ? 0 : static_cast<std::int64_t>(now_of(c));
  if ((form.seconds && __builtin_mul_overflow(when, 1000, &when)) ||
      __builtin_add_overflow(when, base, &when)) {
    return c.out.error("ERR invalid expire time in '" + c.what.full_name + "' command");
  }
  store& s = store_of(c, c.key);
  const found f = s.peek(c.key);
  if (!f || !holds(*rule, *f.at, when)) return c.out.integer(0);
  if (when <= static_cast<std::int64_t>(now_of(c))) {
    s.erase(c.key);
  } else if (s.set_expiry(c.key, static_cast<unix_ms>(when)) == put_outcome::out_of_memory) {
    return c.out.error(out_of_memory);
  }
  c.out.integer(1);
}

void expire(call& c) { expire_to(c, {.seconds = true, .absolute = false}); }
void pexpire(call& c) { expire_to(c, {.seconds = false, .absolute = false}); }
void expireat(call& c) { expire_to(c, {.seconds = true, .absolute = true}); }
void pexpireat(call& c) { expire_to(c, {.seconds = false, .absolute = true}); }

void tell(call& c, time_form form) {
  const found f = store_of(c, c.key).peek(c.key);
  if (!f) return c.out.integer(-2);
  if (!f.at->expires()) return c.out.integer(-1);
  const unix_ms when = f.at->expiry();
  const unix_ms now = now_of(c);
  const unix_ms ms = form.absolute ? when : when > now ? when - now : 0;
  c.out.integer(static_cast<std::int64_t>(form.seconds ? (ms + 500) / 1000 : ms));
}

void ttl(call& c) { tell(c, {.seconds = true, .absolute = false}); }
void pttl(call& c) { tell(c, {.seconds = false, .absolute = false}); }
void expiretime(call& c) { tell(c, {.seconds = true, .absolute = true}); }
void pexpiretime(call& c) { tell(c, {.seconds = false, .absolute = true}); }

void persist(call& c) {
  store& s = store_of(c, c.key);
  const found f = s.peek(c.key);
  if (!f || !f.at->expires()) return c.out.integer(0);
  if (s.set_expiry(c.key, never_expires) == put_outcome::out_of_memory) {
    return c.out.error(out_of_memory);
  }
  c.out.integer(1);
}

constexpr auto expiry_table = std::to_array<command>({
    {.name = "expire",
     .run = expire,
     .arity = -3,
     .since = "1.0.0",
     .summary = "Set a key's time to live in seconds"},
    {.name = "pexpire",
     .run = pexpire,
     .arity = -3,
     .summary = "Set a key's time to live in milliseconds"},
    {.name = "expireat",
     .run = expireat,
     .arity = -3,
     .since = "1.2.0",
     .summary = "Set the expiration for a key as a UNIX timestamp"},
    {.name = "pexpireat",
     .run = pexpireat,
     .arity = -3,
     .summary = "Set the expiration for a key as a UNIX timestamp specified in milliseconds"},
    {.name = "ttl",
     .run = ttl,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .since = "1.0.0",
     .summary = "Get the time to live for a key in seconds",
     .tips = "nondeterministic_output"},
    {.name = "pttl",
     .run = pttl,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .summary = "Get the time to live for a key in milliseconds",
     .tips = "nondeterministic_output"},
    {.name = "expiretime",
     .run = expiretime,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .since = "7.0.0",
     .summary = "Get the expiration Unix timestamp for a key"},
    {.name = "pexpiretime",
     .run = pexpiretime,
     .arity = 2,
     .flags = flag_readonly | flag_fast,
     .keys = {.first = 1, .last = 1, .step = 1, .use = use_ro | use_access},
     .since = "7.0.0",
     .summary = "Get the expiration Unix timestamp for a key in milliseconds"},
    {.name = "persist",
     .run = persist,
     .arity = 2,
     .since = "2.2.0",
     .summary = "Remove the expiration from a key"},
});

}  // namespace

command_group expiry_commands() noexcept {
  return {.commands = expiry_table,
          .name = "generic",
          .since = "2.6.0",
          .flags = flag_write | flag_fast,
          .categories = in_keyspace,
          .keys = {.first = 1, .last = 1, .step = 1, .use = use_rw | use_update}};
}

}  // namespace kv
