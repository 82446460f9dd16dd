#include "../files/files.hpp"
#include "folder_lock.hpp"
#include "journal.hpp"
#include "replay.hpp"
#include "sinks.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include <unistd.h>

namespace kv {
namespace {

unix_ms now_ms() noexcept {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  return static_cast<unix_ms>(duration_cast<milliseconds>(now).count());
}

}  // namespace

std::string journal::file_name(std::uint64_t number, log_kind kind) const {
  return options_.appendfilename + "." + std::to_string(number) +
         (kind == log_kind::base ? ".base.ckv" : ".incr.ckv");
}

cordma::result<void> journal::claim(const std::string& folder, claimed& as,
                                    cordma::duration patience) const {
  if (as.done) return {};
  cordma::result<cordma::unique_fd> lock = lock_folder(folder, patience);
  if (lock) {
    as.lock = std::move(*lock);
  } else if (lock.code() == cordma::errc::in_use) {
    return cordma::failure::of(
        cordma::errc::in_use,
        {lock.why().message(), ": end that one first, or give this one a folder of its own (dir)"});
  } else {
    warn("nothing keeps another cordma-kv from writing to " + folder +
         " too, which would destroy what is kept there: " + lock.why().message());
  }
  as.done = true;
  return {};
}

cordma::result<void> journal::claim(cordma::duration patience) {
  const std::lock_guard lock(claims_guard_);
  const cordma::result<void> mine = claim(options_.dir, dir_, patience);
  if (!mine) return mine;
  // on an error it returns false too: then the folder does not exist and has no owner
  std::error_code error;
  if (!std::filesystem::is_directory(directory(), error) ||
      std::filesystem::equivalent(options_.dir, directory(), error)) {
    return {};
  }
  return claim(directory(), directory_, patience);
}

cordma::result<load_report> journal::load(const load_options& options) {
  if (options_.appendonly || !options_.save.empty()) {
    const cordma::result<void> mine = claim(claim_patience);
    if (!mine) return mine.why();
  }
  const auto began = std::chrono::steady_clock::now();
  cordma::result<load_report> report = load_files(options);
  if (report) {
    const auto took = std::chrono::steady_clock::now() - began;
    (*report).seconds = std::chrono::duration<double>(took).count();
  }
  return report;
}

cordma::result<load_report> journal::load_files(const load_options& options) {
  load_report report;
  replay into(keys_);
  if (options_.appendonly) {
    cordma::result<std::optional<loaded_journal>> loaded =
        load_journal(directory(), options_.appendfilename, into, options);
    if (!loaded) return loaded.why();
    loaded_ = std::move(*loaded);
  }
  if (loaded_) {
    report.from = load_report::source::journal;
    report.records = loaded_->records;
    report.bytes = loaded_->total_bytes;
    report.cut_bytes = loaded_->cut_bytes;
  } else {
    const std::string path = options_.dir + "/" + options_.dbfilename;
    const cordma::result<std::optional<std::uint64_t>> records = load_snapshot(path, into, options);
    if (!records) return records.why();
    if (*records) {
      report.from = load_report::source::snapshot;
      report.records = **records;
      report.bytes = file_size(path).value_or(0);
    }
  }
  report.expired = into.finish(now_ms());
  return report;
}

cordma::task<void> journal::open() {
  for (std::uint32_t i = 0; i < keys_.shards(); ++i) keys_.at(i).report_to(sinks_[i].get());
  keys_.report_to(this);
  opened_ = true;
  {
    const std::lock_guard lock(guard_);
    told_.last_snapshot = static_cast<std::uint64_t>(std::time(nullptr));
    last_snapshot_ = disk_.home().now();
  }
  if (options_.appendonly && loaded_) {
    loaded_journal from = std::move(*loaded_);
    loaded_.reset();
    co_await go_on(std::move(from));
  } else if (options_.appendonly) {
    // Any loaded keys are from a snapshot: the journal begins with a base that has them.
    running_ = background::rewrite;
    co_await rewrite();
    running_ = background::none;
  }
  tick();
}

// Continues at the end of the loaded journal.
cordma::task<void> journal::go_on(loaded_journal from) {
  std::optional<cordma::failure> failed;
  cordma::unique_fd fd;
  const bool anew = from.last_file_bytes < log_header_bytes;
  disk_call prepare(disk_, [&] {
    if (from.files.increments.empty()) {
      const std::uint64_t found = last_number_in(directory(), options_.appendfilename);
      const cordma::result<std::uint64_t> number = next_number(from.files.last_number(), found);
      if (!number) {
        failed = number.why();
        return;
      }
      from.files.increments.push_back({file_name(*number, log_kind::increment), *number});
      const cordma::result<void> told =
          replace_file(directory(), manifest_name(options_.appendfilename), from.files.text());
      if (!told) failed = told.why();
    }
    if (failed) return;
    const std::string path = directory() + "/" + from.files.increments.back().name;
    cordma::result<cordma::unique_fd> file = anew ? create_file(path) : open_file(path);
    if (!file) {
      failed = file.why();
      return;
    }
    fd = std::move(*file);
    // The previous process may have ended before its fsync.
    if (::fsync(fd.get()) != 0) failed = cordma::failure::from_os(errno, {"fsync of ", path});
  });
  co_await prepare;
  if (failed) cordma::throw_error(*failed);
  files_ = std::move(from.files);
  base_bytes_ = from.base_bytes;
  older_bytes_ = from.total_bytes - from.base_bytes - from.last_file_bytes;
  if (anew) {
    main_.begin_behind(from.last);
  } else {
    main_.go_on_in(std::move(fd), from.last_file_bytes, from.salt, from.last);
  }
  const std::lock_guard lock(guard_);
  if (anew) main_.go_to(std::move(fd), log_kind::increment);
  main_on_ = true;
  counts_ = true;
  noting_ = true;
  always_ = options_.appendfsync == sync_policy::always;
  told_.base_bytes = base_bytes_;
  told_.current_bytes = base_bytes_ + older_bytes_;
}

// Records appended until now are still written, if the disk accepts them.
void journal::turn_off() {
  {
    const std::lock_guard lock(guard_);
    main_on_ = false;
    counts_ = false;
    always_ = false;
    noting_ = side_on_;
  }
  main_.flush();
  say("appendonly is off: what changes from now on is not in the journal");
  moved();  // waiting replies are released
}

cordma::task<void> journal::until_on() {
  while (is_coming()) co_await moved_.wait();
}

cordma::task<void> journal::end_background() {
  stopping_ = true;
  while (running_.load() != background::none) co_await moved_.wait();
}

cordma::task<void> journal::until_durable(cordma::duration patience) {
  main_.flush();
  const cordma::time_point latest = disk_.home().now() + patience;
  while (main_.busy()) {
    if (!main_on_ && main_.in_trouble()) break;  // it was turned off
    if (main_.in_trouble() && disk_.home().now() >= latest) {
      const std::string why = main_.trouble().value_or("");
      cordma::throw_error(
          cordma::failure::of(cordma::errc::io_failed, {"the last ", main_.pending(),
                                                        " bytes of the journal could not be "
                                                        "written: ",
                                                        why}));
    }
    co_await moved_.wait();
  }
}

cordma::task<void> journal::close() {
  closed_ = true;
  co_await end_background();
  co_await until_durable(brief_patience);
  const std::lock_guard lock(guard_);
  main_on_ = false;
  noting_ = false;
  disk_.home().remove(tick_);
}

}  // namespace kv
