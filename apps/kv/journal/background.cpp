// Background work of the journal: rewrites and snapshots.
#include "../files/files.hpp"
#include "journal.hpp"
#include "shard_walk.hpp"

#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace kv {
namespace {

constexpr const char* base_on_its_way = "temp-rewrite.ckv";

std::string_view name(background what) noexcept {
  return what == background::rewrite ? "rewrite of the journal" : "snapshot";
}

// True if the file contains exactly this text.
bool holds(const std::string& path, const std::string& text) {
  const cordma::result<std::optional<std::string>> found = read_manifest(path);
  return found && *found && **found == text;
}

// Reads the manifest; an empty one if there is none. Errors: with the path.
cordma::result<manifest> manifest_there(const std::string& path) {
  const cordma::result<std::optional<std::string>> text = read_manifest(path);
  if (!text) return text.why();
  if (!*text) return manifest();
  cordma::result<manifest> parsed = parse_manifest(**text);
  if (!parsed) {
    return cordma::failure(parsed.code(), path + ": " + parsed.why().message() +
                                              ". Put a copy in its place, or move it away");
  }
  return parsed;
}

[[nodiscard]] bool is_for_want_of_room(const cordma::failure& f) noexcept {
  return f.os_errno() == ENOSPC || f.os_errno() == EDQUOT || f.os_errno() == EFBIG;
}

void check(const std::optional<cordma::failure>& failed) {
  if (failed) cordma::throw_error(*failed);
}

}  // namespace

void journal::start(background what) {
  {
    const std::lock_guard lock(guard_);
    background expected = background::none;
    if (!running_.compare_exchange_strong(expected, what)) return;  // a save() began first
    (what == background::rewrite ? rewrite_asked_ : snapshot_asked_) = false;
  }
  running_tasks_.spawn(run(what));
}

cordma::task<void> journal::run(background what) {
  began_ = disk_.home().now();
  say("a " + std::string(name(what)) + " begins");
  std::optional<cordma::failure> failed;
  try {
    if (what == background::rewrite) {
      co_await rewrite();
    } else {
      co_await snapshot();
    }
  } catch (const cordma::error& e) {
    failed = e.why();
  } catch (const std::bad_alloc&) {
    failed = cordma::failure(cordma::errc::no_memory);
  }
  if (failed) close_side();
  if (failed && main_on_ && !counts_) co_await forget_increment();
  const std::chrono::duration<double> took = disk_.home().now() - began_;
  ended(what, failed, took.count());
}

void journal::ended(background what, const std::optional<cordma::failure>& failed, double seconds) {
  background_report report;
  report.what = what;
  report.seconds = seconds;
  report.bytes = side_bytes_;
  if (failed) report.failed = failed->describe();
  {
    const std::lock_guard lock(guard_);
    if (what == background::rewrite) {
      told_.last_rewrite_failed = failed.has_value();
      told_.last_rewrite_seconds = seconds;
      if (failed) next_rewrite_ = disk_.home().now() + rewrite_retry;
      if (failed) told_.last_error = *report.failed;
      if (!failed) ++told_.rewrites;
    } else {
      noted_snapshot(made::behind, failed, seconds, changes_in_side_);
    }
    running_ = background::none;
  }
  if (failed) {
    warn("the " + std::string(name(what)) + " failed: " + *report.failed);
  } else {
    say("the " + std::string(name(what)) + " is done: " + std::to_string(report.bytes) +
        " bytes in " + std::to_string(seconds) + " s");
  }
  tell_off(what == background::rewrite ? failed : std::nullopt);
  moved_.set();
  moved_.reset();
  if (events_.on_background) events_.on_background(report);
}

// Warns once if appendonly is set but not in effect, until that changes.
void journal::tell_off(const std::optional<cordma::failure>& failed) {
  {
    const std::lock_guard lock(guard_);
    const bool off = wanted_on_ && !counts_ && !stopping_;
    if (std::exchange(off_told_, off) || !off) return;
  }
  std::string way_out = "Or do";
  if (failed) {
    way_out = is_for_want_of_room(*failed) ? "Make room in " + directory() + ", or do"
                                           : "See to what it failed for, or do";
  }
  warn(
      "appendonly is NOT on: it takes a rewrite of the journal that succeeds, which is tried again "
      "every " +
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(rewrite_retry).count()) +
      " s. " + way_out + " without (CONFIG SET appendonly no)");
}

// REQUIRES the guard.
void journal::noted_snapshot(made how, const std::optional<cordma::failure>& failed, double seconds,
                             std::uint64_t changes) {
  told_.last_snapshot_seconds = seconds;
  // A snapshot aborted at the end does not indicate a disk fault. The caller of SAVE receives the
  // failure itself.
  const bool counts = !failed || (how == made::behind && failed->code() != cordma::errc::canceled);
  if (counts) {
    told_.last_snapshot_failed = failed.has_value();
    snapshot_failure_ = failed ? failed->describe() : std::string();
    mind_failed_snapshot();
  }
  if (failed) {
    next_snapshot_ = disk_.home().now() + snapshot_retry;
    return;
  }
  ++told_.snapshots;
  told_.last_snapshot = static_cast<std::uint64_t>(std::time(nullptr));
  last_snapshot_ = disk_.home().now();
  changes_at_snapshot_ = changes;
}

// The next increment is not written before this one is on the disk. Syncs most of this one now, so
// that few records have to wait for it.
cordma::task<void> journal::sync_ahead() {
  const std::uint64_t until = main_.appended();
  main_.flush();
  while (main_.durable() < until) {
    check_wanted();
    co_await moved_.wait();
  }
}

cordma::task<void> journal::settled() {
  while (!main_.settled()) {
    check_wanted();
    co_await moved_.wait();
  }
}

void journal::check_wanted() {
  if (stopping_) check(cordma::failure(cordma::errc::canceled, "the server ends"));
  const std::lock_guard lock(guard_);
  if (!wanted_on_) check(cordma::failure(cordma::errc::canceled, "appendonly was turned off"));
}

cordma::task<void> journal::rewrite() {
  if (main_on_) co_await sync_ahead();
  co_await settled();
  co_await next_increment();
  const std::uint64_t number = files_.increments.back().number;
  std::uint64_t first = 0;
  {
    const std::lock_guard lock(guard_);
    first = main_.first_in_file();
  }
  std::string path = directory() + "/" + base_on_its_way;
  co_await open_side(std::move(path), log_kind::base, first);
  co_await walk();
  co_await finish_side();
  co_await settled();
  co_await install_base(number);
  main_.trust();
}

// Directs changes from now on to a new increment. If appendonly was off, the manifest names it only
// with its base.
cordma::task<void> journal::next_increment() {
  std::optional<cordma::failure> failed;
  cordma::unique_fd fd;
  manifest files = files_;
  const bool was_on = main_on_;
  const std::string manifest_file = manifest_name(options_.appendfilename);
  disk_call create(disk_, [&] {
    cordma::result<void> made = make_directory(directory());
    if (made) made = claim();
    if (!made) {
      failed = made.why();
      return;
    }
    if (!was_on) {  // A manifest from before may exist.
      cordma::result<manifest> old = manifest_there(directory() + "/" + manifest_file);
      if (!old) {
        failed = old.why();
        return;
      }
      files = std::move(*old);
    }
    const std::uint64_t named = std::max(files.last_number(), files_.last_number());
    const std::uint64_t found = last_number_in(directory(), options_.appendfilename);
    if (found > named) {
      warn("in " + directory() + " lie files of a journal, up to number " + std::to_string(found) +
           ", that no manifest names: they stay as they are, and are not read");
    }
    const cordma::result<std::uint64_t> number = next_number(named, found);
    if (!number) {
      failed = number.why();
      return;
    }
    files.increments.push_back({file_name(*number, log_kind::increment), *number});
    cordma::result<cordma::unique_fd> file =
        create_new_file(directory() + "/" + files.increments.back().name);
    if (!file) {
      failed = file.why();
      return;
    }
    fd = std::move(*file);
    const cordma::result<void> told = was_on
                                          ? replace_file(directory(), manifest_file, files.text())
                                          : sync_directory(directory());
    if (told) return;
    failed = told.why();
    // No record goes to the new file: the manifest must name the files in use, and no file that it
    // names may be missing.
    const std::string path = directory() + "/" + manifest_file;
    if (holds(path, files.text())) {
      (void)replace_file(directory(), manifest_file, files_.text());
    }
    if (!holds(path, files.text())) remove_file(directory() + "/" + files.increments.back().name);
  });
  co_await create;
  check(failed);
  if (was_on) older_bytes_ += main_.size();
  files_ = std::move(files);
  const std::lock_guard lock(guard_);
  main_.go_to(std::move(fd), log_kind::increment);
  main_on_ = true;
  noting_ = true;
  told_.current_bytes = base_bytes_ + older_bytes_;
}

// The new manifest lists the replaced files as history; they are removed once it is safely on the
// disk. If that is unknown, because the directory could not be synced, a restart may find either
// manifest, and all files that it names.
cordma::task<void> journal::install_base(std::uint64_t number) {
  std::optional<cordma::failure> failed;
  bool is_there = false;
  manifest files;
  files.base = {file_name(number, log_kind::base), number};
  files.history = files_.history;
  if (files_.base) files.history.push_back(*files_.base);
  for (const journal_file& f : files_.increments) {
    (f.number < number ? files.history : files.increments).push_back(f);
  }
  const std::string manifest_file = manifest_name(options_.appendfilename);
  disk_call switch_over(disk_, [&] {
    cordma::result<void> done = rename_file(directory(), base_on_its_way, files.base->name);
    if (done) done = replace_file(directory(), manifest_file, files.text());
    is_there = done.ok() || holds(directory() + "/" + manifest_file, files.text());
    if (!done) failed = done.why();
    if (is_there) return;
    remove_file(directory() + "/" + base_on_its_way);
    remove_file(directory() + "/" + files.base->name);
  });
  co_await switch_over;
  // A journal that was not in effect yet takes effect only if it is certainly on the disk.
  if (is_there && (counts_ || !failed)) took_base(std::move(files));
  check(failed);
  co_await drop_history();
}

void journal::took_base(manifest files) {
  files_ = std::move(files);
  base_bytes_ = side_bytes_;
  older_bytes_ = 0;
  {
    const std::lock_guard lock(guard_);
    counts_ = true;
    always_ = main_.policy() == sync_policy::always;
    told_.base_bytes = base_bytes_;
    told_.current_bytes = base_bytes_;
  }
  moved();
}

// Replaced files remain in the manifest until they are removed, so that none is left over. If the
// manifest cannot be written, it names removed files until the next rewrite, which is harmless.
cordma::task<void> journal::drop_history() {
  if (files_.history.empty()) co_return;
  std::optional<cordma::failure> failed;
  manifest files = files_;
  files.history.clear();
  disk_call drop(disk_, [&] {
    for (const journal_file& f : files_.history) remove_file(directory() + "/" + f.name);
    const cordma::result<void> done =
        replace_file(directory(), manifest_name(options_.appendfilename), files.text());
    if (!done) failed = done.why();
  });
  co_await drop;
  if (!failed) {
    files_ = std::move(files);
    co_return;
  }
  tell_error(failed->describe());
  warn(
      "the journal is whole, but its manifest still names files that are gone, until the next "
      "rewrite: " +
      failed->describe());
}

cordma::task<void> journal::snapshot() {
  const std::uint64_t dropped_before = dropped();
  std::string path = options_.dir + "/temp-" + options_.dbfilename;
  co_await open_side(std::move(path), log_kind::snapshot, 1);
  co_await walk();
  co_await finish_side();
  std::optional<cordma::failure> failed;
  disk_call install(disk_, [&] {
    const auto done = install_snapshot("temp-" + options_.dbfilename, dropped_before);
    if (!done) failed = cordma::failure(cordma::errc::canceled, "FLUSHALL came meanwhile");
    if (done && !*done) failed = done->why();
  });
  co_await install;
  check(failed);
}

// A snapshot also contains all changes from its begin on.
cordma::task<void> journal::open_side(std::string path, log_kind kind, std::uint64_t first) {
  std::optional<cordma::failure> failed;
  cordma::unique_fd fd;
  disk_call create(disk_, [&] {
    cordma::result<cordma::unique_fd> file = create_file(path);
    if (file) {
      fd = std::move(*file);
    } else {
      failed = file.why();
    }
  });
  co_await create;
  check(failed);
  side_path_ = std::move(path);
  side_ = std::make_unique<stream>(disk_, guard_, stream_options{.most_pending = walk_pending},
                                   [this] { moved(); });
  const std::lock_guard lock(guard_);
  side_->go_to(std::move(fd), kind, first);
  side_on_ = kind == log_kind::snapshot;
  noting_ = main_on_ || side_on_;
}

cordma::task<void> journal::walk() {
  shard_walk through(keys_, shard_walk::caller::holds_nothing, [this](change_encoder& changes) {
    const std::string_view text = changes.text();
    const record_body body{std::span(&text, 1), text.size(), crc_more(crc_begin, text)};
    const std::lock_guard lock(guard_);
    (void)side_->append(body);
  });
  while (!through.done()) {
    through.step();
    while (side_->backlogged() && side_->failed() == 0 && !stopping_) co_await moved_.wait();
    check_side();
    co_await cordma::yield();
  }
}

// Ends the file: later changes are not in it.
cordma::task<void> journal::finish_side() {
  {
    change_encoder end;
    const std::lock_guard lock(guard_);
    end.end(side_->appended());
    const std::string_view text = end.text();
    (void)side_->append({std::span(&text, 1), text.size(), crc_more(crc_begin, text)});
    side_on_ = false;
    noting_ = main_on_.load();
    changes_in_side_ = changes();
  }
  side_->flush();
  while (side_->busy() && side_->failed() == 0 && !stopping_) co_await moved_.wait();
  check_side();
  side_bytes_ = side_->size();
  side_.reset();
}

void journal::check_side() const {
  if (stopping_) check(cordma::failure(cordma::errc::canceled, "the server ends"));
  if (side_->failed() == 0) return;
  check(cordma::failure::from_os(side_->failed(), {"writing ", side_path_}));
}

// Appendonly was turned on, but the journal got no base: the changes recorded since are useless. A
// retry follows later.
cordma::task<void> journal::forget_increment() {
  {
    const std::lock_guard lock(guard_);
    main_on_ = false;
    noting_ = side_on_;
  }
  for (;;) {
    const bool forgotten = main_.forget_last();
    if (forgotten) break;
    co_await moved_.wait();
  }
  disk_call drop(disk_, [&] {
    const std::string manifest_file = manifest_name(options_.appendfilename);
    const std::string name = files_.increments.back().name;
    const cordma::result<std::optional<std::string>> text =
        read_manifest(directory() + "/" + manifest_file);
    const bool named = !text || (*text && (*text)->find(" " + name + " ") != std::string::npos);
    if (!named) remove_file(directory() + "/" + name);
  });
  co_await drop;
  moved();
}

void journal::close_side() {
  {
    const std::lock_guard lock(guard_);
    side_on_ = false;
    noting_ = main_on_.load();
  }
  if (!side_) return;
  side_.reset();
  remove_file(side_path_);
  moved();
}

}  // namespace kv
