// SAVE: a snapshot during which all changes wait.
#include "../files/files.hpp"
#include "journal.hpp"
#include "shard_walk.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <unistd.h>

namespace kv {
namespace {

// Writes a file of records with blocking calls. After the first failure it writes nothing more.
class plain_writer {
 public:
  explicit plain_writer(std::string path) : path_(std::move(path)) {
    cordma::result<cordma::unique_fd> file = create_file(path_);
    if (!file) {
      failed_ = file.why();
      return;
    }
    fd_ = std::move(*file);
    const auto head = encode(log_header{log_kind::snapshot, salt_, 1, 0});
    write({head.data(), head.size()});
  }
  void record(std::string_view changes) {
    const auto length = static_cast<std::uint32_t>(changes.size());
    const std::uint32_t crc = record_crc(crc_more(crc_begin, changes), length, salt_, ++records_);
    const auto head = encode(record_header{length, crc, records_});
    write({head.data(), head.size()});
    write(changes);
  }
  void finish() {
    change_encoder end;
    end.end(records_);
    record(end.text());
    if (!failed_ && ::fsync(fd_.get()) != 0) fail("fsync of ");
  }
  [[nodiscard]] const std::optional<cordma::failure>& failed() const noexcept { return failed_; }

 private:
  void write(std::string_view bytes) {
    while (!failed_ && !bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail("writing ");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void fail(const char* doing) { failed_ = cordma::failure::from_os(errno, {doing, path_}); }

  const std::string path_;
  const std::uint32_t salt_ = random_number();
  cordma::unique_fd fd_;
  std::uint64_t records_ = 0;
  std::optional<cordma::failure> failed_;
};

}  // namespace

cordma::result<void> journal::save() {
  cordma::result<void> mine = claim();
  if (!mine) return mine;
  background expected = background::none;
  if (!running_.compare_exchange_strong(expected, background::snapshot)) {
    return cordma::failure(
        cordma::errc::in_progress,
        expected == background::snapshot
            ? "Background save already in progress"
            : "a rewrite of the journal is under way: try again when it is done");
  }
  const auto began = std::chrono::steady_clock::now();
  const std::string temporary = "temp-save-" + options_.dbfilename;
  std::optional<cordma::failure> failed;
  std::uint64_t changes_in_it = 0;
  std::uint64_t dropped_before = 0;
  {
    const keyspace::hold everything(keys_, keys_.all());
    changes_in_it = changes();
    dropped_before = dropped();
    plain_writer out(options_.dir + "/" + temporary);
    shard_walk through(keys_, shard_walk::caller::holds_all,
                       [&](change_encoder& changes) { out.record(changes.text()); });
    while (!through.done() && !out.failed()) through.step();
    out.finish();
    failed = out.failed();
  }
  if (!failed) {
    // If a FLUSHALL ran meanwhile, the result is as if the snapshot had been complete before it.
    const auto named = install_snapshot(temporary, dropped_before);
    if (named && !*named) failed = named->why();
  } else {
    remove_file(options_.dir + "/" + temporary);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const std::lock_guard lock(guard_);
  noted_snapshot(made::waited_for, failed, took.count(), changes_in_it);
  running_ = background::none;
  return failed ? cordma::result<void>(*failed) : cordma::result<void>();
}

std::uint64_t journal::dropped() {
  const std::lock_guard lock(snapshot_guard_);
  return dropped_;
}

std::optional<cordma::result<void>> journal::install_snapshot(const std::string& temporary,
                                                              std::uint64_t dropped) {
  const std::lock_guard lock(snapshot_guard_);
  if (dropped == dropped_) return rename_file(options_.dir, temporary, options_.dbfilename);
  remove_file(options_.dir + "/" + temporary);
  return std::nullopt;
}

cordma::result<void> journal::drop_snapshot() {
  const std::lock_guard alone(snapshot_guard_);
  ++dropped_;
  {
    const std::lock_guard lock(guard_);
    if (rules_.empty()) return {};
  }
  cordma::result<void> mine = claim();
  if (!mine) return mine;
  const std::string path = options_.dir + "/" + options_.dbfilename;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return cordma::failure::from_os(errno, {"removing ", path});
  }
  return sync_directory(options_.dir);
}

}  // namespace kv
