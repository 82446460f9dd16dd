// databases: how keys of the numbered databases lie in one keyspace, and what their clients call them.
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

// The key in the keyspace for that name in that database.
[[nodiscard]] std::string key_in(unsigned database, std::string_view name);

// Calls `each` for every key of that database, once, as long as it changes nothing. A shard is left when all that it has
// were there. REQUIRES that the caller holds all shards.
void each_key(keyspace& keys, unsigned database, store::scanned which,
              const std::function<void(const found&, std::string_view name)>& each);

// A command's arguments, with the keys as the keyspace has them.
struct named_keys {
  std::vector<std::string_view> args;
  std::string text;  // of those that are not as the client said them
};
// Null: they are as the client said them. REQUIRES that the command has a key in these arguments.
[[nodiscard]] std::shared_ptr<const named_keys> name_keys(const known_command& what,
                                                          std::span<const std::string_view> args,
                                                          unsigned database);

// The database that SELECT with these arguments changes to. Nothing: it fails.
[[nodiscard]] std::optional<unsigned> selected_by(std::span<const std::string_view> args,
                                                  std::uint64_t databases) noexcept;

}  // namespace kv
