// users: who may do what.
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

// Never changed once others see it.
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
  std::vector<std::string>
      rules;  // how `allowed` came about, from nothing or everything on: "+@all", "-get"
  bool all_keys = false;
  std::vector<key_pattern> keys;
  // "sanitize-payload", "skip-sanitize-payload" or nothing, kept for those who ask: what it is about does not exist here.
  std::string_view payloads{};
  bool all_channels = false;  // kept for those who ask; nobody can subscribe
  std::vector<std::string> channels;

  // Everything, to every key: then nothing has to be looked at for each command.
  [[nodiscard]] bool unlimited() const noexcept { return all_keys && allowed.all(); }
  [[nodiscard]] bool may_run(const known_command& c) const noexcept { return allowed[c.index]; }
  // Whether one of its patterns fits the key and gives all of that; for `none` any pattern does.
  [[nodiscard]] bool may_use(std::string_view key, key_access how) const noexcept;
  [[nodiscard]] bool accepts(std::string_view password) const;
  // One rule: "on", ">secret", "+@read", "~prefix:*". Empty: done. Else why not.
  [[nodiscard]] std::string apply(std::string_view rule, const command_table& table);
  // "on #... ~* &* +@all": rules that lead to it, as ACL LIST shows them.
  [[nodiscard]] std::string describe() const;
  // "NAME RULES" for a file: split_words() makes the same name and rules of it.
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

// Of a server. Any thread.
class users {
 public:
  explicit users(const command_table& table);

  // Null: there is none.
  [[nodiscard]] std::shared_ptr<const user> find(std::string_view name) const;
  // Null: no such user, not enabled, or another password.
  [[nodiscard]] std::shared_ptr<const user> authenticate(std::string_view name,
                                                         std::string_view password) const;
  // All rules or none. Empty: done. Else what CLIENTs are told: "Error in ACL SETUSER modifier 'x': Syntax error".
  [[nodiscard]] std::string set(std::string_view name, std::span<const std::string_view> rules);
  // requirepass: empty, and the default user needs none.
  void require_password(std::string_view password);
  [[nodiscard]] bool erase(std::string_view name);
  // In the order of their names.
  [[nodiscard]] std::vector<std::shared_ptr<const user>> all() const;
  // What a configuration says of users ("NAME RULES"), where it said `before` when it was read last: whose line is
  // another is made anew, whose line is gone goes, who was set by other means stays. All or nothing: empty, or why not.
  [[nodiscard]] std::string configure(std::span<const std::string> before,
                                      std::span<const std::string> lines);
  // Lines "user NAME RULES" for a file; and back, all or nothing: empty, or why not.
  [[nodiscard]] std::string save() const;
  [[nodiscard]] std::string load(std::string_view text);
  [[nodiscard]] std::string load_file(const std::string& path);
  // All that those are, of the same commands.
  void take(const users& others);
  // Changes whenever a user does.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  using by_name = std::map<std::string, std::shared_ptr<const user>, std::less<>>;
  // From nothing on.
  [[nodiscard]] std::string make_in(by_name& in, std::span<const std::string> words) const;
  [[nodiscard]] std::string set_in(by_name& in, std::string_view name,
                                   std::span<const std::string_view> rules) const;
  [[nodiscard]] std::shared_ptr<const user> fresh_default() const;

  const command_table& table_;
  mutable std::mutex guard_;
  by_name users_;
  std::atomic<std::uint64_t> generation_ = 0;
};

// Without blanks and NULs, as Redis wants it.
[[nodiscard]] bool is_user_name(std::string_view name) noexcept;

}  // namespace kv
