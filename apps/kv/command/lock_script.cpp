#include "lock_script.hpp"

#include "word.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kv {
namespace {

constexpr std::size_t longest_script = 4096;

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_name(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// True for keywords of Lua and names that it provides to scripts; any other name is a variable.
bool is_known(std::string_view word) noexcept {
  static constexpr auto known = std::to_array<std::string_view>(
      {"and",   "do",    "else", "elseif", "end",    "false",    "for",         "if",
       "in",    "local", "nil",  "not",    "or",     "return",   "then",        "true",
       "redis", "call",  "KEYS", "ARGV",   "ipairs", "tonumber", "error_reply", "status_reply"});
  return std::ranges::find(known, word) != known.end();
}

using tokens = std::vector<std::string>;

// Returns the end of the token that begins at `at`; npos: it is no token of such a script.
std::size_t token_end(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at + 1;
  if (text[at] == '\'' || text[at] == '"') {
    const std::size_t close = text.find(text[at], end);
    const std::size_t escape = text.find('\\', end);
    return close == std::string_view::npos || escape < close ? std::string_view::npos : close + 1;
  }
  if (is_name(text[at])) {
    while (end < text.size() && is_name(text[end])) ++end;
  } else if (end < text.size() && text[end] == '=' && (text[at] == '=' || text[at] == '~')) {
    ++end;
  }
  return end;
}

// Splits a script into tokens, without white space and comments. Strings become lower case in
// single quotes. Returns false if it cannot be such a script.
bool split(std::string_view text, tokens& into) {
  for (std::size_t at = 0; at < text.size();) {
    if (is_space(text[at]) || text[at] == ';') {
      ++at;
    } else if (text.substr(at).starts_with("--[")) {
      return false;  // a comment that may span lines
    } else if (text.substr(at).starts_with("--")) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      const std::size_t end = token_end(text, at);
      if (end == std::string_view::npos) return false;
      std::string token(text.substr(at, end - at));
      if (token.front() == '"' || token.front() == '\'') {
        token = in_lower_case(token);
        token.front() = token.back() = '\'';
      }
      into.push_back(std::move(token));
      at = end;
    }
  }
  return true;
}

// Returns the index of the bracket that closes the one at `open`; the size if there is none.
std::size_t closing(const tokens& all, std::size_t open) noexcept {
  std::size_t depth = 0;
  for (std::size_t i = open; i < all.size(); ++i) {
    if (all[i] == "(") ++depth;
    if (all[i] == ")" && --depth == 0) return i;
  }
  return all.size();
}

// True for a complete tonumber(ARGV[n]). Not for ARGV[1], because the value of a lock is compared
// as text.
bool is_of_a_later_argument(const tokens& all, std::size_t tonumber) noexcept {
  const std::size_t at = tonumber + 2;
  return closing(all, tonumber + 1) == at + 4 && all[at] == "ARGV" && all[at + 2] != "1";
}

// Removes the brackets of `if (...) then`, and tonumber and its brackets of `tonumber(ARGV[n])`.
void drop_brackets(tokens& all) {
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const bool condition = all[i] == "if" && all[i + 1] == "(";
    const bool number = all[i] == "tonumber" && all[i + 1] == "(" && is_of_a_later_argument(all, i);
    if (!condition && !number) continue;
    const std::size_t close = closing(all, i + 1);
    if (close == all.size()) return;
    if (condition && (close + 1 == all.size() || all[close + 1] != "then")) continue;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(close));
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(condition ? i + 1 : i));
    if (number) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

// Renames variables in order of appearance, and commands with the same effect to one name.
void rename(tokens& all) {
  std::vector<std::string> variables;
  for (std::string& t : all) {
    if (t == "pcall") t = "call";
    if (t == "'unlink'") t = "'del'";
    if (!is_name(t.front()) || is_digit(t.front()) || is_known(t)) continue;
    auto at = std::ranges::find(variables, t);
    if (at == variables.end()) at = variables.insert(at, t);
    t = "$" + std::to_string(at - variables.begin());
  }
}

// Returns the canonical form; empty: it is no such script.
std::string canonical(std::string_view text) {
  tokens all;
  if (!split(text, all)) return {};
  drop_brackets(all);
  rename(all);
  std::string joined;
  for (const std::string& t : all) joined += t + ' ';
  return joined;
}

struct known_script {
  std::string text;  // canonical()
  lock_script what;
};

// Forms for one key: "ACT" stands for the action if the key holds ARGV[1].
constexpr std::array<std::string_view, 8> one_key_forms{
    "if GET == ARGV[1] then return ACT else return 0 end",
    "if GET == ARGV[1] then return ACT end return 0",
    "if GET ~= ARGV[1] then return 0 end ACT return 1",
    "if GET == ARGV[1] then ACT return 1 else return 0 end",
    "local v = GET if v == ARGV[1] then return ACT else return 0 end",
    "local v = GET if v == ARGV[1] then return ACT end return 0",
    "local v = GET if v ~= ARGV[1] then return 0 end ACT return 1",
    "local v = GET if not v or v ~= ARGV[1] then return 0 end ACT return 1",
};
constexpr std::array<std::pair<std::string_view, lock_script>, 3> one_key_acts{{
    {"redis.call('del', KEYS[1])", lock_script::erase},
    {"redis.call('pexpire', KEYS[1], ARGV[2])", lock_script::expire_ms},
    {"redis.call('expire', KEYS[1], ARGV[2])", lock_script::expire_seconds},
}};

// Forms that return NO, which is false or nil, if the key holds something else.
constexpr std::array<std::string_view, 5> null_forms{
    "if GET == ARGV[1] then return ACT else return NO end",
    "if GET == ARGV[1] then return ACT end return NO",
    "if GET == ARGV[1] then ACT return true else return NO end",
    "if GET == ARGV[1] then ACT return true end return NO",
    "local v = GET if v == ARGV[1] then ACT return true end return NO",
};
constexpr std::string_view sets_one = "redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])";
// Of redsync, Spring's RedisLockRegistry and aioredlock.
constexpr std::array<std::pair<std::string_view, lock_script>, 6> whole_scripts{{
    {"local v = GET if v == ARGV[1] then return redis.call('del', KEYS[1]) elseif v == false then "
     "return -1 else return 0 end",
     lock_script::erase_or_gone},
    {"if GET == ARGV[1] then return SET else return 0 end", lock_script::renew},
    {"local v = GET if v == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return true "
     "elseif not v then SET return true end return false",
     lock_script::take_or_expire},
    {"local v = GET if not v or v == ARGV[1] then return SET else return "
     "redis.error_reply('error') end",
     lock_script::take_or_renew},
    {"local v = GET if not v then return redis.status_reply('ok') elseif v == ARGV[1] then return "
     "redis.call('del', KEYS[1]) else return redis.error_reply('error') end",
     lock_script::erase_or_error},
    {"local v = GET if not v then return redis.error_reply('error') elseif v == ARGV[1] then "
     "return redis.call('ttl', KEYS[1]) else return redis.error_reply('error') end",
     lock_script::seconds_left},
}};

lock_script or_null(lock_script act) noexcept {
  if (act == lock_script::erase) return lock_script::erase_or_null;
  return act == lock_script::expire_ms ? lock_script::expire_ms_or_null
                                       : lock_script::expire_seconds_or_null;
}

// Reads the remaining time to live as `left`; without a time to live the script returns 0.
constexpr std::string_view looks_at_time =
    "local v = GET if not v or v ~= ARGV[1] then return 0 end "
    "local left = redis.call('pttl', KEYS[1]) if not left then left = 0 end "
    "if left < 0 then return 0 end ";
constexpr std::string_view lengthens = "redis.call('pexpire', KEYS[1], left + ARGV[2]) return 1";
constexpr std::string_view lengthens_or_renews =
    "local t = ARGV[2] if ARGV[3] == '0' then t = ARGV[2] + left end "
    "redis.call('pexpire', KEYS[1], t) return 1";

constexpr std::string_view each_key = "for i, key in ipairs(KEYS) do ";
constexpr std::string_view erases_all =
    "if redis.call('get', key) == ARGV[1] then redis.call('del', key) n = n + 1 end end return n";
constexpr std::string_view sets_all =
    "redis.call('set', key, ARGV[1], 'px', ARGV[2]) end return #KEYS";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::vector<known_script> make_known() {
  constexpr std::string_view get = "redis.call('get', KEYS[1])";
  std::vector<known_script> all;
  const auto add = [&](std::string text, lock_script what) {
    all.push_back({canonical(replaced(std::move(text), "GET", get)), what});
  };
  for (const std::string_view form : one_key_forms) {
    for (const auto& [act, what] : one_key_acts) {
      add(replaced(std::string(form), "ACT", act), what);
    }
  }
  for (const std::string_view form : null_forms) {
    for (const auto& [act, what] : one_key_acts) {
      for (const char* const no : {"false", "nil"}) {
        add(replaced(replaced(std::string(form), "NO", no), "ACT", act), or_null(what));
      }
    }
  }
  for (const auto& [script, what] : whole_scripts) {
    add(replaced(std::string(script), "SET", sets_one), what);
  }
  const std::string time(looks_at_time);
  const std::string each(each_key);
  add(time + std::string(lengthens), lock_script::lengthen);
  add(time + std::string(lengthens_or_renews), lock_script::lengthen_or_renew);
  add("local n = 0 " + each + std::string(erases_all), lock_script::erase_all);
  add(each + "if redis.call('get', key) ~= ARGV[1] then return 0 end end " + each +
          std::string(sets_all),
      lock_script::renew_all);
  add(each + "if redis.call('exists', key) == 1 then return 0 end end " + each +
          std::string(sets_all),
      lock_script::take_all);
  return all;
}

}  // namespace

std::optional<lock_script> recognise(std::string_view text) {
  static const std::vector<known_script> known = make_known();
  if (text.size() > longest_script) return std::nullopt;
  const std::string form = canonical(text);
  const auto at = std::ranges::find(known, form, &known_script::text);
  if (at == known.end()) return std::nullopt;
  return at->what;
}

std::optional<lock_script> script_cache::find(std::string_view digits) const {
  const std::string name = in_lower_case(digits);
  const std::scoped_lock hold(guard_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return std::nullopt;
  return at->second;
}

void script_cache::add(const std::string& digits, lock_script what) {
  const std::scoped_lock hold(guard_);
  if (!by_name_.emplace(digits, what).second) return;
  oldest_.push_back(digits);
  if (oldest_.size() <= most_scripts) return;
  by_name_.erase(oldest_.front());
  oldest_.pop_front();
}

void script_cache::clear() {
  const std::scoped_lock hold(guard_);
  by_name_.clear();
  oldest_.clear();
}

}  // namespace kv
