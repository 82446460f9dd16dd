// dispatch: from the arguments of a command to its reply.
#pragma once

#include "caller.hpp"
#include "command.hpp"
#include "databases.hpp"
#include "service.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kv {

// Commands that are carried out in one go: their keys are brought closer together, and their shards taken once.
inline constexpr std::size_t most_at_once = 16;

// A command that was read and looked up, and not carried out yet.
struct prepared {
  std::span<const std::string_view> args;
  std::span<const std::string_view> said;   // by the client: keys may be called otherwise there
  std::shared_ptr<const named_keys> named;  // whose `args` are, where keys are
  const known_command* what = nullptr;      // null: unknown
  hashed_key key;                           // the first, where it has one
  std::uint64_t shards = 0;                 // those of its keys
  // Nothing but its keys is needed, and nothing stands against it: run_plain() can have it.
  bool plain = false;

  // Whether its reply depends on what keys hold.
  [[nodiscard]] bool tells_of_keys() const noexcept {
    return what->writes() || what->is(flag_readonly) || what->name == "exec";
  }
};

// What stands against all commands at once; found once for each batch.
struct conditions {
  bool plain_allowed = false;
  bool writes_allowed = false;
  service::paused paused = service::paused::none;
};
[[nodiscard]] conditions conditions_for(service& of, const caller& who);

[[nodiscard]] prepared prepare(service& of, const caller& who, const conditions& now,
                               std::span<const std::string_view> args);

// REQUIRES that each is plain. Stops early where replies are more than `most_output` bytes together; returns how many
// were carried out.
[[nodiscard]] std::size_t run_plain(service& of, caller& who, std::span<const prepared> commands,
                                    std::size_t most_output);
// Any other.
enum class ran : std::uint8_t {
  later,  // it has to wait: see service::pausing()
  answered,  // with nothing that depends on what keys hold: it was refused or queued, or is about other things
  done,
};
[[nodiscard]] ran run_other(service& of, caller& who, const prepared& p);

// EXEC: what is queued, in one go. `out` has nothing of the reply yet.
void run_queued(call& c);

// Whether something that it has queued is a write.
[[nodiscard]] bool has_writes(const transaction& t) noexcept;
// Of what would change anything: empty, or the refusal.
[[nodiscard]] std::string refusal_by_journal(const service& of);
// What a user's rights have against a command.
enum class denial : std::uint8_t { none, of_command, of_key };
struct denied {
  denial what = denial::none;
  std::size_t key = 0;  // the argument that is not his, where it is a key
};
[[nodiscard]] denied denied_by_rights(const user& u, const known_command& what,
                                      std::span<const std::string_view> args) noexcept;
// For ACL LOG. REQUIRES that something is denied.
enum class denied_in : std::uint8_t { toplevel, multi };
void note_denied(service& of, const caller& who, const prepared& p, denied why, denied_in where);
// MULTI is over, and nothing of it was carried out. Holds no shard.
void abandon_transaction(service& of, caller& who);

}  // namespace kv
