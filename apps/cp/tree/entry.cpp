#include "entry.hpp"

#include <string_view>
#include <utility>

namespace copy {

void problem_log::add(problem p) {
  has_[static_cast<std::size_t>(p.what)] = true;
  const std::size_t bytes = sizeof p + p.path.size() + p.why.size();
  if (more_ != 0 || bytes_ + bytes > most_bytes) {
    ++more_;
    return;
  }
  bytes_ += bytes;
  all_.push_back(std::move(p));
}

bool stays_inside(const std::string& path) noexcept {
  constexpr std::size_t longest_name = 255;   // NAME_MAX, in bytes
  constexpr std::size_t longest_path = 4095;  // PATH_MAX without the terminating 0
  if (path == ".") return true;
  if (path.size() > longest_path || path.find('\0') != std::string::npos) return false;
  std::string_view rest = path;
  for (;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.size() > longest_name) return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace copy
