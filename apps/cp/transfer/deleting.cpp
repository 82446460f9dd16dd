// --delete: entries at the target that are not in the source.
#include "incoming.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace copy {

namespace {

item gone_item(std::string path) {
  return {.what = item::change::deleted, .path = std::move(path)};
}

}  // namespace

// True if the contents of a directory may be removed to make way for another entry. --max-delete
// counts entries without a counterpart in the source; with such a limit nothing else is removed.
bool receiver::may_make_way() const noexcept {
  return options_.delete_others && options_.most_deleted == transfer_options().most_deleted;
}

void receiver::make_way(incoming& f, target& into) const {
  if (!may_make_way() || !std::exchange(f.directory_here, false)) return;
  std::vector<problem> stuck;
  f.gone = into.make_way(f.what->path, removal_here(), stuck, &filter_);
}

void receiver::make_way(const std::string& path) {
  if (!may_make_way()) return;
  std::vector<problem> stuck;
  tell_gone(target_.make_way(path, removal_here(), stuck, &filter_));
}

// Returns the reason why a directory in the way stays. Empty: it may be removed, and `gone` lists
// its contents. Removes nothing.
std::string receiver::what_keeps(const std::string& path, std::vector<std::string>& gone) {
  const bool may = may_make_way();
  std::vector<problem> stuck;
  gone = target_.make_way(path, target::removal::dry, stuck, may ? &filter_ : nullptr);
  const bool whole = !gone.empty() && gone.back() == path;
  const bool is_empty = whole && gone.size() == 1;
  if (may ? whole : is_empty) return {};
  return may                      ? "Is a directory, of which not all may be removed"
         : options_.delete_others ? "Is a directory, and not empty: it stays for --max-delete"
                                  : "Is a directory, and not empty: --delete would replace it";
}

// REQUIRES: a directory is at `path`. Returns false if it stays, and reports the reason. A dry run
// reports the entries that would be removed.
bool receiver::can_make_way(const std::string& path) {
  const bool may = may_make_way();
  if (may && !options_.dry_run) return true;
  std::vector<std::string> gone;
  const std::string why = what_keeps(path, gone);
  if (may) tell_gone(std::move(gone));
  if (!why.empty()) report({problem::kind::failed, path, why});
  return why.empty();
}

void receiver::make_way(const std::string& path, last_words& said) {
  if (!may_make_way()) return;
  std::vector<problem> stuck;
  for (std::string& one : target_.make_way(path, removal_here(), stuck, &filter_)) {
    ++said.deleted;
    said.items.push_back(gone_item(std::move(one)));
  }
}

void receiver::tell_gone(std::vector<std::string> gone) {
  for (std::string& one : gone) {
    ++result_.done.deleted;
    tell(gone_item(std::move(one)));
  }
}

void receiver::delete_others(last_words& said, const std::atomic<bool>& canceled) {
  if (!said.all_read) {
    said.problems.push_back(
        {problem::kind::failed, ".", "nothing is deleted, since not all could be read"});
    return;
  }
  std::unordered_map<std::string_view, std::vector<std::string_view>> names;
  std::vector<std::string_view> directories;
  const auto stays = [&names](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const bool top = slash == std::string_view::npos;
    names[top ? std::string_view(".") : path.substr(0, slash)].push_back(
        top ? path : path.substr(slash + 1));
  };
  for (const entry& e : entries_) {
    if (e.kind == entry_kind::directory) directories.push_back(e.path);
    stays(e.path);
  }
  target::removal_limit limit{.left = options_.most_deleted};
  // Entries of the source that are not sent have a counterpart all the same.
  for (const std::string& left : left_out_) stays(left);
  const std::unordered_set<std::string_view> left_out(left_out_.begin(), left_out_.end());
  // The part of a file that failed, or that was passed over and does not exist, can be resumed.
  const auto is_whole = [&](const std::string& path) {
    const auto e = std::ranges::find(entries_, path, &entry::path);
    if (e == entries_.end() || failed_files_.contains(path)) return false;
    const cordma::result<std::optional<struct stat>> now = target_.look(path);
    if (!now || !now.value()) return false;
    return !has_contents(e->kind) || (S_ISREG(now.value()->st_mode) &&
                                      static_cast<std::uint64_t>(now.value()->st_size) == e->size);
  };
  for (const std::string_view directory : directories) {
    if (left_out.contains(directory)) continue;  // its contents are on another file system
    if (canceled) return;
    if (options_.dry_run || options_.existing) {  // it may not exist, and is not created
      const cordma::result<std::optional<struct stat>> there = target_.look(std::string(directory));
      const bool is_there = there && there.value() && S_ISDIR(there.value()->st_mode);
      if (!is_there && (there || options_.dry_run)) continue;
    }
    // Entries that the filter excludes from the transfer are not deleted at the target either.
    for (std::string& gone :
         target_.remove_others(std::string(directory), names[directory], removal_here(),
                               said.problems, &filter_, &limit, is_whole)) {
      ++said.deleted;
      said.items.push_back(gone_item(std::move(gone)));
    }
  }
  if (limit.stayed != 0) {
    said.problems.push_back({problem::kind::limit, ".",
                             "deletions stopped due to --max-delete limit (" +
                                 std::to_string(limit.stayed) + " skipped)"});
  }
}

}  // namespace copy
