#include "users.hpp"

#include "../resp/words.hpp"
#include "settings.hpp"
#include "word.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kv {

users::users(const command_table& table) : table_(table) {
  users_.emplace(default_user, fresh_default());
}

std::shared_ptr<const user> users::fresh_default() const {
  auto made = std::make_shared<user>();
  made->name = default_user;
  for (const std::string_view rule : {"on", "nopass", "~*", "&*", "+@all"}) {
    static_cast<void>(made->apply(rule, table_));
  }
  return made;
}

std::shared_ptr<const user> users::find(std::string_view name) const {
  const std::scoped_lock hold(guard_);
  const auto at = users_.find(name);
  return at == users_.end() ? nullptr : at->second;
}

std::shared_ptr<const user> users::authenticate(std::string_view name,
                                                std::string_view password) const {
  std::shared_ptr<const user> u = find(name);
  if (u == nullptr || !u->enabled || !u->accepts(password)) return nullptr;
  return u;
}

std::string users::set_in(by_name& in, std::string_view name,
                          std::span<const std::string_view> rules) const {
  if (!is_user_name(name)) return "Usernames can't contain spaces or null characters";
  const auto at = in.find(name);
  auto made = std::make_shared<user>();
  if (at != in.end()) *made = *at->second;
  made->name = name;
  for (const std::string_view rule : rules) {
    const std::string why = made->apply(rule, table_);
    if (!why.empty())
      return "Error in ACL SETUSER modifier '" + std::string(until_nul(rule)) + "': " + why;
  }
  in[std::string(name)] = std::move(made);
  return {};
}

std::string users::set(std::string_view name, std::span<const std::string_view> rules) {
  const std::scoped_lock hold(guard_);
  std::string why = set_in(users_, name, rules);
  if (why.empty()) generation_.fetch_add(1, std::memory_order_release);
  return why;
}

void users::require_password(std::string_view password) {
  const std::string rule = ">" + std::string(password);
  const std::string_view second = password.empty() ? std::string_view("nopass") : rule;
  const std::array<std::string_view, 2> rules{"resetpass", second};
  static_cast<void>(set(default_user, rules));
}

bool users::erase(std::string_view name) {
  const std::scoped_lock hold(guard_);
  const auto at = users_.find(name);
  if (at == users_.end()) return false;
  users_.erase(at);
  generation_.fetch_add(1, std::memory_order_release);
  return true;
}

std::vector<std::shared_ptr<const user>> users::all() const {
  const std::scoped_lock hold(guard_);
  std::vector<std::shared_ptr<const user>> found;
  for (const auto& [name, u] : users_) found.push_back(u);
  return found;
}

std::string users::make_in(by_name& in, std::span<const std::string> words) const {
  if (words.empty()) return "user without a name";
  const std::vector<std::string_view> rules(words.begin() + 1, words.end());
  const auto before = in.find(words.front());
  if (before != in.end()) in.erase(before);
  return set_in(in, words.front(), rules);
}

std::string users::configure(std::span<const std::string> before,
                             std::span<const std::string> lines) {
  const auto name_of = [](const std::string& line) {
    const auto words = split_words(line);
    return words && !words->empty() ? words->front() : std::string();
  };
  const auto has = [](std::span<const std::string> all, const std::string& line) {
    return std::ranges::find(all, line) != all.end();
  };
  const std::scoped_lock hold(guard_);
  by_name next = users_;
  for (const std::string& line : before) {
    if (has(lines, line)) continue;
    const std::string name = name_of(line);
    next.erase(name);
    if (name == default_user) next.emplace(default_user, fresh_default());
  }
  for (const std::string& line : lines) {
    if (has(before, line)) continue;
    const auto words = split_words(line);
    if (!words) return "user: a quote is not closed";
    const std::string why = make_in(next, *words);
    if (!why.empty()) return "user " + name_of(line) + ": " + why;
  }
  users_ = std::move(next);
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

std::string users::load_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || std::filesystem::is_directory(path)) return "cannot be read";
  return load(text.view());
}

void users::take(const users& others) {
  const std::scoped_lock hold(guard_, others.guard_);
  users_ = others.users_;
  generation_.fetch_add(1, std::memory_order_release);
}

std::string users::save() const {
  std::string text;
  for (const auto& u : all()) text += "user " + u->line() + '\n';
  return text;
}

std::string users::load(std::string_view text) {
  by_name loaded;
  loaded.emplace(default_user, fresh_default());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const bool is_comment = text.starts_with('#');  // comments may have open quotes
    const auto words = split_words(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string where = "line " + std::to_string(number) + ": ";
    if (is_comment) continue;
    if (!words) return where + "a quote is not closed";
    if (words->empty() || words->front().starts_with('#')) continue;
    if (words->size() < 2 || words->front() != "user") {
      return where + "should start with user keyword followed by the username.";
    }
    const std::string why = make_in(loaded, std::span(*words).subspan(1));
    if (!why.empty()) return where + why;
  }
  const std::scoped_lock hold(guard_);
  users_ = std::move(loaded);
  generation_.fetch_add(1, std::memory_order_release);
  return {};
}

}  // namespace kv
