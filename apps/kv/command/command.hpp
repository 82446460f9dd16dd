// command: the commands of the server and their properties.
#pragma once

#include "../keyspace/counters.hpp"
#include "../keyspace/keyspace.hpp"

#include "../resp/reply.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

class caller;
class service;
struct call;

// Runs a command and writes its reply. Throws std::bad_alloc.
using handler = void (*)(call&);

// Flags as in COMMAND INFO; bit i has the name i of flag_names().
enum command_flag : std::uint32_t {
  flag_write = 1U << 0,
  flag_readonly = 1U << 1,
  flag_denyoom = 1U << 2,
  flag_admin = 1U << 3,
  flag_noscript = 1U << 4,
  flag_loading = 1U << 5,  // allowed while data is loaded
  flag_stale = 1U << 6,
  flag_skip_slowlog = 1U << 7,
  flag_fast = 1U << 8,
  flag_no_auth = 1U << 9,  // allowed before AUTH
  flag_no_async_loading = 1U << 10,
  flag_no_multi = 1U << 11,
  flag_allow_busy = 1U << 12,
  flag_skip_monitor = 1U << 13,
  flag_no_mandatory_keys = 1U << 14,
  flag_movablekeys = 1U << 15,
  flag_may_write = 1U << 16,  // depends on its arguments; has no name in COMMAND INFO
};
[[nodiscard]] std::span<const std::string_view> flag_names() noexcept;

// Groups of commands that users are allowed or denied together; bit i has the name i of
// category_names().
enum command_category : std::uint32_t {
  in_keyspace = 1U << 0,
  in_read = 1U << 1,  // implied by the flags, as are write, admin, fast and slow
  in_write = 1U << 2,
  in_hash = 1U << 6,
  in_string = 1U << 7,
  in_admin = 1U << 13,
  in_fast = 1U << 14,
  in_slow = 1U << 15,
  in_dangerous = 1U << 17,
  in_connection = 1U << 18,
  in_transaction = 1U << 19,
  in_scripting = 1U << 20,
};
[[nodiscard]] std::span<const std::string_view> category_names() noexcept;

// The effect of a command on a key, as in COMMAND INFO; bit i has the name i of key_use_names().
// One of the first four states what happens to the value as a whole. The next four state what
// happens to its content: users need rights for these.
enum key_use : std::uint16_t {
  use_ro = 1U << 0,  // reads it
  use_rw = 1U << 1,
  use_ow = 1U << 2,      // overwrites it
  use_rm = 1U << 3,      // removes it
  use_access = 1U << 4,  // returns its content, or copies it elsewhere
  use_update = 1U << 5,
  use_insert = 1U << 6,
  use_delete = 1U << 7,
  use_variable = 1U << 8,  // depends on the arguments: see use_of_key()
};
[[nodiscard]] std::span<const std::string_view> key_use_names() noexcept;

// Positions of the keys among the arguments: from `first` to `last` (negative: from the end) in
// steps. step 0: none. If `counted_at` is not 0, that argument is the number of keys from `first`
// on, and `last` is unused.
struct key_positions {
  std::int8_t first = 0;
  std::int8_t last = 0;
  std::int8_t step = 0;
  std::uint16_t use = 0;         // key_use
  std::uint16_t second_use = 0;  // of the second and last key; 0: the same
  std::uint8_t counted_at = 0;
  std::string_view note{};  // for COMMAND INFO
};

// The shards held while a command runs. `own`: none; such a command may change the rights of its
// client, and is not batched with others.
enum class reach : std::uint8_t { keys, all, own };

struct command;

// A table of commands, with values for fields that a command leaves empty. Its categories are added
// to those of each command.
struct command_group {
  std::span<const command> commands{};
  std::string_view name{};  // for COMMAND DOCS; sub-commands have the group of their command
  std::string_view since{};
  std::uint32_t flags = 0;
  std::uint32_t categories = 0;
  key_positions keys{};
  reach shards = reach::keys;
};

struct command {
  std::string_view name{};
  handler run = nullptr;  // null: it needs a sub-command
  int arity = 0;          // includes the name; negative: minimum
  std::uint32_t flags = 0;
  std::uint32_t categories = 0;  // besides those of the group
  key_positions keys{};
  reach shards = reach::keys;
  std::string_view group{};
  std::string_view since{};
  std::string_view complexity = "O(1)";
  std::string_view summary{};
  std::string_view tips{};  // for clients of clusters, separated by blanks
  command_group subcommands{};
};

// A command in the table.
struct known_command : command {
  std::size_t index = 0;      // among commands and sub-commands; for permissions and statistics
  std::string full_name;      // "client|list"
  std::uint32_t belongs = 0;  // categories, including those implied by flags
  std::vector<const known_command*> parts;

  [[nodiscard]] bool is(command_flag f) const noexcept { return (flags & f) != 0; }
  [[nodiscard]] bool writes() const noexcept {
    return (flags & (flag_write | flag_may_write)) != 0;
  }
  [[nodiscard]] bool fits(std::size_t arguments) const noexcept {
    return arity >= 0 ? arguments == static_cast<std::size_t>(arity)
                      : arguments >= static_cast<std::size_t>(-arity);
  }
  [[nodiscard]] bool has_keys() const noexcept { return keys.step != 0; }
  // Index after the last key. REQUIRES has_keys().
  [[nodiscard]] std::size_t keys_end(std::span<const std::string_view> args) const noexcept {
    if (keys.counted_at != 0) return counted_keys_end(args);
    if (keys.last >= 0) return std::min(static_cast<std::size_t>(keys.last) + 1, args.size());
    return args.size() + 1 - static_cast<std::size_t>(-keys.last);
  }
  // True if these arguments have at least one key.
  [[nodiscard]] bool has_key_in(std::span<const std::string_view> args) const noexcept {
    return has_keys() && static_cast<std::size_t>(keys.first) < keys_end(args);
  }

 private:
  [[nodiscard]] std::size_t counted_keys_end(std::span<const std::string_view> args) const noexcept;
};

using command_set = std::bitset<most_commands>;

// The table of all commands. Immutable; any thread.
class command_table {
 public:
  command_table();
  command_table(const command_table&) = delete;
  command_table& operator=(const command_table&) = delete;

  // Finds by name, in any case; null: unknown.
  [[nodiscard]] const known_command* find(std::string_view name) const noexcept;
  [[nodiscard]] const known_command* find_part(const known_command& of,
                                               std::string_view name) const noexcept;
  // Finds by full name: "get", "client|list".
  [[nodiscard]] const known_command* find_full(std::string_view name) const noexcept;
  // Top-level commands, in the order of the table.
  [[nodiscard]] std::span<const known_command* const> commands() const noexcept { return top_; }
  // Commands and sub-commands, by index.
  [[nodiscard]] std::span<const known_command> all() const noexcept { return all_; }

 private:
  struct slot {
    std::uint64_t name = 0;
    std::uint64_t rest = 0;
    const known_command* what = nullptr;
  };
  static constexpr std::size_t slots = 512;

  void add(const command& c, const command_group& group);
  known_command& place(const command& c, const command_group& group);
  void enter(const known_command& c) noexcept;

  std::vector<known_command> all_;
  std::vector<const known_command*> top_;
  std::array<slot, slots> by_name_;
};

// Returns the key_use of argument `i`, which is a key.
[[nodiscard]] std::uint16_t use_of_key(const known_command& what,
                                       std::span<const std::string_view> args,
                                       std::size_t i) noexcept;

// A command being run. Bound to the worker's thread.
struct call {
  service& of;
  caller& who;
  std::span<const std::string_view> args;
  const known_command& what;
  hashed_key key;  // the first key, if any
  reply_writer& out;

  [[nodiscard]] std::string_view arg(std::size_t i) const noexcept { return args[i]; }
  [[nodiscard]] std::size_t count() const noexcept { return args.size(); }
};

// Error texts that clients check.
inline constexpr std::string_view syntax_error = "ERR syntax error";
inline constexpr std::string_view wrong_type =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view not_an_integer = "ERR value is not an integer or out of range";
inline constexpr std::string_view not_a_float = "ERR value is not a valid float";
inline constexpr std::string_view out_of_memory =
    "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view key_too_long =
    "ERR key exceeds maximum allowed size (65535 bytes)";
inline constexpr std::string_view value_too_long =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

// The groups of the table, each defined beside its handlers.
[[nodiscard]] command_group string_commands() noexcept;
[[nodiscard]] command_group number_commands() noexcept;
[[nodiscard]] command_group key_commands() noexcept;
[[nodiscard]] command_group object_commands() noexcept;
[[nodiscard]] command_group memory_commands() noexcept;
[[nodiscard]] command_group scan_commands() noexcept;
[[nodiscard]] command_group expiry_commands() noexcept;
[[nodiscard]] command_group hash_commands() noexcept;
[[nodiscard]] command_group hash_walk_commands() noexcept;
[[nodiscard]] command_group connection_commands() noexcept;
[[nodiscard]] command_group client_commands() noexcept;
[[nodiscard]] command_group transaction_commands() noexcept;
[[nodiscard]] command_group server_commands() noexcept;
[[nodiscard]] command_group info_commands() noexcept;
[[nodiscard]] command_group config_commands() noexcept;
[[nodiscard]] command_group introspection_commands() noexcept;
[[nodiscard]] command_group acl_commands() noexcept;
[[nodiscard]] command_group slowlog_commands() noexcept;
[[nodiscard]] command_group script_commands() noexcept;
[[nodiscard]] command_group latency_commands() noexcept;
[[nodiscard]] command_group monitor_commands() noexcept;

}  // namespace kv
