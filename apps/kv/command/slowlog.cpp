#include "slowlog.hpp"

#include "settings.hpp"
#include "word.hpp"

#include <algorithm>

namespace kv {

void slowlog::add(entry e, std::span<const std::string_view> args, std::size_t most_entries) {
  const std::size_t shown = std::min(args.size(), most_arguments);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i + 1 == most_arguments && args.size() > most_arguments) {
      e.args.push_back("... (" + std::to_string(args.size() - most_arguments + 1) +
                       " more arguments)");
      break;
    }
    std::string text(args[i].substr(0, most_argument_bytes));
    if (args[i].size() > most_argument_bytes) {
      text += "... (" + std::to_string(args[i].size() - most_argument_bytes) + " more bytes)";
    }
    e.args.push_back(std::move(text));
  }
  const std::scoped_lock hold(guard_);
  e.id = next_++;
  entries_.push_front(std::move(e));
  while (entries_.size() > most_entries) entries_.pop_back();
}

std::vector<slowlog::entry> slowlog::newest(std::size_t count) const {
  const std::scoped_lock hold(guard_);
  const std::size_t shown = std::min(count, entries_.size());
  return {entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(shown)};
}

std::size_t slowlog::size() const {
  const std::scoped_lock hold(guard_);
  return entries_.size();
}

std::vector<std::string_view> without_secrets(const known_command& what,
                                              std::span<const std::string_view> args) {
  std::vector<std::string_view> shown(args.begin(), args.end());
  const std::size_t count = args.size();
  const auto hide = [&](std::size_t from, std::size_t end) {
    for (std::size_t i = from; i < std::min(end, count); ++i) shown[i] = "(redacted)";
  };
  if (what.full_name == "auth") {
    hide(1, count);
  } else if (what.full_name == "acl|setuser") {
    hide(2, count);
  } else if (what.full_name == "hello") {
    for (std::size_t i = 2; i < count; ++i) {
      if (is_word(args[i], "setname")) {
        ++i;
      } else if (is_word(args[i], "auth")) {
        hide(i + 1, i + 3);
        i += 2;
      }
    }
  } else if (what.full_name == "config|set") {
    for (std::size_t i = 2; i < count; i += 2) {
      const parameter* const p = find_parameter(args[i]);
      if (p == nullptr || p->secret) hide(i + 1, i + 2);
    }
  }
  if (!what.has_key_in(args)) return shown;
  for (std::size_t i = static_cast<std::size_t>(what.keys.first); i < what.keys_end(args);
       i += static_cast<std::size_t>(what.keys.step)) {
    shown[i] = place_of_key(args[i]).name;
  }
  return shown;
}

void slowlog::trim(std::size_t most_entries) {
  const std::scoped_lock hold(guard_);
  while (entries_.size() > most_entries) entries_.pop_back();
}

void slowlog::clear() {
  const std::scoped_lock hold(guard_);
  entries_.clear();
}

}  // namespace kv
