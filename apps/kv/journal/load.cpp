#include "load.hpp"

#include "../files/files.hpp"
#include "noting_target.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace kv {
namespace {

using std::chrono::steady_clock;

constexpr double megabyte = 1e6;
constexpr std::uint64_t records_per_look = 64;  // between two readings of the clock

cordma::failure damaged(const log_reader& file, const std::string& what_to_do) {
  return {cordma::errc::invalid_value, file.path() + " is damaged at byte " +
                                           std::to_string(file.offset()) + ": " + file.why() +
                                           "; " + what_to_do};
}

// Whether the files that follow a file contain records.
enum class behind : std::uint8_t { nothing, records };

// Quotes an absolute path for a shell.
std::string quoted_path(const std::string& path) {
  const std::string whole = std::filesystem::absolute(path).lexically_normal().string();
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+,@";
  if (whole.find_first_not_of(plain) == std::string::npos) return whole;
  std::string out = "'";
  for (const char c : whole) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class loader {
 public:
  loader(change_target& target, const load_options& options, std::uint64_t total)
      : target_(target), options_(options), began_(steady_clock::now()) {
    progress_.total = total;
  }

  // Reads the valid records. Returns how the file ends: `end` or `torn`.
  [[nodiscard]] cordma::result<log_reader::outcome> read(log_reader& file,
                                                         behind others = behind::nothing) {
    noting_target target(target_);
    progress_.file = file.path().substr(file.path().rfind('/') + 1);
    const std::uint64_t before = progress_.bytes;
    for (;;) {
      const std::uint64_t at = file.offset();
      const log_reader::outcome got = file.next();
      if (got != log_reader::outcome::record) {
        const cordma::result<void> fine = judge(file, got, target, others);
        if (!fine) return fine.why();
        return got;
      }
      if (!decode_changes(file.changes(), target)) {
        return cordma::failure::of(cordma::errc::invalid_value,
                                   {file.path(), ": the record at byte ", at,
                                    " has its right checksum, and yet makes no sense: it was not "
                                    "written by this version of cordma-kv"});
      }
      if (!target.obstacle().empty()) {
        return cordma::failure::of(cordma::errc::no_memory,
                                   {"loading ", file.path(), ": ", target.obstacle()});
      }
      ++progress_.records;
      progress_.bytes = before + file.offset();
      if (progress_.records % records_per_look == 0 && !tell()) return cordma::errc::canceled;
    }
  }
  [[nodiscard]] const load_progress& progress() const noexcept { return progress_; }
  void say(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

 private:
  [[nodiscard]] bool tell() {
    if (!options_.progress) return true;
    const auto now = steady_clock::now();
    if (now - told_ < options_.often) return true;
    told_ = now;
    progress_.seconds = std::chrono::duration<double>(now - began_).count();
    return options_.progress(progress_);
  }
  [[nodiscard]] static cordma::result<void> judge(const log_reader& file, log_reader::outcome got,
                                                  const noting_target& target, behind others) {
    const bool increment = file.header().kind == log_kind::increment;
    if (got == log_reader::outcome::unreadable) {
      return cordma::failure::of(cordma::errc::operating_system,
                                 {"reading ", file.path(), ": ", file.why()});
    }
    if (got == log_reader::outcome::broken && increment) {
      const std::string advice = others == behind::records
                                     ? " (what is in the files behind it cannot be had without it)"
                                     : ", or give up what follows by `cordma-kv --check-aof " +
                                           quoted_path(file.path()) + " --fix`";
      return damaged(file,
                     "whole records follow, so it was not cut off by a crash. Put a copy in its "
                     "place" +
                         advice);
    }
    if (increment) return {};
    if (got != log_reader::outcome::end) return damaged(file, "put a copy in its place");
    if (!target.end() || *target.end() + 1 != file.sequence()) {
      return cordma::failure::of(cordma::errc::invalid_value,
                                 {file.path(), " lacks its end: it has ", file.sequence(),
                                  " records and was longer. Put a copy in its place"});
    }
    return {};
  }

  change_target& target_;
  const load_options& options_;
  load_progress progress_;
  const steady_clock::time_point began_;
  steady_clock::time_point told_{};
};

// Reads the files of a manifest in order.
class journal_load {
 public:
  journal_load(const std::string& directory, loaded_journal& into, loader& by)
      : directory_(directory), into_(into), by_(by) {}

  [[nodiscard]] cordma::result<void> all() {
    if (into_.files.base) {
      const cordma::result<void> read = base(path(into_.files.base->name));
      if (!read) return read;
    }
    const std::vector<journal_file>& increments = into_.files.increments;
    for (std::size_t i = 0; i < increments.size(); ++i) {
      const cordma::result<void> read = increment(i);
      if (!read) return read;
    }
    into_.records = by_.progress().records;
    return {};
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  [[nodiscard]] cordma::result<void> base(const std::string& at) {
    cordma::result<log_reader> file = log_reader::open(at);
    if (!file) return file.why();
    if ((*file).header().kind != log_kind::base) {
      return cordma::failure::of(cordma::errc::invalid_value, {at, " is no base of a journal"});
    }
    const cordma::result<log_reader::outcome> read = by_.read(*file);
    if (!read) return read.why();
    into_.last = (*file).header().first - 1;
    into_.base_bytes = (*file).size();
    into_.total_bytes += (*file).size();
    return {};
  }
  // True if the increments behind this one contain no records.
  [[nodiscard]] bool last_with_records(std::size_t index) const {
    for (std::size_t i = index + 1; i < into_.files.increments.size(); ++i) {
      const std::uint64_t bytes = file_size(path(into_.files.increments[i].name)).value_or(0);
      if (bytes > log_header_bytes) return false;
    }
    return true;
  }
  [[nodiscard]] cordma::result<void> increment(std::size_t index) {
    const std::string at = path(into_.files.increments[index].name);
    const std::optional<std::uint64_t> bytes = file_size(at);
    into_.last_file_bytes = 0;
    // The file was created, and the crash came before its header was written.
    if (bytes && *bytes < log_header_bytes && last_with_records(index)) return {};
    cordma::result<log_reader> file = log_reader::open(at);
    if (!file) return file.why();
    const log_header& header = (*file).header();
    if (header.kind != log_kind::increment) {
      return cordma::failure::of(cordma::errc::invalid_value,
                                 {at, " is no increment of a journal"});
    }
    if (header.first != into_.last + 1) {
      return cordma::failure::of(
          cordma::errc::invalid_value,
          {at, " begins with record ", header.first, ", and the files before it end with record ",
           into_.last, ": one is missing, or of another journal. Put back what was there"});
    }
    const cordma::result<log_reader::outcome> read =
        by_.read(*file, last_with_records(index) ? behind::nothing : behind::records);
    if (!read) return read.why();
    into_.last = (*file).sequence();
    into_.last_file_bytes = (*file).offset();
    into_.salt = header.salt;
    into_.total_bytes += (*file).offset();
    return *read == log_reader::outcome::torn ? cut(*file, index) : cordma::result<void>();
  }
  [[nodiscard]] cordma::result<void> cut(const log_reader& file, std::size_t index) {
    if (!last_with_records(index)) {
      return damaged(file, "and another increment follows it. Put a copy in its place");
    }
    into_.cut_bytes = file.size() - file.offset();
    by_.say(file.path() + " ends with " + std::to_string(into_.cut_bytes) +
            " bytes that are no whole record (" + file.why() + "): cut off at byte " +
            std::to_string(file.offset()));
    return truncate_file(file.path(), file.offset());
  }

  const std::string& directory_;
  loaded_journal& into_;
  loader& by_;
};

}  // namespace

std::string load_progress::text() const {
  const double mb = static_cast<double>(bytes) / megabyte;
  const double rate = seconds > 0 ? mb / seconds : 0;
  const double left = rate > 0 ? (static_cast<double>(total) / megabyte - mb) / rate : 0;
  std::array<char, 160> rest;
  std::snprintf(rest.data(), rest.size(), ": %.0f of %.0f MB, %llu records, %.0f MB/s, %.0f s left",
                mb, static_cast<double>(total) / megabyte, static_cast<unsigned long long>(records),
                rate, left);
  return file + rest.data();
}

std::string manifest_name(const std::string& append_name) { return append_name + ".manifest"; }

cordma::result<std::optional<loaded_journal>> load_journal(const std::string& directory,
                                                           const std::string& append_name,
                                                           change_target& target,
                                                           const load_options& options) {
  const std::string path = directory + "/" + manifest_name(append_name);
  const cordma::result<std::optional<std::string>> text = read_manifest(path);
  if (!text) return text.why();
  if (!*text) return std::optional<loaded_journal>();
  cordma::result<manifest> parsed = parse_manifest(**text);
  if (!parsed) return cordma::failure(parsed.code(), path + ": " + parsed.why().message());

  loaded_journal into;
  into.files = std::move(*parsed);
  std::uint64_t total =
      into.files.base ? file_size(directory + "/" + into.files.base->name).value_or(0) : 0;
  for (const journal_file& f : into.files.increments) {
    total += file_size(directory + "/" + f.name).value_or(0);
  }
  loader by(target, options, total);
  const cordma::result<void> read = journal_load(directory, into, by).all();
  if (!read) return read.why();
  return std::optional<loaded_journal>(std::move(into));
}

cordma::result<std::optional<std::uint64_t>> load_snapshot(const std::string& path,
                                                           change_target& target,
                                                           const load_options& options) {
  const std::optional<std::uint64_t> bytes = file_size(path);
  if (!bytes) return std::optional<std::uint64_t>();
  cordma::result<log_reader> file = log_reader::open(path);
  if (!file) return file.why();
  if ((*file).header().kind != log_kind::snapshot) {
    return cordma::failure::of(cordma::errc::invalid_value,
                               {path, " is a part of a journal, and no snapshot"});
  }
  loader by(target, options, *bytes);
  const cordma::result<log_reader::outcome> read = by.read(*file);
  if (!read) return read.why();
  return std::optional<std::uint64_t>(by.progress().records);
}

}  // namespace kv
