#include "acl_log.hpp"

#include <algorithm>
#include <utility>

namespace kv {

void acl_log::add(entry e, std::size_t most_entries) {
  const std::scoped_lock hold(guard_);
  const auto same = std::ranges::find_if(entries_, [&](const entry& known) {
    return e.when < known.when + same_within && known.same_as(e);
  });
  if (same != entries_.end()) {
    e.count = same->count + 1;
    entries_.erase(same);
  }
  entries_.push_front(std::move(e));
  while (entries_.size() > most_entries) entries_.pop_back();
}

std::vector<acl_log::entry> acl_log::newest(std::size_t count) const {
  const std::scoped_lock hold(guard_);
  const auto shown = static_cast<std::ptrdiff_t>(std::min(count, entries_.size()));
  return {entries_.begin(), std::next(entries_.begin(), shown)};
}

void acl_log::clear() {
  const std::scoped_lock hold(guard_);
  entries_.clear();
}

}  // namespace kv
