// -H: files with several names.
#include "../tree/describe.hpp"
#include "incoming.hpp"

#include <cordma/runtime/check.hpp>

#include <utility>

#include <sys/stat.h>

namespace copy {

// Records an entry that may have further names.
void receiver::note_first_name(std::uint32_t number, const entry& e) {
  if (!options_.hard_links || e.kind == entry_kind::directory) return;
  if (e.kind == entry_kind::hard_link || e.kind == entry_kind::stream) return;
  first_names_.insert_or_assign(e.path, first_name{number, number});
}

// If the first name was passed over, the file at that name may be a different file. If something is
// in its way, its contents will not arrive. In both cases the next name takes over the contents.
void receiver::consider_hard_link(std::uint32_t number) {
  entry& e = entries_[number];
  const auto found = first_names_.find(e.target);
  CORDMA_ASSERT(found != first_names_.end());
  first_name& first = found->second;
  const entry& other = entries_[first.stands];
  const bool stuck = failed_files_.contains(other.path) && !was_wanted(first.contents);
  if (!passed_over_.contains(other.path) && !stuck) {
    e.target = other.path;
    hard_links_.push_back({number, first.stands});
    return;
  }
  std::string path = std::move(e.path);
  e = other;
  e.path = std::move(path);
  e.finished = false;
  first.stands = number;
  consider(first.contents, e);
}

void receiver::pass_over(const entry& e) {
  if (options_.hard_links) passed_over_.insert(e.path);
}

void receiver::make_hard_links(last_words& said) {
  for (const further_name& one : hard_links_) {
    const entry& e = entries_[one.number];
    const cordma::result<std::optional<struct stat>> there = target_.look(e.path);
    const cordma::result<std::optional<struct stat>> first = target_.look(e.target);
    const bool both = there && first && there.value() && first.value();
    if (both && same_file(*there.value(), *first.value())) continue;
    // Uses the time of the entry that has the contents: a further name has no time.
    const struct stat* const now = there && there.value() ? &*there.value() : nullptr;
    if (there && is_passed_over(entries_[one.stands], now) && !is_cut_off(e, now, said.problems)) {
      continue;
    }
    // The file at its first name may be a different one.
    if (failed_files_.contains(e.target)) {
      said.problems.push_back({problem::kind::failed, e.path,
                               "it is to be another name of " + e.target + ", which failed"});
      continue;
    }
    if (there && there.value() && S_ISDIR(there.value()->st_mode)) {
      std::vector<std::string> gone;
      std::string why = what_keeps(e.path, gone);
      if (!why.empty()) {
        said.problems.push_back({problem::kind::failed, e.path, std::move(why)});
        continue;
      }
      make_way(e.path, said);
    }
    ++said.links;
    said.items.push_back({.what = both ? item::change::updated : item::change::made,
                          .kind = e.kind,
                          .path = e.path,
                          .differs = item::everything});
    if (options_.dry_run) continue;
    const cordma::result<void> made = target_.make_hard_link(e.path, e.target);
    if (!made) said.problems.push_back({problem::kind::failed, e.path, describe(made.why())});
  }
}

}  // namespace copy
