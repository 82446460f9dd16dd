// MEMORY: memory use, of one key and of all.
#include "handling.hpp"

#include <algorithm>
#include <array>

namespace kv {
namespace {

constexpr std::size_t bucket_bytes = 64;
constexpr std::size_t keys_per_bucket = 7;

void usage(call& c) {
  for (std::size_t i = 3; i < c.count(); ++i) {
    if (!is_word(c.arg(i), "samples") || i + 1 >= c.count()) return c.out.error(syntax_error);
    const auto samples = integer_arg(c, ++i);
    if (!samples) return;
    if (*samples < 0) return c.out.error(syntax_error);
  }
  const found f = store_of(c, c.key).peek(c.key);
  if (!f) return c.out.null();
  std::size_t bytes = f.at->bytes() + bucket_bytes / keys_per_bucket;
  if (!f.is_string()) bytes += f.fields->bytes();
  if (f.at->kind() == value_kind::blob) bytes += f.value.size();
  c.out.integer(static_cast<std::int64_t>(bytes));
}

// Returns memory cached by malloc() to the system, on another thread. Segments and slabs are
// returned without this command.
void purge(call& c) {
  if (c.of.hooks.much_was_freed) c.of.hooks.much_was_freed();
  c.out.ok();
}

void malloc_stats(call& c) { c.out.bulk("Stats not supported for the current allocator"); }

std::size_t keys_of(keyspace& keys) noexcept {
  std::size_t sum = 0;
  for (std::uint32_t i = 0; i < keys.shards(); ++i) sum += keys.at(i).size();
  return sum;
}

// Returns the number of keys of each database.
std::array<std::size_t, most_databases> keys_of_databases(keyspace& keys) noexcept {
  std::array<std::size_t, most_databases> sum{};
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    for (unsigned db = 0; db < most_databases; ++db) sum[db] += keys.at(i).size_of(db);
  }
  return sum;
}

double ratio(std::size_t of, std::size_t to) noexcept {
  return to == 0 ? 0 : static_cast<double>(of) / static_cast<double>(to);
}

// Names and meanings are those of Redis, without the details of its allocator. Fragmentation refers
// to segments: memory held beyond the necessary.
void stats(call& c) {
  constexpr double percent = 100;
  const store_usage u = c.of.keys().usage();
  const std::size_t keys = keys_of(c.of.keys());
  const std::size_t clients = c.of.figures_of_clients().room_bytes;
  const auto databases = keys_of_databases(c.of.keys());
  const std::size_t total = u.bytes + clients;
  const std::size_t peak = std::max(total, c.of.peak_bytes(u.bytes));
  const std::size_t data = u.live_bytes + u.object_bytes;
  const std::size_t needed = std::min(data + u.index_bytes, u.bytes);
  const auto whole = [&](std::string_view name, std::size_t n) {
    c.out.bulk(name);
    c.out.integer(static_cast<std::int64_t>(n));
  };
  const auto real = [&](std::string_view name, double x) {
    c.out.bulk(name);
    c.out.real(x);
  };
  const auto empty = static_cast<std::size_t>(std::ranges::count(databases, 0U));
  c.out.map(18 + databases.size() - empty);
  whole("peak.allocated", peak);
  whole("total.allocated", total);
  for (const std::string_view none :
       {"startup.allocated", "replication.backlog", "clients.slaves"}) {
    whole(none, 0);
  }
  whole("clients.normal", clients);
  for (const std::string_view none :
       {"cluster.links", "aof.buffer", "lua.caches", "functions.caches"}) {
    whole(none, 0);
  }
  for (unsigned db = 0; db < most_databases; ++db) {
    if (databases[db] == 0) continue;
    c.out.bulk("db." + std::to_string(db));
    c.out.map(3);
    // Its part of the index, which all databases share.
    const double part = ratio(databases[db], keys) * static_cast<double>(u.index_bytes);
    whole("overhead.hashtable.main", static_cast<std::size_t>(part));
    whole("overhead.hashtable.expires", 0);
    whole("overhead.hashtable.slot-to-keys", 0);
  }
  whole("overhead.total", total - std::min(data, total));
  whole("keys.count", keys);
  whole("keys.bytes-per-key", keys == 0 ? 0 : total / keys);
  whole("dataset.bytes", data);
  real("dataset.percentage", percent * ratio(data, total));
  real("peak.percentage", percent * ratio(total, peak));
  real("fragmentation", ratio(u.bytes, needed));
  whole("fragmentation.bytes", u.bytes - needed);
}

void doctor(call& c) {
  const store_usage u = c.of.keys().usage();
  const settings& now = c.of.current(c.who.origin.worker);
  std::uint64_t refused = 0;
  for (std::uint32_t i = 0; i < c.of.keys().shards(); ++i) {
    refused += c.of.keys().at(i).counters().refused;
  }
  std::string text = std::to_string(u.bytes) + " bytes are held: " + std::to_string(u.index_bytes) +
                     " by the index, " + std::to_string(u.live_bytes + u.object_bytes) +
                     " by keys and values.";
  if (refused != 0) {
    text += " Writes were refused for want of memory (" + std::to_string(refused) +
            "): raise maxmemory, or choose a maxmemory-policy that gives up keys.";
  } else if (now.maxmemory == 0) {
    text += " Nothing limits them but the machine's memory: set maxmemory.";
  } else {
    text += " Nothing is wrong with that.";
  }
  c.out.verbatim(text + "\n");
}

void help(call& c) {
  reply_help(c, "MEMORY",
             {"DOCTOR", "    Return memory problems reports.", "MALLOC-STATS",
              "    Return internal statistics report from the memory allocator.", "PURGE",
              "    Attempt to purge dirty pages for reclamation by the allocator.", "STATS",
              "    Return information about the memory usage of the server.",
              "USAGE <key> [SAMPLES <count>]",
              "    Return memory in bytes used by <key> and its value. Nested values are",
              "    sampled up to <count> times (default: 5, 0 means sample all)."});
}

constexpr auto parts = std::to_array<command>({
    {.name = "usage",
     .run = usage,
     .arity = -3,
     .flags = flag_readonly,
     .keys = {.first = 2, .last = 2, .step = 1, .use = use_ro},
     .complexity = "O(N) where N is the number of samples.",
     .summary = "Estimate the memory usage of a key"},
    {.name = "purge",
     .run = purge,
     .arity = 2,
     .complexity = "Depends on how much memory is allocated, could be slow",
     .summary = "Ask the allocator to release memory",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
    {.name = "stats",
     .run = stats,
     .arity = 2,
     .shards = reach::all,
     .summary = "Show memory usage details",
     .tips = "nondeterministic_output request_policy:all_shards response_policy:special"},
    {.name = "doctor",
     .run = doctor,
     .arity = 2,
     .shards = reach::all,
     .summary = "Outputs memory problems report",
     .tips = "nondeterministic_output request_policy:all_shards response_policy:special"},
    {.name = "malloc-stats",
     .run = malloc_stats,
     .arity = 2,
     .summary = "Show allocator internal stats",
     .tips = "nondeterministic_output request_policy:all_shards response_policy:special"},
    help_part(help, "4.0.0"),
});

constexpr auto memory_table = std::to_array<command>({
    container("memory", "4.0.0", "A container for memory diagnostics commands",
              {.commands = parts, .since = "4.0.0"}),
});

}  // namespace

command_group memory_commands() noexcept { return {.commands = memory_table, .name = "server"}; }

}  // namespace kv
