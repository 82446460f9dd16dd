// SLOWLOG.
#include "handling.hpp"

#include <array>

namespace kv {
namespace {

void slowlog_get(call& c) {
  std::int64_t count = 10;
  if (c.count() > 3) return c.out.error(syntax_error);
  if (c.count() == 3) {
    constexpr std::string_view range = "ERR count should be greater than or equal to -1";
    const auto n = integer_arg(c, 2, range);
    if (!n) return;
    if (*n < -1) return c.out.error(range);
    count = *n;
  }
  const auto entries =
      c.of.slow().newest(count < 0 ? ~std::size_t{0} : static_cast<std::size_t>(count));
  c.out.array(entries.size());
  for (const slowlog::entry& e : entries) {
    c.out.array(6);
    c.out.integer(static_cast<std::int64_t>(e.id));
    c.out.integer(static_cast<std::int64_t>(e.when / 1000));
    c.out.integer(static_cast<std::int64_t>(e.microseconds));
    c.out.array(e.args.size());
    for (const std::string& a : e.args) c.out.bulk(a);
    c.out.bulk(e.peer);
    c.out.bulk(e.name);
  }
}

void slowlog_len(call& c) { c.out.integer(static_cast<std::int64_t>(c.of.slow().size())); }

void slowlog_reset(call& c) {
  c.of.slow().clear();
  c.out.ok();
}

void slowlog_help(call& c) {
  reply_help(c, "SLOWLOG",
             {"GET [<count>]",
              "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
              "    Entries are made of:",
              "    id, timestamp, time in microseconds, arguments array, client IP and port,",
              "    client name", "LEN", "    Return the length of the slowlog.", "RESET",
              "    Reset the slowlog."});
}

constexpr auto slowlog_parts = std::to_array<command>({
    {.name = "get",
     .run = slowlog_get,
     .arity = -2,
     .complexity = "O(N) where N is the number of entries returned",
     .summary = "Get the slow log's entries",
     .tips = "request_policy:all_nodes nondeterministic_output"},
    {.name = "len",
     .run = slowlog_len,
     .arity = 2,
     .summary = "Get the slow log's length",
     .tips = "request_policy:all_nodes response_policy:agg_sum nondeterministic_output"},
    {.name = "reset",
     .run = slowlog_reset,
     .arity = 2,
     .complexity = "O(N) where N is the number of entries in the slowlog",
     .summary = "Clear all entries from the slow log",
     .tips = "request_policy:all_nodes response_policy:all_succeeded"},
    help_part(slowlog_help, "6.2.0"),
});

constexpr auto slowlogs_table = std::to_array<command>({
    container("slowlog", "2.2.12", "A container for slow log commands",
              {.commands = slowlog_parts,
               .since = "2.2.12",
               .flags = flag_admin | flag_loading | flag_stale,
               .shards = reach::own}),
});

}  // namespace

command_group slowlog_commands() noexcept { return {.commands = slowlogs_table, .name = "server"}; }

}  // namespace kv
