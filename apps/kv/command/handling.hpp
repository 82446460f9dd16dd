// Helpers of command handlers.
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

// Returns the string at the key, or an empty `found`. Returns no value after an error reply if the
// key holds another type.
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

// Returns false after an error reply if the key or value is too long.
[[nodiscard]] bool fits(call& c, std::string_view key, std::size_t value_bytes);
// Returns false after an error reply, which replaces the reply written since `mark`.
[[nodiscard]] bool put(call& c, const hashed_key& k, std::span<const std::string_view> pieces,
                       unix_ms expiry, std::size_t mark, at_limit then = at_limit::refused);
[[nodiscard]] inline bool put(call& c, const hashed_key& k, std::string_view value, unix_ms expiry,
                              std::size_t mark, at_limit then = at_limit::refused) {
  return put(c, k, std::span(&value, 1), expiry, mark, then);
}

// Argument `i` as an integer. Returns no value after an error reply.
[[nodiscard]] std::optional<std::int64_t> integer_arg(call& c, std::size_t i,
                                                      std::string_view otherwise = not_an_integer);

// Cursor of SCAN and HSCAN. Returns no value after an error reply.
[[nodiscard]] std::optional<std::uint64_t> cursor_arg(call& c, std::size_t i);

// Form of a time to live: in seconds or milliseconds, from now or since 1970.
struct time_form {
  bool seconds = true;
  bool absolute = false;
  friend bool operator==(const time_form&, const time_form&) = default;
};
// "EX", "PX", "EXAT", "PXAT".
[[nodiscard]] std::optional<time_form> time_form_of(std::string_view word) noexcept;
// Returns a time that is positive and fits into 64 bits. Returns no value after the error reply
// "ERR invalid expire time in 'set' command".
[[nodiscard]] std::optional<unix_ms> expiry_arg(call& c, std::size_t i, time_form form);

// As replace_file(). REQUIRES the service's files_guard().
[[nodiscard]] cordma::result<void> put_in_place(const std::string& path, std::string_view text);

// The HELP sub-command of a command.
[[nodiscard]] constexpr command help_part(handler run, std::string_view since) {
  return {.name = "help",
          .run = run,
          .arity = 2,
          .flags = flag_loading | flag_stale,
          .since = since,
          .summary = "Show helpful text about the different subcommands"};
}
// A command that requires a sub-command.
[[nodiscard]] constexpr command container(std::string_view name, std::string_view since,
                                          std::string_view summary, const command_group& parts) {
  return {.name = name,
          .arity = -2,
          .since = since,
          .complexity = "Depends on subcommand.",
          .summary = summary,
          .subcommands = parts};
}
// Replies with the lines of HELP, between its heading and the entry of HELP itself.
void reply_help(call& c, std::string_view container, std::initializer_list<std::string_view> lines);

// All keys of a command, hashed, in order; their cache lines are prefetched in groups.
class hashed_keys {
 public:
  explicit hashed_keys(call& c);
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  // Returns the next key; each is returned once. Prefetches ahead.
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
