#include "asked.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <sys/stat.h>

namespace copy {

void asked::only(named_sources named) {
  named_ = std::move(named);
  std::ranges::sort(named_->listed);
}

std::string_view asked::what_is_wrong(const entry& e) {
  const std::string_view wrong = kind_is_wrong(e);
  if (!wrong.empty() || !named_) return wrong;
  if (e.kind == entry_kind::stream) return "a stream";
  if (!is_named(e.path) || !is_listed(e)) return "a name";
  return is_excluded(e) ? "what the rules exclude" : "";
}

std::string_view asked::kind_is_wrong(const entry& e) const noexcept {
  const bool has_directories = options_.recursive || options_.listed;
  if (!has_directories && e.path.find('/') != std::string::npos) return "a name in a directory";
  if (!options_.attributes && !e.attributes.empty()) return "an attribute";
  switch (e.kind) {
    case entry_kind::directory: return has_directories ? "" : "a directory";
    case entry_kind::symlink: return options_.links ? "" : "a symlink";
    case entry_kind::hard_link: return options_.hard_links ? "" : "a hard link";
    case entry_kind::special: {
      // Devices may have been asked for, and not be for this side to make: see consider_special().
      const bool is_device = S_ISCHR(e.type) || S_ISBLK(e.type);
      return is_device || options_.specials ? "" : "a FIFO or socket";
    }
    case entry_kind::file:
    case entry_kind::stream: break;
  }
  return "";
}

bool asked::is_named(std::string_view path) const noexcept {
  const std::vector<std::string>& names = named_->names;
  return names.empty() || std::ranges::find(names, path.substr(0, path.find('/'))) != names.end();
}

// What is listed, what leads to it, and with -r what is in it.
bool asked::is_listed(const entry& e) const noexcept {
  if (!options_.listed) return true;
  const std::vector<std::string>& listed = named_->listed;
  const auto has = [&](std::string_view path) {
    return std::ranges::binary_search(listed, path, std::less<>());
  };
  const std::string_view path = e.path;
  if (has(path)) return true;
  for (std::size_t end = path.find('/'); options_.recursive && end != std::string_view::npos;
       end = path.find('/', end + 1)) {
    if (has(path.substr(0, end))) return true;
  }
  if (e.kind != entry_kind::directory) return false;
  const std::string in_it = e.path + '/';
  const auto next = std::ranges::lower_bound(listed, in_it);
  return next != listed.end() && next->starts_with(in_it);
}

// With each directory that it is in, as the sender does not go into what is excluded.
bool asked::is_excluded(const entry& e) {
  if (filter_.empty()) return false;
  const std::string_view path = e.path;
  const std::size_t last = path.rfind('/');
  const std::string_view parent = last == std::string_view::npos ? "" : path.substr(0, last);
  if (parent != let_in_) {
    for (std::size_t end = path.find('/'); end != std::string_view::npos;
         end = path.find('/', end + 1)) {
      if (filter_.excludes(path.substr(0, end), true)) return true;
    }
    let_in_ = parent;
  }
  return filter_.excludes(path, e.kind == entry_kind::directory);
}

}  // namespace copy
