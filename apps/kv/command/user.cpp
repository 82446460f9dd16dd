#include "digest.hpp"
#include "settings.hpp"
#include "users.hpp"
#include "word.hpp"

#include "../resp/glob.hpp"

#include <openssl/crypto.h>
#include <algorithm>

namespace kv {
namespace {

constexpr std::size_t hash_digits = 64;
constexpr std::string_view sanitized = "sanitize-payload";
constexpr std::string_view unsanitized = "skip-sanitize-payload";
constexpr std::string_view syntax = "Syntax error";
constexpr std::string_view blanks("\0 \t\n\v\f\r", 7);  // not allowed in names and patterns
constexpr std::string_view unknown = "Unknown command or category name in ACL";
constexpr std::string_view needless_keys =
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have "
    "any effect. "
    "Try 'resetkeys' to start with an empty list of patterns";
constexpr std::string_view needless_channels =
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not "
    "have any effect. "
    "Try 'resetchannels' to start with an empty list of channels";

bool is_hash(std::string_view text) noexcept {
  return text.size() == hash_digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string_view prefix_of(key_access access) noexcept {
  switch (access) {
    case key_access::read: return "%R~";
    case key_access::write: return "%W~";
    case key_access::both:
    case key_access::none: break;
  }
  return "~";
}

}  // namespace

bool user::may_use(std::string_view key, key_access how) const noexcept {
  if (all_keys) return true;
  const auto wanted = static_cast<unsigned>(how);
  return std::ranges::any_of(keys, [&](const key_pattern& p) {
    return (static_cast<unsigned>(p.access) & wanted) == wanted && matches_glob(p.glob, key);
  });
}

bool user::accepts(std::string_view password) const {
  if (any_password) return true;
  const std::string hash = sha256(password);
  bool found = false;
  for (const std::string& p : passwords) {
    found |= CRYPTO_memcmp(p.data(), hash.data(), hash_digits) == 0;
  }
  return found;
}

std::string user::apply(std::string_view rule, const command_table& table) {
  if (is_word(rule, "on") || is_word(rule, "off")) {
    enabled = rule.size() == 2;
  } else if (is_word(rule, "nopass")) {
    any_password = true;
    passwords.clear();
  } else if (is_word(rule, "resetpass")) {
    any_password = false;
    passwords.clear();
  } else if (is_word(rule, "allkeys") || is_word(rule, "~*")) {
    all_keys = true;
    keys.clear();
  } else if (is_word(rule, "resetkeys")) {
    all_keys = false;
    keys.clear();
  } else if (is_word(rule, "allchannels") || is_word(rule, "&*")) {
    all_channels = true;
    channels.clear();
  } else if (is_word(rule, "resetchannels")) {
    all_channels = false;
    channels.clear();
  } else if (is_word(rule, "allcommands") || is_word(rule, "+@all")) {
    allowed.set();
    rules.assign(1, "+@all");
  } else if (is_word(rule, "nocommands") || is_word(rule, "-@all")) {
    allowed.reset();
    rules.clear();
  } else if (is_word(rule, "reset")) {
    user fresh;
    fresh.name = name;
    fresh.payloads = sanitized;
    *this = std::move(fresh);
  } else if (is_word(rule, sanitized) || is_word(rule, unsanitized)) {
    payloads = is_word(rule, sanitized) ? sanitized : unsanitized;
  } else if (is_word(rule, "clearselectors")) {
    return {};  // selectors do not exist here
  } else if (rule.empty()) {
    return std::string(syntax);
  } else if (rule[0] == '+' || rule[0] == '-') {
    return apply_command(rule, table);
  } else if (rule[0] == '>' || rule[0] == '<' || rule[0] == '#' || rule[0] == '!') {
    return apply_password(rule);
  } else if (rule[0] == '~' || rule[0] == '%') {
    return apply_keys(rule);
  } else if (rule[0] == '&') {
    if (rule.find_first_of(blanks) != std::string_view::npos) return std::string(syntax);
    if (all_channels) return std::string(needless_channels);
    if (std::ranges::find(channels, rule.substr(1)) == channels.end())
      channels.emplace_back(rule.substr(1));
  } else {
    return std::string(syntax);
  }
  return {};
}

std::string user::apply_command(std::string_view rule, const command_table& table) {
  const bool give = rule[0] == '+';
  const std::string_view what = rule.substr(1);
  if (what.starts_with('@')) {
    const auto names = category_names();
    const auto at =
        std::ranges::find_if(names, [&](std::string_view n) { return is_word(n, what.substr(1)); });
    if (at == names.end()) return std::string(unknown);
    const std::uint32_t bit = std::uint32_t{1} << (at - names.begin());
    for (const known_command& c : table.all()) {
      if ((c.belongs & bit) != 0) allowed[c.index] = give;
    }
  } else {
    const known_command* const c = table.find_full(what);
    if (c == nullptr) return std::string(unknown);
    allowed[c->index] = give;
    for (const known_command* part : c->parts) allowed[part->index] = give;
  }
  noted(rule);
  return {};
}

// Replaces earlier rules about the same command or its sub-commands.
void user::noted(std::string_view rule) {
  std::string lower = in_lower_case(rule);
  const std::string_view what = std::string_view(lower).substr(1);
  std::erase_if(rules, [&](const std::string& r) {
    const std::string_view said = std::string_view(r).substr(1);
    return said != "@all" && (said == what || (said.starts_with(what) && said[what.size()] == '|'));
  });
  rules.push_back(std::move(lower));
}

std::string user::apply_password(std::string_view rule) {
  const bool hashed = rule[0] == '#' || rule[0] == '!';
  const bool add = rule[0] == '>' || rule[0] == '#';
  const std::string_view text = rule.substr(1);
  if (hashed && !is_hash(text)) {
    return "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
           "characters";
  }
  const std::string hash = hashed ? std::string(text) : sha256(text);
  const auto at = std::ranges::find(passwords, hash);
  if (add) {
    if (at == passwords.end()) passwords.push_back(hash);
    any_password = false;
    return {};
  }
  if (at == passwords.end())
    return "The password you are trying to remove from the user does not exist";
  passwords.erase(at);
  return {};
}

std::string user::apply_keys(std::string_view rule) {
  key_pattern pattern;
  const std::size_t tilde = rule.find('~');
  if (tilde == std::string_view::npos) return std::string(syntax);
  const std::string_view kinds = rule.substr(0, tilde);
  if (kinds == "%") return std::string(syntax);
  if (!kinds.empty()) {
    unsigned access = 0;
    for (const char c : kinds.substr(1)) {
      if ((c | 0x20) != 'r' && (c | 0x20) != 'w') return std::string(syntax);
      access |= static_cast<unsigned>((c | 0x20) == 'r' ? key_access::read : key_access::write);
    }
    pattern.access = static_cast<key_access>(access);
  }
  pattern.glob = rule.substr(tilde + 1);
  if (pattern.glob.find_first_of(blanks) != std::string::npos) return std::string(syntax);
  if (all_keys) return std::string(needless_keys);
  // As in Redis, rights for the same pattern add up: %R~x and %W~x make ~x.
  const auto same = std::ranges::find(keys, pattern.glob, &key_pattern::glob);
  if (same != keys.end()) {
    pattern.access = static_cast<key_access>(static_cast<unsigned>(same->access) |
                                             static_cast<unsigned>(pattern.access));
    same->access = pattern.access;
  }
  if (pattern.glob == "*" && pattern.access == key_access::both) {
    all_keys = true;
    keys.clear();
  } else if (same == keys.end()) {
    keys.push_back(std::move(pattern));
  }
  return {};
}

std::string user::describe_commands() const {
  std::string text = !rules.empty() && rules[0] == "+@all" ? "" : "-@all";
  for (const std::string& r : rules) text += (text.empty() ? "" : " ") + r;
  return text;
}

std::string user::describe_keys() const {
  if (all_keys) return "~*";
  std::string text;
  for (const key_pattern& p : keys) {
    if (!text.empty()) text += ' ';
    text.append(prefix_of(p.access)).append(p.glob);
  }
  return text;
}

std::string user::describe_channels() const {
  if (all_channels) return "&*";
  std::string text;
  for (const std::string& c : channels) text += (text.empty() ? "&" : " &") + c;
  return text;
}

std::vector<std::string> user::described() const {
  std::vector<std::string> all{enabled ? "on" : "off"};
  if (any_password) all.emplace_back("nopass");
  if (!payloads.empty()) all.emplace_back(payloads);
  for (const std::string& p : passwords) all.push_back("#" + p);
  if (all_keys) all.emplace_back("~*");
  for (const key_pattern& p : keys) all.push_back(std::string(prefix_of(p.access)).append(p.glob));
  all.emplace_back(all_channels ? "&*" : "resetchannels");
  for (const std::string& c : channels) all.push_back("&" + c);
  if (rules.empty() || rules[0] != "+@all") all.emplace_back("-@all");
  all.insert(all.end(), rules.begin(), rules.end());
  return all;
}

std::string user::describe() const {
  std::string text;
  for (const std::string& rule : described()) text += (text.empty() ? "" : " ") + rule;
  return text;
}

std::string user::line() const {
  std::string text = as_word(name);
  for (const std::string& rule : described()) {
    text += ' ' + (rule.starts_with('#') ? rule : as_word(rule));  // a hash needs no quotes
  }
  return text;
}

bool is_user_name(std::string_view name) noexcept {
  return name.find_first_of(blanks) == std::string_view::npos;
}

}  // namespace kv
