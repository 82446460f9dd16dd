#include "ownership.hpp"

#include <algorithm>

#include <unistd.h>

namespace copy {

std::vector<gid_t> own_groups() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> all(count > 0 ? static_cast<std::size_t>(count) : 0);
  const int got = all.empty() ? 0 : ::getgroups(count, all.data());
  all.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  all.push_back(::getegid());
  return all;
}

bool is_owner_wanted(const keep_options& what) noexcept {
  return what.owner && (!what.owner_if_may || ::geteuid() == 0);
}

bool is_group_wanted(const keep_options& what, gid_t group) {
  if (!what.group || !what.group_if_may || ::geteuid() == 0) return what.group;
  const std::vector<gid_t> mine = own_groups();
  return std::ranges::find(mine, group) != mine.end();
}

}  // namespace copy
