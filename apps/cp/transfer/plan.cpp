// Decides the receiver's actions for each entry, before its contents arrive and at the end.
#include "../files/unfinished.hpp"
#include "../target/ownership.hpp"
#include "incoming.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {
namespace {

// Limit for all files together: 128 MiB of bits.
constexpr std::uint64_t most_open_chunks = std::uint64_t{1} << 30;
constexpr std::size_t longest_map = 512U << 10;  // bytes of want::here

bool has_time(const struct stat& s, const file_time& t) noexcept {
  return s.st_mtim.tv_sec == t.s && static_cast<std::uint32_t>(s.st_mtim.tv_nsec) == t.ns;
}

// Returns the kept attributes that differ at the target. A symlink has no mode.
std::uint16_t differences(const entry& e, const struct stat& now, const keep_options& what) {
  unsigned all = 0;
  if (what.times && !has_time(now, e.modified)) all |= item::time;
  if (what.mode && e.kind != entry_kind::symlink && (now.st_mode & 07777) != e.mode)
    all |= item::mode;
  if (now.st_uid != e.uid && is_owner_wanted(what)) all |= item::owner;
  if (now.st_gid != e.gid && is_group_wanted(what, e.gid)) all |= item::group;
  return static_cast<std::uint16_t>(all);
}

// Returns the mode for the file that replaces this one, if modes are not kept.
std::optional<std::uint32_t> mode_of(const struct stat& s) noexcept {
  if (!S_ISREG(s.st_mode)) return std::nullopt;
  return s.st_mode & 0777U;
}

}  // namespace

keep_options receiver::kept() const noexcept {
  return {.mode = options_.mode,
          .times = options_.times,
          .owner = options_.owner,
          .group = options_.group,
          .owner_if_may = options_.owner_if_may,
          .group_if_may = options_.group_if_may,
          .attributes = options_.attributes};
}

std::uint64_t receiver::chunks_of(const entry& e) const noexcept {
  return (e.size + options_.chunk_bytes - 1) / options_.chunk_bytes;
}

source_identity receiver::identity_of(const entry& e) const noexcept {
  return {e.size, e.modified, options_.chunk_bytes, e.version};
}

void receiver::report(problem p) {
  frame_writer out(lanes_.front()->out(), frame_kind::problems);
  encode(out, p);
  result_.problems.add(std::move(p));
}

void receiver::tell(item::change what, const entry& e, std::uint16_t differs) {
  const bool is_device = e.type == S_IFCHR || e.type == S_IFBLK;
  tell({.what = what, .kind = e.kind, .path = e.path, .differs = differs, .is_device = is_device});
}

void receiver::tell(const item& i) {
  tell_(i);
  if (!options_.items) return;
  frame_writer out(lanes_.front()->out(), frame_kind::items);
  encode(out, i);
}

void receiver::report_failed(const std::string& path, std::vector<std::string> sentences) {
  for (std::string& sentence : sentences) {
    report({problem::kind::failed, path, std::move(sentence)});
  }
}

void receiver::consider(std::uint32_t number, const entry& e) {
  if (output_ >= 0) return consider_output(number, e);
  // Beside a file of that name it would be mistaken for the part of that file.
  const std::string_view name = std::string_view(e.path).substr(e.path.rfind('/') + 1);
  if (target::is_work_name(name)) {
    failed_files_.insert(e.path);
    return report(
        {problem::kind::failed, e.path, "a name that cordma-cp has for what is half here"});
  }
  switch (e.kind) {
    case entry_kind::directory: return consider_directory(e);
    case entry_kind::symlink: return consider_link(e);
    case entry_kind::special: return consider_special(e);
    case entry_kind::hard_link: return consider_hard_link(number);
    case entry_kind::stream: return consider_stream(number, e);
    case entry_kind::file:
      ++progress_.files_found;
      progress_.bytes_found += e.size;
      return consider_file(number, e);
  }
}

void receiver::consider_directory(const entry& e) {
  const cordma::result<std::optional<struct stat>> there = target_.look(e.path);
  const bool is_there = there && there.value() && S_ISDIR(there.value()->st_mode);
  if (is_there) {
    const std::uint16_t differs = differences_here(e, *there.value());
    if (differs != 0) tell(item::change::metadata, e, differs);
    if (options_.dry_run) return;
    struct stat now = *there.value();
    narrow(e, now);
    open_up(e.path, now);
    if (e.path == "." && target_.is_new()) close_in_the_end(e);
    return;
  }
  const bool is_nothing = there && !there.value();
  if (is_nothing && is_passed_over(e, nullptr)) return;
  if (options_.ignore_existing && there && there.value()) {
    return report({problem::kind::failed, e.path,
                   "it is no directory there, and stays as it is by --ignore-existing"});
  }
  ++result_.done.directories;
  tell(item::change::made, e);
  if (options_.dry_run) return;
  const cordma::result<void> made = target_.make_directory(e.path, e.mode);
  if (!made) return report({problem::kind::failed, e.path, describe(made.why())});
  ++durable_;
  new_directories_.insert(e.path);
  close_in_the_end(e);
}

// Records the final mode of a new directory; until the end its owner may write in it.
void receiver::close_in_the_end(const entry& e) {
  constexpr std::uint32_t ours = S_IRWXU;
  if (options_.mode || (e.mode & ours) == ours) return;
  const cordma::result<std::optional<struct stat>> now = target_.look(e.path);
  if (now && now.value()) closed_.emplace(e.path, now.value()->st_mode & 07777 & ~(~e.mode & ours));
}

// Users without access to the directory in the end have none while it is filled.
void receiver::narrow(const entry& e, struct stat& now) {
  const std::uint32_t mode = now.st_mode & (e.mode | ~std::uint32_t{S_IRWXG | S_IRWXO});
  const bool was_made = e.path == "." && target_.is_new();
  if ((!options_.mode && !was_made) || mode == now.st_mode) return;
  if (set_mode(e.path, mode & 07777).empty()) now.st_mode = mode;
}

// Makes a directory of this user writable if it is not; its mode is restored at the end.
void receiver::open_up(const std::string& path, const struct stat& now) {
  constexpr std::uint32_t needed = S_IWUSR | S_IXUSR;
  if ((now.st_mode & needed) == needed || ::geteuid() == 0 || now.st_uid != ::geteuid()) return;
  const std::uint32_t before = now.st_mode & 07777;
  if (set_mode(path, before | S_IRWXU).empty()) closed_.emplace(path, before);
}

std::vector<std::string> receiver::set_mode(const std::string& directory, std::uint32_t mode) {
  entry e;
  e.kind = entry_kind::directory;
  e.mode = mode;
  const keep_options only_that{.mode = true};
  return target_.keep(directory, e, only_that);
}

// Restores the modes if the transfer did not reach its end.
void receiver::close_again() noexcept {
  for (auto one = closed_.rbegin(); one != closed_.rend(); ++one) {
    [[maybe_unused]] const std::vector<std::string> lost = set_mode(one->first, one->second);
  }
}

// True if the directory is new: it contains nothing of earlier transfers, so no lookup is needed.
bool receiver::is_in_new_directory(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  return slash != std::string::npos &&
         new_directories_.contains(std::string_view(path).substr(0, slash));
}

// --existing, --ignore-existing and --update.
bool receiver::is_passed_over(const entry& e, const struct stat* now) const noexcept {
  if (now == nullptr) return options_.existing;
  if (options_.ignore_existing) return true;
  if (!options_.update || e.kind != entry_kind::file || !S_ISREG(now->st_mode)) return false;
  return now->st_mtim.tv_sec > e.modified.s ||
         (now->st_mtim.tv_sec == e.modified.s &&
          static_cast<std::uint32_t>(now->st_mtim.tv_nsec) > e.modified.ns);
}

// True if --inplace was cut off: the file is neither newer nor the earlier one.
bool receiver::is_cut_off(const entry& e, const struct stat* now, std::vector<problem>& problems) {
  if (now == nullptr || !S_ISREG(now->st_mode)) return false;
  const cordma::result<cordma::unique_fd> fd = target_.open_file(e.path);
  if (fd) return is_unfinished((*fd).get());
  // An unreadable file was not begun here; see begin_inplace().
  const int why = fd.why().os_errno();
  if (why != EACCES && why != ENOENT) {
    problems.push_back(
        {problem::kind::failed, e.path, "looking whether it is whole: " + describe(fd.why())});
  }
  return false;
}

bool receiver::is_cut_off(const entry& e, const struct stat* now) {
  std::vector<problem> problems;
  const bool is = is_cut_off(e, now, problems);
  if (!problems.empty()) failed_files_.insert(e.path);
  for (problem& p : problems) report(std::move(p));
  return is;
}

// Returns the kept attributes that differ at the target.
std::uint16_t receiver::differences_here(const entry& e, const struct stat& now) {
  unsigned all = differences(e, now, kept());
  if (options_.attributes && target_.differs_in_attributes(e.path, e)) all |= item::attributes;
  return static_cast<std::uint16_t>(all);
}

// For a file that is transferred: its time changes in any case.
std::uint16_t receiver::differences_of_file(const entry& e, const struct stat& now) {
  if (!S_ISREG(now.st_mode)) return item::everything;
  unsigned all = differences_here(e, now);
  if (!has_time(now, e.modified) || !options_.times) all |= item::time;
  if (static_cast<std::uint64_t>(now.st_size) != e.size) all |= item::size;
  if (options_.checksum) all |= item::contents;
  return static_cast<std::uint16_t>(all);
}

void receiver::consider_link(const entry& e) {
  const auto is_there = [&](const struct stat& now) {
    const cordma::result<target::position> at = target_.find(e.path);
    if (!S_ISLNK(now.st_mode) || !at) return false;
    std::string text(e.target.size() + 1, '\0');
    const ssize_t n = ::readlinkat(at.value().directory, at.value().name, text.data(), text.size());
    return n >= 0 && std::string_view(text).substr(0, static_cast<std::size_t>(n)) == e.target;
  };
  put_node(e, is_there, [&] { return target_.make_symlink(e.path, e.target); });
}

void receiver::consider_special(const entry& e) {
  const auto is_there = [&](const struct stat& now) {
    const bool is_device = e.type == S_IFCHR || e.type == S_IFBLK;
    return (now.st_mode & S_IFMT) == e.type && (!is_device || now.st_rdev == e.device);
  };
  const bool is_device = e.type == S_IFCHR || e.type == S_IFBLK;
  if (is_device && (!options_.devices || ::geteuid() != 0)) {
    failed_files_.insert(e.path);
    return report({problem::kind::left_out, e.path,
                   options_.devices ? "is a device, which only root may make"
                                    : "is a device, and those are not taken here"});
  }
  put_node(e, is_there, [&] { return target_.make_special(e.path, e); });
}

// Creates an entry without contents if it does not exist, then sets its kept attributes.
void receiver::put_node(const entry& e, const std::function<bool(const struct stat&)>& is_as_wanted,
                        const std::function<cordma::result<void>()>& make) {
  const cordma::result<std::optional<struct stat>> there = target_.look(e.path);
  const struct stat* const now = there && there.value() ? &*there.value() : nullptr;
  if (there && is_passed_over(e, now)) return pass_over(e);
  if (now != nullptr && is_as_wanted(*now)) {
    const std::uint16_t differs = differences_here(e, *now);
    if (differs == 0) return;
    tell(item::change::metadata, e, differs);
    if (!options_.dry_run) report_failed(e.path, target_.keep(e.path, e, kept()));
    return;
  }
  const bool is_directory = now != nullptr && S_ISDIR(now->st_mode);
  if (is_directory && !can_make_way(e.path)) {
    failed_files_.insert(e.path);
    return;
  }
  if (is_directory && !options_.dry_run) make_way(e.path);
  std::uint16_t differs = item::everything;
  if (now != nullptr && e.kind == entry_kind::symlink && S_ISLNK(now->st_mode)) {
    differs = item::contents | differences_here(e, *now);
  }
  tell(now != nullptr ? item::change::updated : item::change::made, e, differs);
  ++(e.kind == entry_kind::symlink ? result_.done.links : result_.done.specials);
  if (options_.dry_run) return;
  const cordma::result<void> made = make();
  if (!made) {
    failed_files_.insert(e.path);
    return report({problem::kind::failed, e.path, describe(made.why())});
  }
  ++durable_;
  report_failed(e.path, target_.keep(e.path, e, kept()));
}

void receiver::consider_file(std::uint32_t number, const entry& e) {
  if (is_in_new_directory(e.path) && !options_.existing)
    return want_file(number, e, item::change::made);
  const auto stays = [&] {
    ++progress_.files_done;
    progress_.bytes_done += e.size;
  };
  const cordma::result<std::optional<struct stat>> there = target_.look(e.path);
  if (!there) {
    if (there.why().os_errno() == ENOENT && options_.dry_run)
      return want_file(number, e, item::change::made);
    failed_files_.insert(e.path);
    report({problem::kind::failed, e.path, describe(there.why())});
    return stays();
  }
  const struct stat* const found = there.value() ? &*there.value() : nullptr;
  const bool has_size = found != nullptr && S_ISREG(found->st_mode) &&
                        static_cast<std::uint64_t>(found->st_size) == e.size;
  // With --checksum it is compared: the machine may have crashed since.
  const bool is_finished = e.finished && has_size;
  if (is_finished && !options_.checksum) return stays();
  if (!is_finished && is_passed_over(e, found) && !is_cut_off(e, found)) {
    pass_over(e);
    return stays();
  }
  if (found == nullptr) return want_file(number, e, item::change::made);
  const struct stat& now = *found;
  const bool is_device = S_ISCHR(now.st_mode) || S_ISBLK(now.st_mode);
  if (is_device && !only_name_.empty()) {
    failed_files_.insert(e.path);
    report({problem::kind::failed, e.path,
            "is a device, and stays one: nothing is written to it, nor is it replaced"});
    return stays();
  }
  if (S_ISDIR(now.st_mode) && !can_make_way(e.path)) {
    failed_files_.insert(e.path);
    return stays();
  }
  if (has_size && options_.checksum) {
    compared_.emplace(number, comparison{&e, now});
    scope_->spawn(compare(number));
    return;
  }
  const bool is_same_in_time = has_time(now, e.modified);
  // The mark of a file that was cut off may have given it this length.
  const bool has_all =
      has_size && (is_same_in_time || (options_.size_only && !is_cut_off(e, found)));
  if (!has_all || options_.ignore_times) {
    return want_file(number, e, item::change::updated, &now);
  }
  keep_same(e, now);
}

// Handles a file with unchanged contents; they are not transferred.
void receiver::keep_same(const entry& e, const struct stat& now) {
  if (!e.finished) ++result_.done.same;  // else an earlier connection has counted it
  ++progress_.files_done;
  progress_.bytes_done += e.size;
  // The process that wrote it may have been killed before it removed the sidecar.
  if (e.size >= smallest_resumed && !options_.dry_run) target_.drop_left(e.path);
  const std::uint16_t differs = differences_here(e, now);
  if (differs == 0) return;
  tell(item::change::metadata, e, differs);
  if (options_.dry_run) return;
  keep_options what = kept();
  what.is_made = true;
  report_failed(e.path, target_.keep(e.path, e, what));
}

void receiver::want_file(std::uint32_t number, const entry& e, item::change change,
                         const struct stat* now) {
  if (chunks_of(e) > resume_state::most_chunks || chunks_of(e) > most_open_chunks - open_chunks_) {
    failed_files_.insert(e.path);
    return report(
        {problem::kind::failed, e.path, "it takes more chunks than can be counted: --chunk"});
  }
  const std::uint16_t differs =
      now != nullptr && options_.items ? differences_of_file(e, *now) : item::everything;
  if (options_.dry_run) {
    ++result_.done.files;
    result_.done.bytes += e.size;
    tell(change, e, differs);
    return;
  }
  offer_more_for(e);
  auto f = std::make_shared<incoming>();
  f->number = number;
  f->what = &e;
  f->change = change;
  f->differs = differs;
  if (now != nullptr) {
    f->mode_here = mode_of(*now);
    f->directory_here = S_ISDIR(now->st_mode);
  }
  f->left = f->is_stream() ? 1 : chunks_of(e);  // 1: the end of the stream
  f->missing.assign(f->is_stream() ? 0 : f->left, true);
  // A file that replaces an entry of another kind does so when it is complete.
  f->in_place = options_.inplace && (now == nullptr || S_ISREG(now->st_mode));
  f->resumable = options_.resume && !f->in_place && output_ < 0 && e.size >= smallest_resumed &&
                 f->left / 8 < longest_map;
  open_.emplace(number, f);
  open_chunks_ += f->missing.size();
  if (f->resumable && has_part(*f)) {
    scope_->spawn(go_on(std::move(f)));
    return;
  }
  say_want(f);
}

void receiver::say_want(const std::shared_ptr<incoming>& f) {
  if (f->left == 0) {  // no chunk is missing
    const cordma::result<void> opened = f->fd ? cordma::result<void>() : open(*f, target_);
    if (opened) {
      publish(*f);
    } else {
      fail(*f, describe(opened.why()));
    }
    note_done();
    return forget(f->number);
  }
  want w;
  w.file = f->number;
  if (!f->is_stream() && f->left != f->missing.size()) {
    w.here.resize((f->missing.size() + 7) / 8);
    for (std::size_t i = 0; i < f->missing.size(); ++i) {
      if (!f->missing[i]) w.here[i / 8] = static_cast<std::uint8_t>(w.here[i / 8] | 1U << i % 8);
    }
  }
  if (wanted_.size() <= f->number) wanted_.resize(f->number + 1);
  wanted_[f->number] = true;
  frame_writer out(lanes_.front()->out(), frame_kind::wants);
  encode(out, w);
}

// Gives a complete file its kept attributes and its name.
cordma::result<void> receiver::publish(incoming& f, target& into,
                                       std::vector<std::string>& lost) const {
  if (output_ >= 0) return {};
  if (f.is_stream() ? options_.sparse : f.in_place) {
    const int why = cut_to(f.fd.get(), f.what->size);
    if (why != 0) return cordma::failure::from_os(why, "ftruncate");
  }
  keep_options what = f.is_stream() ? keep_options() : kept();
  what.is_made = f.unnamed;
  if (!what.mode && f.mode_here) {  // the replaced file's mode is kept
    entry e = *f.what;
    e.mode = *f.mode_here;
    what.mode = true;
    lost = into.keep(f.fd.get(), e, what);
  } else {
    lost = into.keep(f.fd.get(), *f.what, what);
  }
  if (f.in_place) return {};
  make_way(f, into);
  const std::string& path = f.what->path;
  return f.unnamed ? into.publish_unnamed(f.fd.get(), path) : into.publish(f.fd.get(), path);
}

void receiver::publish(incoming& f) {
  std::vector<std::string> lost;
  const cordma::result<void> published = publish(f, target_, lost);
  if (!published) return fail(f, describe(published.why()));
  tell_published(f, std::move(lost));
}

void receiver::tell_published(incoming& f, std::vector<std::string> lost) {
  tell_gone(std::exchange(f.gone, {}));
  report_failed(f.what->path, std::move(lost));
  ++result_.done.files;
  result_.done.bytes += f.came;
  result_.done.resumed_bytes += f.resumed;
  ++durable_;
  // A further name of a file does not show that the first one is finished.
  const bool is_its_own = f.what == &entries_[f.number] && f.what->kind == entry_kind::file;
  if (is_its_own && ledger_ != nullptr) ledger_->add_finished(*f.what);
  if (is_its_own && options_.acknowledge) named_.push_back(f.number);
  ++progress_.files_done;
  tell(f.change, *f.what, f.differs);
}

// Reports progress to a client that may reconnect.
void receiver::note_done() {
  if (durable_ == durable_told_ || output_ >= 0) return;
  durable_told_ = durable_;
  if (ledger_ != nullptr) ledger_->note(result_.done, durable_);
  if (!options_.acknowledge) return;
  encode(lanes_.front()->out(), done_frame{result_.done, durable_, std::exchange(named_, {})});
  lanes_.front()->kick();
}

// REQUIRES: `why` is not empty.
void receiver::fail(incoming& f, const std::string& why) {
  f.why = why;
  f.turn.set();
  // Reported at once: otherwise the sender would continue, perhaps without an end.
  if (f.is_stream() && !std::exchange(f.told, true)) {
    report({problem::kind::failed, f.what->path, why});
    lanes_.front()->kick();
  }
}

void receiver::forget(std::uint32_t number) {
  const std::shared_ptr<incoming> f = std::move(open_.at(number));
  open_.erase(number);
  open_chunks_ -= f->is_stream() ? 0 : f->missing.size();
  if (f->why.empty()) return;
  failed_files_.insert(f->what->path);
  tell_gone(std::move(f->gone));
  const bool vanished = f->source == file_end::how::vanished;
  const problem::kind kind = vanished ? problem::kind::vanished : problem::kind::failed;
  if (!f->told) report({kind, f->what->path, f->why});
  ++progress_.files_done;
  // The part of a changed file is useless; otherwise its chunks need not be sent again.
  const bool useful = f->resumable && f->source == file_end::how::failed && f->sidecar;
  if (useful || f->in_place || f->unnamed || output_ >= 0) return;
  f->fd.reset();  // else it would be in use
  [[maybe_unused]] const cordma::result<void> dropped = target_.drop_part(f->what->path);
}

void receiver::finish_if_due() {
  if (!all_listed_ || !open_.empty() || !compared_.empty()) return;
  if (!std::exchange(finishing_, true)) scope_->spawn(finish());
}

// Work that may take long, or wait for a disk, runs on a thread of the crew, which uses the target
// meanwhile. The present thread continues to send `alive` frames.
cordma::task<void> receiver::finish() {
  last_words said;
  said.all_read = !not_all_read_;
  std::string why;
  auto work = [&](std::size_t, const std::atomic<bool>& canceled) noexcept {
    try {
      make_hard_links(said);
      if (options_.delete_others) delete_others(said, canceled);
      if (!options_.dry_run) keep_directories(said);
    } catch (const std::exception& e) {
      why = e.what();  // out of memory
    }
  };
  crew_job last = crew_.run(work);
  co_await last;
  if (!why.empty()) report({problem::kind::failed, ".", why});
  for (problem& p : said.problems) report(std::move(p));
  tell_not_owned();
  for (const item& i : said.items) tell(i);
  result_.done.links += said.links;
  result_.done.deleted += said.deleted;
  durable_ += options_.dry_run ? 0 : said.deleted;
  note_done();
  finished_ = true;
  result_.done.manifest = got_.sum();
  encode(lanes_.front()->out(), result_.done);
  lanes_.front()->kick();
}

// Reports the number of entries that do not have the owner or group requested "if possible".
void receiver::tell_not_owned() {
  const bool of_any = options_.owner_if_may || options_.group_if_may;
  if (!of_any || ::geteuid() == 0) return;
  const std::vector<gid_t> mine = own_groups();
  const auto is_not_owned = [&](const entry& e) {
    return (options_.owner_if_may && e.uid != ::geteuid()) ||
           (options_.group_if_may && std::ranges::find(mine, e.gid) == mine.end());
  };
  const auto count = std::ranges::count_if(entries_, is_not_owned);
  if (count == 0) return;
  report({problem::kind::left_out, ".",
          "the owner or group of " + std::to_string(count) + " entries, which only root may keep"});
}

// Deepest directories first: later work in a directory would change its attributes.
void receiver::keep_directories(last_words& said) {
  for (auto e = entries_.rbegin(); e != entries_.rend(); ++e) {
    if (e->kind != entry_kind::directory) continue;
    if (options_.existing) {
      const cordma::result<std::optional<struct stat>> there = target_.look(e->path);
      if (there && !there.value()) continue;
    }
    entry wanted = *e;
    keep_options what = kept();
    if (const auto closed = closed_.find(e->path); closed != closed_.end()) {
      if (!what.mode) wanted.mode = closed->second;
      what.mode = true;
      closed_.erase(closed);
    }
    for (std::string& sentence : target_.keep(wanted.path, wanted, what)) {
      said.problems.push_back({problem::kind::failed, e->path, std::move(sentence)});
    }
  }
}

}  // namespace copy
