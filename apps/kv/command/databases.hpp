// databases: maps keys of the numbered databases to one keyspace, and back to their names.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "command.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Returns the key in the keyspace for a name in a database.
[[nodiscard]] std::string key_in(unsigned database, std::string_view name);

// Calls `each` once for every key of that database; `each` must not change the keyspace. Stops in a
// shard after all its keys of that database. REQUIRES that the caller holds all shards.
void each_key(keyspace& keys, unsigned database, store::scanned which,
              const std::function<void(const found&, std::string_view name)>& each);

// A command's arguments, with the keys as in the keyspace.
struct named_keys {
  std::vector<std::string_view> args;
  std::string text;  // of keys that differ from the client's
};
// Returns null if the keys are the client's own. REQUIRES that the command has a key in these
// arguments.
[[nodiscard]] std::shared_ptr<const named_keys> name_keys(const known_command& what,
                                                          std::span<const std::string_view> args,
                                                          unsigned database);

// Returns the database that SELECT with these arguments changes to; empty: it fails.
[[nodiscard]] std::optional<unsigned> selected_by(std::span<const std::string_view> args,
                                                  std::uint64_t databases) noexcept;

}  // namespace kv
