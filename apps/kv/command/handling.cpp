#include "handling.hpp"

#include "../files/files.hpp"
#include "../resp/number.hpp"

#include <algorithm>
#include <limits>

namespace kv {

bool fits(call& c, std::string_view key, std::size_t value_bytes) {
  if (key.size() > max_key_bytes) {
    c.out.error(key_too_long);
    return false;
  }
  if (value_bytes > max_value_bytes) {
    c.out.error(value_too_long);
    return false;
  }
  return true;
}

bool put(call& c, const hashed_key& k, std::span<const std::string_view> pieces, unix_ms expiry,
         std::size_t mark, at_limit then) {
  if (store_of(c, k).put(k, pieces, expiry, then) == put_outcome::done) return true;
  c.out.rewind(mark);
  c.out.error(out_of_memory);
  return false;
}

cordma::result<void> put_in_place(const std::string& path, std::string_view text) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return replace_file(".", path, text);
  return replace_file(slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1), text);
}

std::optional<std::int64_t> integer_arg(call& c, std::size_t i, std::string_view otherwise) {
  const std::optional<std::int64_t> n = parse_integer(c.arg(i));
  if (!n) c.out.error(otherwise);
  return n;
}

std::optional<std::uint64_t> cursor_arg(call& c, std::size_t i) {
  const std::optional<std::uint64_t> cursor = parse_cursor(c.arg(i));
  if (!cursor) c.out.error("ERR invalid cursor");
  return cursor;
}

std::optional<time_form> time_form_of(std::string_view word) noexcept {
  if (is_word(word, "ex")) return time_form{.seconds = true, .absolute = false};
  if (is_word(word, "px")) return time_form{.seconds = false, .absolute = false};
  if (is_word(word, "exat")) return time_form{.seconds = true, .absolute = true};
  if (is_word(word, "pxat")) return time_form{.seconds = false, .absolute = true};
  return std::nullopt;
}

std::optional<unix_ms> expiry_arg(call& c, std::size_t i, time_form form) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::optional<std::int64_t> n = integer_arg(c, i);
  if (!n) return std::nullopt;
  const auto base = form.absolute ? 0 : static_cast<std::int64_t>(now_of(c));
  if (*n <= 0 || (form.seconds && *n > most / 1000) ||
      (form.seconds ? *n * 1000 : *n) > most - base) {
    c.out.error("ERR invalid expire time in '" + c.what.full_name + "' command");
    return std::nullopt;
  }
  return static_cast<unix_ms>((form.seconds ? *n * 1000 : *n) + base);
}

void reply_help(call& c, std::string_view container,
                std::initializer_list<std::string_view> lines) {
  c.out.array(lines.size() + 3);
  c.out.simple(std::string(container) +
               " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const std::string_view line : lines) c.out.simple(line);
  c.out.simple("HELP");
  c.out.simple("    Prints this help.");
}

hashed_keys::hashed_keys(call& c) : c_(c) {
  const std::size_t end = c.what.keys_end(c.args);
  const auto first = static_cast<std::size_t>(c.what.keys.first);
  const auto step = static_cast<std::size_t>(c.what.keys.step);
  count_ = (end - first + step - 1) / step;
}

const hashed_key& hashed_keys::next() {
  if (at_ % ahead == 0) fetch();
  return keys_[at_++ % ahead];
}

void hashed_keys::fetch() {
  keyspace& keys = c_.of.keys();
  const std::size_t count = std::min(ahead, count_ - at_);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t arg = static_cast<std::size_t>(c_.what.keys.first) +
                            (at_ + i) * static_cast<std::size_t>(c_.what.keys.step);
    keys_[i] = keys.key(c_.arg(arg));
    keys.of(keys_[i]).prefetch_bucket(keys_[i]);
  }
  for (std::size_t i = 0; i < count; ++i) keys.of(keys_[i]).prefetch_item(keys_[i]);
}

}  // namespace kv
