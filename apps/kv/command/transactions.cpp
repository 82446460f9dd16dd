// MULTI, EXEC, DISCARD, WATCH, UNWATCH, and RESET, which ends all of these.
#include "dispatch.hpp"
#include "handling.hpp"

#include <array>

namespace kv {
namespace {

void forget_watches(service& of, caller& who) {
  keyspace& keys = of.keys();
  for (const transaction::watched& w : who.queued.watches()) {
    const keyspace::hold hold(keys, keys.mask_of(w.key));
    keys.of(w.key).unwatch(w.key);
  }
  who.queued.watches().clear();
  who.watched_keys = 0;
}

void end(caller& who) noexcept {
  who.queued.close();
  who.in_transaction = false;
  who.queued_commands = 0;
}

void multi(call& c) {
  if (c.who.queued.is_open()) return c.out.error("ERR MULTI calls can not be nested");
  c.who.queued.open();
  c.who.in_transaction = true;
  c.out.ok();
}

void discard(call& c) {
  if (!c.who.queued.is_open()) return c.out.error("ERR DISCARD without MULTI");
  abandon_transaction(c.of, c.who);
  c.out.ok();
}

// Returns the reason that nothing is run; empty: none.
std::string objection(const call& c) {
  if (c.who.queued.spoilt()) return " previous errors.";
  const std::string why = has_writes(c.who.queued) ? refusal_by_journal(c.of) : std::string();
  return why.empty() ? why : ": " + why;
}

void exec(call& c) {
  if (!c.who.queued.is_open()) return c.out.error("ERR EXEC without MULTI");
  const std::string why = objection(c);
  if (!why.empty()) {
    abandon_transaction(c.of, c.who);
    return c.out.error("EXECABORT Transaction discarded because of" + why);
  }
  // The queued commands run outside of the transaction.
  try {
    run_queued(c);
  } catch (...) {
    end(c.who);
    throw;
  }
  end(c.who);
}

void watch(call& c) {
  if (c.who.queued.is_open()) return c.out.error("ERR WATCH inside MULTI is not allowed");
  keyspace& keys = c.of.keys();
  auto& watches = c.who.queued.watches();
  for (std::size_t i = 1; i < c.count(); ++i) {
    bool known = false;
    for (const transaction::watched& w : watches) known |= w.text == c.arg(i);
    if (known) continue;
    transaction::watched& w = watches.emplace_back();
    w.text = c.arg(i);
    w.key = keys.key(w.text);
    const keyspace::hold hold(keys, keys.mask_of(w.key));
    store& s = keys.of(w.key);
    if (s.now() != now_of(c)) s.tick(now_of(c));
    s.keep_expired(c.of.is_still(c.who.origin.worker));
    w.existed = static_cast<bool>(s.peek(w.key));
    try {
      w.changes = s.watch(w.key);
    } catch (...) {
      watches.pop_back();
      throw;
    }
  }
  c.who.watched_keys = static_cast<std::uint32_t>(watches.size());
  c.out.ok();
}

void unwatch(call& c) {
  forget_watches(c.of, c.who);
  c.out.ok();
}

void reset(call& c) {
  abandon_transaction(c.of, c.who);
  c.who.start_over();
  c.out.raw("+RESET\r\n");
}

constexpr auto transactions_table = std::to_array<command>({
    {.name = "multi",
     .run = multi,
     .arity = 1,
     .categories = in_transaction,
     .since = "1.2.0",
     .summary = "Mark the start of a transaction block"},
    {.name = "exec",
     .run = exec,
     .arity = 1,
     .flags = flag_noscript | flag_loading | flag_stale | flag_skip_slowlog,
     .categories = in_transaction,
     .since = "1.2.0",
     .complexity = "Depends on commands in the transaction",
     .summary = "Execute all commands issued after MULTI"},
    {.name = "discard",
     .run = discard,
     .arity = 1,
     .categories = in_transaction,
     .since = "2.0.0",
     .complexity = "O(N), when N is the number of queued commands",
     .summary = "Discard all commands issued after MULTI"},
    {.name = "watch",
     .run = watch,
     .arity = -2,
     .categories = in_transaction,
     .keys = {.first = 1, .last = -1, .step = 1, .use = use_ro},
     .since = "2.2.0",
     .complexity = "O(1) for every key.",
     .summary = "Watch the given keys to determine execution of the MULTI/EXEC block"},
    {.name = "unwatch",
     .run = unwatch,
     .arity = 1,
     .categories = in_transaction,
     .since = "2.2.0",
     .summary = "Forget about all watched keys"},
    {.name = "reset",
     .run = reset,
     .arity = 1,
     .flags =
         flag_noscript | flag_loading | flag_stale | flag_fast | flag_no_auth | flag_allow_busy,
     .categories = in_connection,
     .group = "connection",
     .since = "6.2.0",
     .summary = "Reset the connection"},
});

}  // namespace

void abandon_transaction(service& of, caller& who) {
  end(who);
  forget_watches(of, who);
}

command_group transaction_commands() noexcept {
  return {.commands = transactions_table,
          .name = "transactions",
          .flags = flag_noscript | flag_loading | flag_stale | flag_fast | flag_allow_busy,
          .shards = reach::own};
}

}  // namespace kv
