#include "command.hpp"
#include "word.hpp"

#include "../resp/number.hpp"

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kv {
namespace {

constexpr std::size_t longest_name = 16;
constexpr std::uint64_t lower_case = 0x2020'2020'2020'2020;

constexpr std::array<std::string_view, 16> flags{
    "write",      "readonly",         "denyoom",
    "admin",      "noscript",         "loading",
    "stale",      "skip_slowlog",     "fast",
    "no_auth",    "no_async_loading", "no_multi",
    "allow_busy", "skip_monitor",     "no_mandatory_keys",
    "movablekeys"};

constexpr std::array<std::string_view, 21> categories{
    "keyspace", "read",   "write",       "set",       "sortedset",  "list",        "hash",
    "string",   "bitmap", "hyperloglog", "geo",       "stream",     "pubsub",      "admin",
    "fast",     "slow",   "blocking",    "dangerous", "connection", "transaction", "scripting"};

constexpr std::array<std::string_view, 9> key_uses{
    "RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "variable_flags"};

// Folds the letters of a short name, in lower case, into two integers. They are equal only for
// equal names, because all names consist of letters.
std::pair<std::uint64_t, std::uint64_t> folded(std::string_view name) noexcept {
  const char* const p = name.data();
  const std::size_t n = name.size();
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (n >= 8) {
    std::memcpy(&low, p, 8);
    std::memcpy(&high, p + n - 8, 8);
  } else if (n >= 4) {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::memcpy(&a, p, 4);
    std::memcpy(&b, p + n - 4, 4);
    low = a;
    high = b;
  } else if (n != 0) {
    low = static_cast<unsigned char>(p[0]);
    high = static_cast<unsigned char>(p[n / 2]) |
           std::uint64_t{static_cast<unsigned char>(p[n - 1])} << 8;
  }
  return {low | lower_case, (high | lower_case) ^ std::uint64_t{n} << 56};
}

std::size_t place_of(std::uint64_t low, std::uint64_t high) noexcept {
  return static_cast<std::size_t>(
      ((low * 0x9E37'79B9'7F4A'7C15) ^ (high * 0xC2B2'AE3D'27D4'EB4F)) >> 48);
}

std::uint32_t implied(const command& c) noexcept {
  std::uint32_t all = c.categories;
  if ((c.flags & flag_write) != 0) all |= in_write;
  if ((c.flags & flag_readonly) != 0) all |= in_read;
  if ((c.flags & flag_admin) != 0) all |= in_admin | in_dangerous;
  return all | ((c.flags & flag_fast) != 0 ? in_fast : in_slow);
}

}  // namespace

std::span<const std::string_view> flag_names() noexcept { return flags; }
std::span<const std::string_view> category_names() noexcept { return categories; }
std::span<const std::string_view> key_use_names() noexcept { return key_uses; }

std::uint16_t use_of_key(const known_command& what, std::span<const std::string_view> args,
                         std::size_t i) noexcept {
  const key_positions& keys = what.keys;
  if ((keys.use & use_variable) == 0) {
    const bool first = i == static_cast<std::size_t>(keys.first);
    return first || keys.second_use == 0 ? keys.use : keys.second_use;
  }
  // SET: GET returns the old value, and IFEQ reveals whether it was equal.
  const bool gets = args.size() > 3 && std::ranges::any_of(args.subspan(3), [](std::string_view a) {
                      return is_word("get", a) || is_word("ifeq", a);
                    });
  return gets ? use_rw | use_access | use_update : use_ow | use_update;
}

std::size_t known_command::counted_keys_end(std::span<const std::string_view> args) const noexcept {
  const auto first = static_cast<std::size_t>(keys.first);
  if (args.size() <= first) return first;
  const auto n = parse_integer(args[keys.counted_at]);
  if (!n || *n < 0) return first;
  return first +
         static_cast<std::size_t>(std::min(*n, static_cast<std::int64_t>(args.size() - first)));
}

command_table::command_table() : by_name_{} {
  all_.reserve(most_commands);
  for (const command_group& group :
       {string_commands(),    number_commands(),     key_commands(),    object_commands(),
        memory_commands(),    scan_commands(),       expiry_commands(), hash_commands(),
        hash_walk_commands(), connection_commands(), client_commands(), transaction_commands(),
        server_commands(),    info_commands(),       config_commands(), introspection_commands(),
        acl_commands(),       slowlog_commands(),    script_commands(), latency_commands(),
        monitor_commands()}) {
    for (const command& c : group.commands) add(c, group);
  }
}

void command_table::add(const command& c, const command_group& group) {
  CORDMA_ASSERT(c.name.size() <= longest_name);
  known_command& top = place(c, group);
  top.full_name = c.name;
  for (const command& part : c.subcommands.commands) {
    known_command& sub = place(part, c.subcommands);
    sub.full_name = std::string(c.name) + '|' + std::string(part.name);
    sub.group = top.group;
    top.parts.push_back(&sub);
  }
  top_.push_back(&top);
  enter(top);
}

known_command& command_table::place(const command& c, const command_group& group) {
  CORDMA_ASSERT(all_.size() < most_commands);  // reserved for all, so none moves
  known_command& made = all_.emplace_back();
  static_cast<command&>(made) = c;
  if (c.group.empty()) made.group = group.name;
  if (c.since.empty()) made.since = group.since;
  if (c.flags == 0) made.flags = group.flags;
  if (c.keys.step == 0) made.keys = group.keys;
  if (c.shards == reach::keys) made.shards = group.shards;
  made.categories |= group.categories;
  made.index = all_.size() - 1;
  made.belongs = implied(made);
  CORDMA_ASSERT((made.keys.step == 0) == (made.keys.use == 0));
  return made;
}

void command_table::enter(const known_command& c) noexcept {
  const auto [low, high] = folded(c.name);
  std::size_t at = place_of(low, high) % slots;
  while (by_name_[at].what != nullptr) at = (at + 1) % slots;
  by_name_[at] = {low, high, &c};
}

const known_command* command_table::find(std::string_view name) const noexcept {
  if (name.size() > longest_name) return nullptr;
  const auto [low, high] = folded(name);
  for (std::size_t at = place_of(low, high) % slots; by_name_[at].what != nullptr;
       at = (at + 1) % slots) {
    if (by_name_[at].name == low && by_name_[at].rest == high) return by_name_[at].what;
  }
  return nullptr;
}

const known_command* command_table::find_part(const known_command& of,
                                              std::string_view name) const noexcept {
  for (const known_command* part : of.parts) {
    if (is_word(part->name, name)) return part;
  }
  return nullptr;
}

const known_command* command_table::find_full(std::string_view name) const noexcept {
  const std::size_t bar = name.find('|');
  const known_command* const top = find(name.substr(0, bar));
  if (top == nullptr || bar == std::string_view::npos) return top;
  return find_part(*top, name.substr(bar + 1));
}

}  // namespace kv
