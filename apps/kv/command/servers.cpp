// Commands on the whole server: SHUTDOWN, SAVE, TIME and so on.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <thread>

namespace kv {
namespace {

void time_of_day(call& c) {
  const std::uint64_t now_us = c.of.read_wall_clock_us();
  c.out.array(2);
  c.out.bulk_integer(static_cast<std::int64_t>(now_us / 1'000'000));
  c.out.bulk_integer(static_cast<std::int64_t>(now_us % 1'000'000));
}

void tell(call& c, const hook_answer& answer) {
  answer.done ? c.out.simple(answer.text) : c.out.error("ERR " + answer.text);
}

constexpr std::string_view not_kept = "ERR this server keeps nothing on disk";

void save(call& c) {
  if (!c.of.hooks.save) return c.out.error(not_kept);
  tell(c, c.of.hooks.save());
}

void bgsave(call& c) {
  if (c.count() > 2 || (c.count() == 2 && !is_word(c.arg(1), "schedule"))) {
    return c.out.error(syntax_error);
  }
  if (!c.of.hooks.background_save) return c.out.error(not_kept);
  tell(c, c.of.hooks.background_save());
}

void bgrewriteaof(call& c) {
  if (!c.of.hooks.rewrite_log) return c.out.error(not_kept);
  tell(c, c.of.hooks.rewrite_log());
}

void lastsave(call& c) {
  const persistence_info p = c.of.hooks.persistence ? c.of.hooks.persistence() : persistence_info();
  const std::uint64_t since = p.last_save != 0 ? p.last_save : c.of.started_ms() / 1000;
  c.out.integer(static_cast<std::int64_t>(since));
}

void shutdown(call& c) {
  constexpr std::string_view failed = "ERR Errors trying to SHUTDOWN. Check logs.";
  if (c.who.awaited_ending) {
    if (c.of.failed_endings == *c.who.awaited_ending) return;
    c.who.awaited_ending.reset();
    return c.out.error(failed);
  }
  using snapshot = shutdown_request::snapshot;
  shutdown_request how;
  for (std::size_t i = 1; i < c.count(); ++i) {
    if (is_word(c.arg(i), "nosave") && how.save != snapshot::yes) {
      how.save = snapshot::no;
    } else if (is_word(c.arg(i), "save") && how.save != snapshot::no) {
      how.save = snapshot::yes;
    } else if (is_word(c.arg(i), "force")) {
      how.force = true;
    } else if (is_word(c.arg(i), "abort") && c.count() == 2) {
      return c.out.error("ERR No shutdown in progress.");
    } else if (!is_word(c.arg(i), "now")) {  // there are no replicas to wait for
      return c.out.error(syntax_error);
    }
  }
  if (!c.of.hooks.shutdown) return c.out.error(failed);
  const std::uint64_t so_far = c.of.failed_endings;
  const hook_answer answer = c.of.hooks.shutdown(how);
  if (!answer.done) return c.out.error("ERR " + answer.text);
  c.who.awaited_ending = so_far;
}

// Blocks this worker for that time, for tests of clients that wait for it.
void debug_sleep(call& c) {
  constexpr long double longest = 3600;  // seconds
  const auto seconds = parse_float(c.arg(2));
  if (!seconds || *seconds < 0 || *seconds > longest) return c.out.error(not_a_float);
  std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(*seconds)));
  c.out.ok();
}

void debug_help(call& c) {
  reply_help(c, "DEBUG",
             {"SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed."});
}

// Test suites of clients send it between tests. Functions do not exist here.
void function_flush(call& c) {
  if (c.count() > 3 ||
      (c.count() == 3 && !is_word(c.arg(2), "sync") && !is_word(c.arg(2), "async"))) {
    return c.out.error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
  }
  c.out.ok();
}

void function_list(call& c) { c.out.array(0); }

void role(call& c) {
  c.out.array(3);
  c.out.bulk("master");
  c.out.integer(0);
  c.out.array(0);
}

// Replicas do not exist here.
void wait_for_replicas(call& c) {
  if (!integer_arg(c, 1)) return;
  const auto timeout = integer_arg(c, 2, "ERR timeout is not an integer or out of range");
  if (!timeout) return;
  if (*timeout < 0) return c.out.error("ERR timeout is negative");
  c.out.integer(0);
}

constexpr auto debug_parts = std::to_array<command>({
    {.name = "sleep",
     .run = debug_sleep,
     .arity = 3,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .complexity = {},
     .summary = "Stop the server for a time"},
    {.name = "help",
     .run = debug_help,
     .arity = 2,
     .flags = flag_loading | flag_stale,
     .complexity = {},
     .summary = "Show helpful text about the different subcommands"},
});

constexpr auto function_parts = std::to_array<command>({
    {.name = "flush",
     .run = function_flush,
     .arity = -2,
     .flags = flag_write | flag_noscript,
     .complexity = "O(N) where N is the number of functions deleted",
     .summary = "Deleting all functions",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
    {.name = "list",
     .run = function_list,
     .arity = -2,
     .flags = flag_noscript,
     .complexity = "O(N) where N is the number of functions",
     .summary = "List information about all the functions",
     .tips = "nondeterministic_output_order"},
});

constexpr auto servers_table = std::to_array<command>({
    {.name = "time",
     .run = time_of_day,
     .arity = 1,
     .flags = flag_loading | flag_stale | flag_fast,
     .since = "2.6.0",
     .summary = "Return the current server time",
     .tips = "nondeterministic_output"},
    {.name = "save",
     .run = save,
     .arity = 1,
     .flags = flag_admin | flag_noscript | flag_no_async_loading | flag_no_multi,
     .shards = reach::own,
     .since = "1.0.0",
     .complexity = "O(N) where N is the total number of keys in all databases",
     .summary = "Synchronously save the dataset to disk"},
    {.name = "bgsave",
     .run = bgsave,
     .arity = -1,
     .flags = flag_admin | flag_noscript | flag_no_async_loading,
     .shards = reach::own,
     .since = "1.0.0",
     .summary = "Asynchronously save the dataset to disk"},
    {.name = "bgrewriteaof",
     .run = bgrewriteaof,
     .arity = 1,
     .flags = flag_admin | flag_noscript | flag_no_async_loading,
     .shards = reach::own,
     .since = "1.0.0",
     .summary = "Asynchronously rewrite the append-only file"},
    {.name = "lastsave",
     .run = lastsave,
     .arity = 1,
     .flags = flag_loading | flag_stale | flag_fast,
     .categories = in_dangerous | in_admin,
     .shards = reach::own,
     .since = "1.0.0",
     .summary = "Get the UNIX time stamp of the last successful save to disk",
     .tips = "nondeterministic_output"},
    {.name = "shutdown",
     .run = shutdown,
     .arity = -1,
     .flags =
         flag_admin | flag_noscript | flag_loading | flag_stale | flag_no_multi | flag_allow_busy,
     .shards = reach::own,
     .since = "1.0.0",
     .complexity = {},
     .summary = "Synchronously save the dataset to disk and then shut down the server"},
    {.name = "debug",
     .arity = -2,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "1.0.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for debugging commands",
     .subcommands = {.commands = debug_parts, .since = "1.0.0", .shards = reach::own}},
    {.name = "function",
     .arity = -2,
     .group = "scripting",
     .since = "7.0.0",
     .complexity = "Depends on subcommand.",
     .summary = "A container for function commands",
     .subcommands = {.commands = function_parts,
                     .since = "7.0.0",
                     .categories = in_scripting,
                     .shards = reach::own}},
    {.name = "role",
     .run = role,
     .arity = 1,
     .flags = flag_noscript | flag_loading | flag_stale | flag_fast,
     .categories = in_dangerous | in_admin,
     .shards = reach::own,
     .since = "2.8.12",
     .summary = "Return the role of the instance in the context of replication"},
    {.name = "wait",
     .run = wait_for_replicas,
     .arity = 3,
     .flags = flag_noscript,
     .categories = in_connection,
     .shards = reach::own,
     .group = "generic",
     .since = "3.0.0",
     .summary = "Wait for the synchronous replication of all the write commands sent in the "
                "context of the current connection",
     .tips = "request_policy:all_shards response_policy:agg_min"},
});

}  // namespace

command_group server_commands() noexcept {
  return {.commands = servers_table, .name = "server", .since = "1.0.0"};
}

}  // namespace kv
