#include "origins.hpp"

#include "resolved.hpp"

#include <cordma/runtime/check.hpp>

#include <cerrno>
#include <utility>

#include <fcntl.h>

namespace copy {

int origins::open_directory(const std::string& path, std::uint32_t& number) {
  const auto known = by_path_.find(path);
  if (known != by_path_.end()) {
    number = known->second;
    return 0;
  }
  const int fd = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  number = static_cast<std::uint32_t>(directories_.size());
  directories_.emplace_back(fd);
  by_path_.emplace(path, number);
  return 0;
}

int origins::open(std::string path, bool contents, origin& into) {
  if (path.empty()) return ENOENT;
  const std::size_t slash = path.rfind('/');
  const std::string last = path.substr(slash + 1);  // npos + 1 is 0
  if (contents || last.empty() || last == "." || last == "..") {
    into.name.assign(1, '.');  // g++-12 warns about a literal here
    return open_directory(path, into.number);
  }
  into.name = last;
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return open_directory(parent, into.number);
}

int origins::find_parent(std::uint32_t number, std::string_view path,
                         directory_cache& recent) const {
  CORDMA_REQUIRE(number < directories_.size());
  const int base = directory(number);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return base;
  return recent.open(base, number, path.substr(0, slash));
}

int origins::open_at(std::uint32_t number, const std::string& path, int flags) const {
  return open_resolved(directory(number), path.c_str(), flags, follows_ ? 0 : beneath);
}

}  // namespace copy
