// dispatch: runs a command, from its arguments to its reply.
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

// Limit of commands in one batch: their keys are prefetched together, and their shards are locked
// once.
inline constexpr std::size_t most_at_once = 16;

// A command that was read and looked up, but has not run yet.
struct prepared {
  std::span<const std::string_view> args;
  std::span<const std::string_view> said;   // from the client; keys may have other names there
  std::shared_ptr<const named_keys> named;  // owns `args`, if keys were renamed
  const known_command* what = nullptr;      // null: unknown
  hashed_key key;                           // the first key, if any
  std::uint64_t shards = 0;                 // those of its keys
  // It needs only its keys and nothing forbids it: run_plain() may run it.
  bool plain = false;

  // True if its reply depends on the values of keys.
  [[nodiscard]] bool tells_of_keys() const noexcept {
    return what->writes() || what->is(flag_readonly) || what->name == "exec";
  }
};

// Conditions that affect all commands; determined once per batch.
struct conditions {
  bool plain_allowed = false;
  bool writes_allowed = false;
  service::paused paused = service::paused::none;
};
[[nodiscard]] conditions conditions_for(service& of, const caller& who);

[[nodiscard]] prepared prepare(service& of, const caller& who, const conditions& now,
                               std::span<const std::string_view> args);

// Runs commands that are all plain (REQUIRES). Stops early if the replies exceed `most_output`
// bytes together. Returns the number of commands that ran.
[[nodiscard]] std::size_t run_plain(service& of, caller& who, std::span<const prepared> commands,
                                    std::size_t most_output);
// Outcome of run_other(), which runs any other command.
enum class ran : std::uint8_t {
  later,     // it has to wait: see service::pausing()
  answered,  // refused, queued, or independent of the values of keys
  done,
};
[[nodiscard]] ran run_other(service& of, caller& who, const prepared& p);

// EXEC: runs the queued commands in one go. `out` has nothing of the reply yet.
void run_queued(call& c);

// True if it has queued a write.
[[nodiscard]] bool has_writes(const transaction& t) noexcept;
// For commands that change data: returns the refusal, or an empty string.
[[nodiscard]] std::string refusal_by_journal(const service& of);
// A user's missing right for a command.
enum class denial : std::uint8_t { none, of_command, of_key };
struct denied {
  denial what = denial::none;
  std::size_t key = 0;  // the denied argument, if it is a key
};
[[nodiscard]] denied denied_by_rights(const user& u, const known_command& what,
                                      std::span<const std::string_view> args) noexcept;
// Records it for ACL LOG. REQUIRES that something is denied.
enum class denied_in : std::uint8_t { toplevel, multi };
void note_denied(service& of, const caller& who, const prepared& p, denied why, denied_in where);
// Ends MULTI without running any of it. Holds no shard.
void abandon_transaction(service& of, caller& who);

}  // namespace kv
