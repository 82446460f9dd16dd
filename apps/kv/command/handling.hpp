// What handlers have in common.
#pragma once

#include "command.hpp"
#include "service.hpp"
#include "word.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

[[nodiscard]] inline store& store_of(call& c, const hashed_key& k) noexcept {
  return c.of.keys().of(k);
}
[[nodiscard]] inline unix_ms now_of(const call& c) noexcept {
  return c.of.now_ms(c.who.origin.worker);
}

// What the key holds where that is a string, or nothing. No value: it holds something else, which was answered.
[[nodiscard]] inline std::optional<found> string_at(call& c, const hashed_key& k) {
  const found f = store_of(c, k).find(k);
  if (f && !f.is_string()) {
    c.out.error(wrong_type);
    return std::nullopt;
  }
  return f;
}
// The same for hashes.
[[nodiscard]] inline std::optional<found> hash_at(call& c, const hashed_key& k) {
  const found f = store_of(c, k).find(k);
  if (f && f.is_string()) {
    c.out.error(wrong_type);
    return std::nullopt;
  }
  return f;
}

// False: it cannot be a key or a value for its length, which was answered.
[[nodiscard]] bool fits(call& c, std::string_view key, std::size_t value_bytes);
// False: it could not be put, which was answered; after `mark` nothing else of the reply stays.
[[nodiscard]] bool put(call& c, const hashed_key& k, std::span<const std::string_view> pieces,
                       unix_ms expiry, std::size_t mark, at_limit then = at_limit::refused);
[[nodiscard]] inline bool put(call& c, const hashed_key& k, std::string_view value, unix_ms expiry,
                              std::size_t mark, at_limit then = at_limit::refused) {
  return put(c, k, std::span(&value, 1), expiry, mark, then);
}

// Argument `i` as an integer; no value: it is none, which was answered.
[[nodiscard]] std::optional<std::int64_t> integer_arg(call& c, std::size_t i,
                                                      std::string_view otherwise = not_an_integer);

// Of SCAN and HSCAN. No value: it is none, which was answered.
[[nodiscard]] std::optional<std::uint64_t> cursor_arg(call& c, std::size_t i);

// How a time to live was given: in seconds or milliseconds, from now or since 1970.
struct time_form {
  bool seconds = true;
  bool absolute = false;
  friend bool operator==(const time_form&, const time_form&) = default;
};
// "EX", "PX", "EXAT", "PXAT".
[[nodiscard]] std::optional<time_form> time_form_of(std::string_view word) noexcept;
// Above zero, and within what 64 bits hold. No value: "ERR invalid expire time in 'set' command" was answered.
[[nodiscard]] std::optional<unix_ms> expiry_arg(call& c, std::size_t i, time_form form);

// As replace_file(). REQUIRES the service's files_guard().
[[nodiscard]] cordma::result<void> put_in_place(const std::string& path, std::string_view text);

// HELP of a command with sub-commands.
[[nodiscard]] constexpr command help_part(handler run, std::string_view since) {
  return {.name = "help",
          .run = run,
          .arity = 2,
          .flags = flag_loading | flag_stale,
          .since = since,
          .summary = "Show helpful text about the different subcommands"};
}
// A command that needs one of its sub-commands.
[[nodiscard]] constexpr command container(std::string_view name, std::string_view since,
                                          std::string_view summary, const command_group& parts) {
  return {.name = name,
          .arity = -2,
          .since = since,
          .complexity = "Depends on subcommand.",
          .summary = summary,
          .subcommands = parts};
}
// The lines of a HELP sub-command, after its head and before HELP itself.
void reply_help(call& c, std::string_view container, std::initializer_list<std::string_view> lines);

// `all` of the keys of a command, hashed, in order; those far apart are brought closer together.
class hashed_keys {
 public:
  explicit hashed_keys(call& c);
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  // In rising order, each once: fetches ahead of it.
  [[nodiscard]] const hashed_key& next();

 private:
  static constexpr std::size_t ahead = 16;
  void fetch();
  call& c_;
  std::size_t count_ = 0;
  std::size_t at_ = 0;
  std::array<hashed_key, ahead> keys_;
};

}  // namespace kv
