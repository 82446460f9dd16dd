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
      // Devices may be requested, but not permitted on this side: see consider_special().
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

// Returns the length of the listed path at the beginning of `path`; npos if there is none: `path`
// may be above a listed one.
std::size_t asked::end_of_listed(std::string_view path) const noexcept {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string_view part = path.substr(0, end);
    if (std::ranges::binary_search(named_->listed, part, std::less<>())) return part.size();
    if (end == std::string_view::npos) return end;
  }
}

bool asked::leads_to_listed(const entry& e) const {
  if (e.kind != entry_kind::directory) return false;
  const std::string in_it = e.path + '/';
  const auto next = std::ranges::lower_bound(named_->listed, in_it);
  return next != named_->listed.end() && next->starts_with(in_it);
}

// True for listed entries, directories above them, and with -r entries below them.
bool asked::is_listed(const entry& e) const {
  if (!options_.listed || leads_to_listed(e)) return true;
  if (options_.recursive) return end_of_listed(e.path) != std::string::npos;
  return std::ranges::binary_search(named_->listed, e.path);
}

// Tests the entry and each directory above it, because the sender does not walk into excluded
// directories. Directories above listed entries are always accepted.
bool asked::is_excluded(const entry& e) {
  if (filter_.empty() || (options_.listed && leads_to_listed(e))) return false;
  const std::string_view path = e.path;
  const bool is_alone = options_.listed && !options_.recursive;
  const std::size_t from = is_alone ? path.size() : options_.listed ? end_of_listed(path) : 0;
  const std::size_t last = path.rfind('/');
  const std::string_view parent = last == std::string_view::npos ? "" : path.substr(0, last);
  if (parent != let_in_) {
    for (std::size_t end = path.find('/', from); end != std::string_view::npos;
         end = path.find('/', end + 1)) {
      if (filter_.excludes(path.substr(0, end), true)) return true;
    }
    let_in_ = parent;
  }
  return filter_.excludes(path, e.kind == entry_kind::directory);
}

}  // namespace copy
