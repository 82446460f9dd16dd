#include "slowlog.hpp"

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

void slowlog::clear() {
  const std::scoped_lock hold(guard_);
  entries_.clear();
}

}  // namespace kv
