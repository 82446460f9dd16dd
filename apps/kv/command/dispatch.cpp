#include "dispatch.hpp"

#include "word.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace kv {
namespace {

constexpr std::size_t shown_name = 128;       // shown bytes of an unknown command
constexpr std::size_t shown_arguments = 128;  // bytes, for all of them
constexpr std::string_view debug_not_allowed =
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you "
    "can run it from a local connection, otherwise you need to set this option in the "
    "configuration file, and then restart the server.";
constexpr std::string_view no_auth = "NOAUTH Authentication required.";

std::uint64_t shards_of(keyspace& keys, const known_command& what,
                        std::span<const std::string_view> args) noexcept {
  std::uint64_t mask = 0;
  if (!what.has_keys()) return mask;
  const std::size_t end = what.keys_end(args);
  for (std::size_t i = static_cast<std::size_t>(what.keys.first); i < end;
       i += static_cast<std::size_t>(what.keys.step)) {
    mask |= keys.mask_of(keys.key(args[i]));
  }
  return mask;
}

void tick_shards(service& of, unsigned worker, std::uint64_t shards) noexcept {
  const unix_ms now = of.now_ms(worker);
  const bool still = of.is_still(worker);
  for (; shards != 0; shards &= shards - 1) {
    store& s = of.keys().at(static_cast<std::uint32_t>(std::countr_zero(shards)));
    if (s.now() != now) s.tick(now);
    s.keep_expired(still);
  }
}

std::string unknown_command(std::span<const std::string_view> args) {
  std::string text = "ERR unknown command '";
  text += until_nul(args[0]).substr(0, shown_name);
  text += "', with args beginning with: ";
  std::size_t shown = 0;
  for (std::size_t i = 1; i < args.size() && shown < shown_arguments; ++i) {
    const std::string_view part = until_nul(args[i]).substr(0, shown_arguments - shown);
    text.append("'").append(part).append("' ");
    shown += part.size() + 3;
  }
  return text;
}

std::string unknown_part(const known_command& of, std::string_view name) {
  std::string upper(of.name);
  std::ranges::transform(upper, upper.begin(), [](char c) { return static_cast<char>(c & ~0x20); });
  return "ERR unknown subcommand '" + std::string(until_nul(name).substr(0, shown_name)) +
         "'. Try " + upper + " HELP.";
}

void note_slow(service& of, caller& who, const settings& now, std::uint64_t microseconds,
               const prepared& p) {
  if (now.slowlog_max_len == 0) return;
  slowlog::entry e;
  e.when = of.now_ms(who.origin.worker);
  e.microseconds = microseconds;
  e.peer = who.origin.peer;
  e.name = who.said().name;
  of.slow().add(std::move(e), without_secrets(*p.what, p.args),
                static_cast<std::size_t>(now.slowlog_max_len));
}

// Replaces the keys by those of the keyspace for that database. REQUIRES that it has one.
void name_in(prepared& p, unsigned database) {
  p.named = name_keys(*p.what, p.said, database);
  if (p.named != nullptr) p.args = p.named->args;
}

// Records a slow command for SLOWLOG and LATENCY.
void note_time(service& of, caller& who, const prepared& p, std::uint64_t nanoseconds) {
  const settings& now = of.current(who.origin.worker);
  const std::uint64_t us = nanoseconds / 1000;
  if (now.slowlog_log_slower_than >= 0 &&
      us >= static_cast<std::uint64_t>(now.slowlog_log_slower_than) &&
      !p.what->is(flag_skip_slowlog)) {
    note_slow(of, who, now, us, p);
  }
  if (now.latency_monitor_threshold != 0 && us / 1000 >= now.latency_monitor_threshold) {
    of.latency().add(p.what->is(flag_fast) ? "fast-command" : "command",
                     {.when_s = of.now_ms(who.origin.worker) / 1000, .took_ms = us / 1000});
  }
}

bool is_silent(caller::replies mode) noexcept {
  return mode == caller::replies::off || mode == caller::replies::skip;
}

// Removes the reply written since `mark` if the client wanted no replies then (`before`) and wants
// none now.
void take_back_unwanted(caller& who, std::size_t mark, caller::replies before) noexcept {
  if (is_silent(before) && is_silent(who.mode)) who.reply.rewind(mark);
}

// Applies CLIENT REPLY after a command.
void mind_mode(caller& who, std::size_t mark, caller::replies before) noexcept {
  take_back_unwanted(who, mark, before);
  if (who.mode == caller::replies::skip_next) {
    who.mode = caller::replies::skip;
  } else if (who.mode == caller::replies::skip) {
    who.mode = caller::replies::on;
  }
}

// Runs the command; its shards are held. Returns the time at which it ended.
cordma::time_point invoke(service& of, caller& who, const prepared& p, cordma::time_point began) {
  const std::size_t mark = who.reply.mark();
  call c{of, who, p.args, *p.what, p.key, who.reply};
  try {
    p.what->run(c);
  } catch (const std::bad_alloc&) {
    who.reply.rewind(mark);
    who.reply.error("OOM the server has no more memory");
  }
  worker_counters& counters = of.counters(who.origin.worker);
  command_counters& own = counters.each[p.what->index];
  const cordma::time_point ended = of.read_clock();
  const auto took = static_cast<std::uint64_t>((ended - began).count());
  counters.commands.add();
  own.calls.add();
  own.nanoseconds.add(took);
  who.last.store(p.what, std::memory_order_relaxed);
  if (who.reply.is_error_at(mark)) {
    own.failed.add();
    of.count_error(who.origin.worker, who.reply.since(mark));
  }
  note_time(of, who, p, took);
  if (of.has_monitors() && !p.what->is(flag_admin)) {
    of.show_monitors(who, without_secrets(*p.what, p.args));
  }
  return ended;
}

// Refuses a command. A transaction that it was to be part of will not run.
void refuse(service& of, caller& who, const known_command* what, std::string_view why) {
  constexpr std::string_view code = "ERR ";
  const std::size_t mark = who.reply.mark();
  who.awaited_ending.reset();  // a SHUTDOWN that waited is refused too
  if (what != nullptr && what->name == "exec") {
    abandon_transaction(of, who);
    if (why.starts_with(code)) why.remove_prefix(code.size());
    who.reply.error("EXECABORT Transaction discarded because of: " + std::string(why));
  } else {
    who.queued.spoil();
    who.reply.error(why);
  }
  if (what != nullptr) of.counters(who.origin.worker).each[what->index].rejected.add();
  of.count_error(who.origin.worker, who.reply.since(mark));
  mind_mode(who, mark, who.mode);
}

// Returns the right that this use of a key needs.
key_access access_for(std::uint16_t use) noexcept {
  const bool reads = (use & use_access) != 0;
  const bool writes = (use & (use_update | use_insert | use_delete)) != 0;
  if (reads && writes) return key_access::both;
  if (writes) return key_access::write;
  return reads ? key_access::read : key_access::none;
}

// True for commands that run inside MULTI too, where others are queued.
bool is_let_through(const known_command& what) noexcept {
  // Compares full names: a sub-command may have one of these names.
  const std::string_view name = what.full_name;
  return name == "exec" || name == "discard" || name == "multi" || name == "watch" ||
         name == "quit" || name == "reset";
}

bool may_debug(const settings& now, const caller& who) noexcept {
  return now.enable_debug_command == "yes" ||
         (now.enable_debug_command == "local" && who.origin.loopback);
}

// True if these shards accept writes now. REQUIRES that they are held.
bool has_room(keyspace& keys, std::uint64_t shards) {
  for (; shards != 0; shards &= shards - 1) {
    store& s = keys.at(static_cast<std::uint32_t>(std::countr_zero(shards)));
    if (s.make_room() != put_outcome::done) return false;
  }
  return true;
}

// For a write that is about to be queued.
bool has_room(service& of, const prepared& p) {
  const keyspace::hold hold(of.keys(), p.shards);
  return has_room(of.keys(), p.shards);
}

// True if a command that was not refused may change data. An EXEC that will be refused does not.
bool may_change(const service& of, const caller& who, const known_command& what) {
  if (what.name != "exec") return what.writes();
  return has_writes(who.queued) && !who.queued.spoilt() && refusal_by_journal(of).empty();
}

// True for commands that are refused if the journal cannot be written. PING is one, so that clients
// notice the trouble.
bool is_write_or_ping(const known_command& what) { return what.writes() || what.name == "ping"; }

// Returns the reason to refuse the command, checked in the order of Redis; empty: none.
std::string objection(service& of, const caller& who, const prepared& p) {
  if (p.what == nullptr) return unknown_command(p.args);
  const known_command& what = *p.what;
  if (p.args.size() > 1 && what.full_name.starts_with("debug") &&
      !may_debug(of.current(who.origin.worker), who)) {
    return std::string(debug_not_allowed);
  }
  if (!what.parts.empty() && p.args.size() > 1) return unknown_part(what, p.args[1]);
  if (!what.fits(p.args.size())) {
    return "ERR wrong number of arguments for '" + what.full_name + "' command";
  }
  if (who.who() == nullptr && !what.is(flag_no_auth)) return std::string(no_auth);
  if (what.is(flag_no_multi) && who.queued.is_open()) {
    return "ERR Command not allowed inside a transaction";
  }
  if (!who.unlimited() && who.who() != nullptr && !what.is(flag_no_auth)) {
    const denied why = denied_by_rights(*who.who(), what, p.args);
    if (why.what != denial::none)
      note_denied(of, who, p, why, who.queued.is_open() ? denied_in::multi : denied_in::toplevel);
    switch (why.what) {
      case denial::none: break;
      case denial::of_command:
        return "NOPERM this user has no permissions to run the '" + what.full_name + "' command";
      case denial::of_key:
        return "NOPERM this user has no permissions to access one of the keys used as arguments";
    }
  }
  if (is_write_or_ping(what)) {
    std::string why = refusal_by_journal(of);
    if (!why.empty()) return why;
  }
  if (of.loading && !what.is(flag_loading)) {
    return "LOADING Redis is loading the dataset in memory";
  }
  return {};
}

// True for the first words of HTTP that a browser sends for a web page: its body could contain
// commands.
bool is_http(std::string_view name) noexcept {
  return is_word(name, "post") || is_word(name, "host:");
}

void cut_off(service& of, caller& who) {
  who.killed = caller::kill::now;
  if (!of.hooks.warn) return;
  const std::string& peer = who.origin.peer;
  of.hooks.warn(
      "possible SECURITY ATTACK: " + peer.substr(0, peer.rfind(':')) +
      " sends HTTP (POST or Host:) to where Redis's clients come, as web pages can make a "
      "browser do. The connection is cut off");
}

}  // namespace

bool has_writes(const transaction& t) noexcept {
  return std::ranges::any_of(t.commands(), [](const auto& q) { return q.what->writes(); });
}

std::string refusal_by_journal(const service& of) {
  if (of.journal == nullptr || !of.journal->refuses()) return {};
  return "MISCONF " + of.journal->why();
}

denied denied_by_rights(const user& u, const known_command& what,
                        std::span<const std::string_view> args) noexcept {
  if (!what.is(flag_no_auth) && !u.may_run(what)) return {.what = denial::of_command};
  if (u.all_keys || !what.has_keys()) return {};
  const std::size_t end = what.keys_end(args);
  for (std::size_t i = static_cast<std::size_t>(what.keys.first); i < end;
       i += static_cast<std::size_t>(what.keys.step)) {
    if (!u.may_use(place_of_key(args[i]).name, access_for(use_of_key(what, args, i)))) {
      return {.what = denial::of_key, .key = i};
    }
  }
  return {};
}

conditions conditions_for(service& of, const caller& who) {
  conditions now;
  now.paused = of.pausing(who.origin.worker);
  now.plain_allowed = who.unlimited() && !who.queued.is_open() && who.mode == caller::replies::on &&
                      !of.loading.load(std::memory_order_relaxed) &&
                      now.paused != service::paused::all;
  now.writes_allowed =
      now.paused == service::paused::none && (of.journal == nullptr || !of.journal->refuses());
  return now;
}

prepared prepare(service& of, const caller& who, const conditions& now,
                 std::span<const std::string_view> args) {
  prepared p;
  p.args = p.said = args;
  p.what = of.commands().find(args[0]);
  if (p.what == nullptr) return p;
  if (!p.what->parts.empty() && args.size() > 1) {
    const known_command* const part = of.commands().find_part(*p.what, args[1]);
    if (part != nullptr) p.what = part;
  }
  const known_command& what = *p.what;
  if (!what.parts.empty() || !what.fits(args.size())) return p;
  keyspace& keys = of.keys();
  if (what.has_key_in(args)) {
    name_in(p, who.database.load(std::memory_order_relaxed));
    args = p.args;
    p.key = keys.key(args[static_cast<std::size_t>(what.keys.first)]);
    const bool has_one = what.keys.first == what.keys.last && what.keys.counted_at == 0;
    p.shards = has_one || keys.shards() == 1 ? keys.mask_of(p.key) : shards_of(keys, what, args);
  }
  p.plain = now.plain_allowed && what.shards == reach::keys &&
            (now.writes_allowed || !is_write_or_ping(what));
  return p;
}

std::size_t run_plain(service& of, caller& who, std::span<const prepared> commands,
                      std::size_t most_output) {
  std::uint64_t shards = 0;
  for (const prepared& p : commands) shards |= p.shards;
  keyspace& keys = of.keys();
  const unsigned worker = who.origin.worker;
  const keyspace::hold hold(keys, shards);
  tick_shards(of, worker, shards);
  if (commands.size() > 1) {
    for (const prepared& p : commands) {
      if (p.shards != 0) keys.of(p.key).prefetch_bucket(p.key);
    }
    for (const prepared& p : commands) {
      if (p.shards != 0) keys.of(p.key).prefetch_item(p.key);
    }
  }
  const std::size_t most = who.reply.mark() + most_output;
  std::size_t done = 0;
  cordma::time_point at = of.now(worker);
  while (done < commands.size() && who.reply.mark() <= most && !who.reply.overflowed())
    at = invoke(of, who, commands[done++], at);
  of.went_on(worker, at);
  return done;
}

ran run_other(service& of, caller& who, const prepared& p) {
  if (p.what == nullptr && is_http(p.args[0])) {
    cut_off(of, who);
    return ran::answered;
  }
  const std::string why = objection(of, who, p);
  if (!why.empty()) {
    refuse(of, who, p.what, why);
    return ran::answered;
  }
  const known_command& what = *p.what;
  const service::paused paused = of.pausing(who.origin.worker);
  if (paused == service::paused::all ||
      (paused == service::paused::writes && may_change(of, who, what))) {
    return ran::later;
  }
  ran how = ran::answered;
  const std::size_t mark = who.reply.mark();
  const caller::replies before = who.mode;
  if (who.queued.is_open() && !is_let_through(what)) {
    if (what.is(flag_denyoom) && !has_room(of, p)) {
      refuse(of, who, p.what, out_of_memory);
      return how;
    }
    if (!who.queued.queue(what, p.said)) {
      refuse(of, who, p.what, "ERR the transaction is too large");
      return how;
    }
    who.queued_commands.store(static_cast<std::uint32_t>(who.queued.commands().size()));
    who.reply.raw("+QUEUED\r\n");
  } else {
    const std::uint64_t shards = what.shards == reach::all ? of.keys().all() : p.shards;
    const bool held = what.shards != reach::own;
    const keyspace::hold hold(of.keys(), held ? shards : 0);
    if (held) tick_shards(of, who.origin.worker, shards);
    static_cast<void>(invoke(of, who, p, of.read_clock()));
    if (who.awaited_ending) return ran::later;
    const bool aborted = what.name == "exec" && who.reply.is_error_at(mark);
    if (p.tells_of_keys() && !aborted) how = ran::done;
  }
  mind_mode(who, mark, before);
  return how;
}

namespace {

// Ends the watches. Returns true if a watched key has changed. REQUIRES that their shards are held.
bool end_watches(call& c) {
  keyspace& keys = c.of.keys();
  bool changed = false;
  for (const transaction::watched& w : c.who.queued.watches()) {
    store& s = keys.of(w.key);
    changed |= w.existed && !s.peek(w.key);
    changed |= s.changes(w.key) != w.changes;
    s.unwatch(w.key);
  }
  c.who.queued.watches().clear();
  c.who.watched_keys = 0;
  return changed;
}

// True if the shards to be written accept writes now. Once started, a transaction may exceed the
// limit, so that all of it runs, as in Redis. REQUIRES that the shards are held.
bool has_room_for_all(keyspace& keys, std::span<const prepared> all) {
  std::uint64_t shards = 0;
  for (const prepared& p : all) {
    if (p.what->is(flag_denyoom) && p.what->has_keys()) shards |= shards_of(keys, *p.what, p.args);
  }
  return has_room(keys, shards);
}

class beyond_limit {
 public:
  beyond_limit(keyspace& keys, std::uint64_t shards) noexcept : keys_(keys), shards_(shards) {
    let(true);
  }
  ~beyond_limit() { let(false); }
  beyond_limit(const beyond_limit&) = delete;
  beyond_limit& operator=(const beyond_limit&) = delete;

 private:
  void let(bool on) noexcept {
    for (std::uint64_t rest = shards_; rest != 0; rest &= rest - 1) {
      keys_.at(static_cast<std::uint32_t>(std::countr_zero(rest))).go_beyond_limit(on);
    }
  }
  keyspace& keys_;
  std::uint64_t shards_;
};

// Checks the rights again, which may have changed since the command was queued. Empty: allowed.
std::string objection_by_now(service& of, const caller& who, const prepared& p) {
  if (who.who() == nullptr) return std::string(no_auth);
  if (who.unlimited()) return {};
  const denied why = denied_by_rights(*who.who(), *p.what, p.args);
  if (why.what == denial::none) return {};
  note_denied(of, who, p, why, denied_in::multi);
  return "NOPERM ACLs rules changed between the moment the transaction was accumulated and the "
         "EXEC call. This command is no longer allowed for the following reason: " +
         std::string(why.what == denial::of_command
                         ? "no permission to execute the command or subcommand"
                         : "no permission to touch the specified keys");
}

// Returns the database for the commands after this one: SELECT may be queued too.
unsigned database_after(service& of, const caller& who, const prepared& p, unsigned before) {
  if (p.what->name != "select") return before;
  const bool allowed = who.unlimited() || (who.who() != nullptr && who.who()->may_run(*p.what));
  const std::uint64_t databases = of.current(who.origin.worker).databases;
  return allowed ? selected_by(p.said, databases).value_or(before) : before;
}

}  // namespace

void run_queued(call& c) {
  caller& who = c.who;
  keyspace& keys = c.of.keys();
  const std::vector<std::string_view> args = who.queued.arguments();
  std::vector<prepared> all;
  std::uint64_t shards = 0;
  unsigned database = who.database;
  for (const transaction::queued& q : who.queued.commands()) {
    prepared p;
    p.what = q.what;
    p.args = p.said = std::span(args).subspan(q.first, q.count);
    if (q.what->has_key_in(p.said)) {
      name_in(p, database);
      p.key = keys.key(p.args[static_cast<std::size_t>(q.what->keys.first)]);
    }
    database = database_after(c.of, who, p, database);
    shards |= q.what->shards == reach::keys ? shards_of(keys, *q.what, p.args) : keys.all();
    all.push_back(p);
  }
  for (const transaction::watched& w : who.queued.watches()) shards |= keys.mask_of(w.key);
  const keyspace::hold hold(keys, shards);
  tick_shards(c.of, who.origin.worker, shards);
  // The watches end with any outcome.
  const bool changed = end_watches(c);
  if (!has_room_for_all(keys, all)) {
    return c.out.error("EXECABORT Transaction discarded because of: " + std::string(out_of_memory));
  }
  if (changed) return c.out.null_array();
  const beyond_limit all_of_it(keys, shards);
  const std::size_t mark = who.reply.mark();
  c.out.array(all.size());
  take_back_unwanted(who, mark, who.mode);
  cordma::time_point at = c.of.read_clock();
  for (const prepared& p : all) {
    const std::size_t part = who.reply.mark();
    const caller::replies before = who.mode;
    const std::string why = objection_by_now(c.of, who, p);
    if (why.empty()) {
      at = invoke(c.of, who, p, at);
    } else {
      c.out.error(why);
    }
    take_back_unwanted(who, part, before);
  }
}

}  // namespace kv
