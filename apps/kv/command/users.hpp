// users: accounts and their rights.
#pragma once

#include "command.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

inline constexpr std::string_view default_user = "default";

enum class key_access : std::uint8_t { none, read = 1, write = 2, both = 3 };

// Immutable once others see it.
struct user {
  struct key_pattern {
    std::string glob;
    key_access access = key_access::both;
    friend bool operator==(const key_pattern&, const key_pattern&) = default;
  };

  std::string name;
  bool enabled = false;
  bool any_password = false;           // "nopass"
  std::vector<std::string> passwords;  // SHA-256, in hexadecimal digits
  command_set allowed;
  std::vector<std::string> rules;  // rules that led to `allowed`, from none or all: "+@all", "-get"
  bool all_keys = false;
  std::vector<key_pattern> keys;
  // "sanitize-payload", "skip-sanitize-payload" or empty; only reported: the feature does not exist
  // here.
  std::string_view payloads{};
  bool all_channels = false;  // only reported; there are no subscriptions
  std::vector<std::string> channels;

  // True if it may run everything on every key, so that no command needs a check.
  [[nodiscard]] bool unlimited() const noexcept { return all_keys && allowed.all(); }
  [[nodiscard]] bool may_run(const known_command& c) const noexcept { return allowed[c.index]; }
  // True if one of its patterns matches the key and grants all of `how`; for `none` any pattern
  // does.
  [[nodiscard]] bool may_use(std::string_view key, key_access how) const noexcept;
  [[nodiscard]] bool accepts(std::string_view password) const;
  // Applies one rule: "on", ">secret", "+@read", "~prefix:*". Returns an empty string, or the
  // reason of a failure.
  [[nodiscard]] std::string apply(std::string_view rule, const command_table& table);
  // Returns rules that produce this user, as in ACL LIST: "on #... ~* &* +@all".
  [[nodiscard]] std::string describe() const;
  // Returns "NAME RULES" for a file; split_words() restores the same name and rules.
  [[nodiscard]] std::string line() const;
  [[nodiscard]] std::string describe_commands() const;
  [[nodiscard]] std::string describe_keys() const;
  [[nodiscard]] std::string describe_channels() const;

 private:
  [[nodiscard]] std::vector<std::string> described() const;
  [[nodiscard]] std::string apply_command(std::string_view rule, const command_table& table);
  [[nodiscard]] std::string apply_password(std::string_view rule);
  [[nodiscard]] std::string apply_keys(std::string_view rule);
  void noted(std::string_view rule);
};

// The users of a server. Any thread.
class users {
 public:
  explicit users(const command_table& table);

  // Returns null if it does not exist.
  [[nodiscard]] std::shared_ptr<const user> find(std::string_view name) const;
  // Returns null if the user does not exist or is not enabled, or the password is wrong.
  [[nodiscard]] std::shared_ptr<const user> authenticate(std::string_view name,
                                                         std::string_view password) const;
  // Applies all rules or none. Returns an empty string, or the error for the client: "Error in ACL
  // SETUSER modifier 'x': Syntax error".
  [[nodiscard]] std::string set(std::string_view name, std::span<const std::string_view> rules);
  // requirepass; empty: the default user needs no password.
  void require_password(std::string_view password);
  [[nodiscard]] bool erase(std::string_view name);
  // Sorted by name.
  [[nodiscard]] std::vector<std::shared_ptr<const user>> all() const;
  // Applies the users of a configuration ("NAME RULES"), which had `before` at the last read. Users
  // with a changed line are made anew, users with a removed line are erased, and users set by other
  // means remain. All or nothing: returns an empty string, or the reason of a failure.
  [[nodiscard]] std::string configure(std::span<const std::string> before,
                                      std::span<const std::string> lines);
  // Converts to and from the lines "user NAME RULES" of a file. Loading is all or nothing: returns
  // an empty string, or the reason of a failure.
  [[nodiscard]] std::string save() const;
  [[nodiscard]] std::string load(std::string_view text);
  [[nodiscard]] std::string load_file(const std::string& path);
  // Replaces all users by the others, which use the same command table.
  void take(const users& others);
  // Changes whenever a user changes.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  using by_name = std::map<std::string, std::shared_ptr<const user>, std::less<>>;
  // Makes a new user, without earlier rules.
  [[nodiscard]] std::string make_in(by_name& in, std::span<const std::string> words) const;
  [[nodiscard]] std::string set_in(by_name& in, std::string_view name,
                                   std::span<const std::string_view> rules) const;
  [[nodiscard]] std::shared_ptr<const user> fresh_default() const;

  const command_table& table_;
  mutable std::mutex guard_;
  by_name users_;
  std::atomic<std::uint64_t> generation_ = 0;
};

// True for a name without blanks and NULs, as in Redis.
[[nodiscard]] bool is_user_name(std::string_view name) noexcept;

}  // namespace kv
