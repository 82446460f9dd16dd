#include "read_attributes.hpp"

#include <cerrno>
#include <cstdio>
#include <string_view>

#include <linux/limits.h>
#include <sys/xattr.h>

namespace copy {
namespace {

constexpr std::size_t most_bytes = XATTR_SIZE_MAX;  // of a value; a list of all names fits too
static_assert(most_bytes >= XATTR_LIST_MAX);
constexpr std::string_view kinds[] = {"user.", "security.", "trusted.", "system.posix_acl_"};

bool is_copied(std::string_view name) noexcept {
  for (const std::string_view kind : kinds) {
    if (name.starts_with(kind)) return true;
  }
  return false;
}

}  // namespace

int read_attributes(int directory, const char* name, std::vector<char>& buffer,
                    std::vector<attribute>& into) {
  // No call takes a name in a directory; the path through /proc uses the open directory.
  char path[sizeof "/proc/self/fd/" + 10 + NAME_MAX + 1];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d/%s", directory, name);
  buffer.resize(most_bytes);
  const ssize_t listed = ::llistxattr(path, buffer.data(), buffer.size());
  if (listed < 0) return errno == EOPNOTSUPP ? 0 : errno;
  const std::string names(buffer.data(), static_cast<std::size_t>(listed));
  for (std::size_t at = 0; at < names.size();) {
    const char* const one = names.c_str() + at;
    at += std::string_view(one).size() + 1;
    if (!is_copied(one)) continue;
    const ssize_t size = ::lgetxattr(path, one, buffer.data(), buffer.size());
    if (size < 0) continue;  // not permitted, or removed meanwhile
    into.push_back({.name = one, .value = {buffer.data(), static_cast<std::size_t>(size)}});
  }
  return 0;
}

}  // namespace copy
