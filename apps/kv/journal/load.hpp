// Reading what a journal, or a snapshot, has: at the start of a server, and to look whether it is whole.
#pragma once

#include "log_reader.hpp"
#include "manifest.hpp"

#include <cordma/runtime/clock.hpp>

#include <functional>
#include <string>

namespace kv {

struct load_progress {
  std::string file;         // that is read now
  std::uint64_t bytes = 0;  // read, of all files
  std::uint64_t total = 0;
  std::uint64_t records = 0;
  double seconds = 0;

  // "appendonly.aof.1.base.ckv: 312 of 1200 MB, 3120000 records, 410 MB/s, 2 s left"
  [[nodiscard]] std::string text() const;
};

struct load_options {
  // Now and then, at most `often` apart. False: no more of it; the load fails with canceled.
  std::function<bool(const load_progress&)> progress;
  cordma::duration often = std::chrono::milliseconds(200);
  // Lines worth keeping.
  std::function<void(const std::string&)> log;
};

struct loaded_journal {
  manifest files;
  std::uint64_t last = 0;         // the number of the last record
  std::uint64_t base_bytes = 0;   // what auto-aof-rewrite compares with
  std::uint64_t total_bytes = 0;  // of all files
  std::uint64_t records = 0;
  std::uint64_t cut_bytes = 0;  // that were no record, at the end
  // The increment to go on in: its length, and its salt. Less than a header: it has to begin anew.
  std::uint64_t last_file_bytes = 0;
  std::uint32_t salt = 0;
};

[[nodiscard]] std::string manifest_name(const std::string& append_name);

// All that `directory` has, into `target`. Null: there is no journal. A torn end is cut off, and `log` told.
// Errors: invalid_value, with the file, where, and what to do; what `target` refuses; the system's.
[[nodiscard]] cordma::result<std::optional<loaded_journal>> load_journal(
    const std::string& directory, const std::string& append_name, change_target& target,
    const load_options& options);

// The number of its records. Null: there is none. Errors: as load_journal().
[[nodiscard]] cordma::result<std::optional<std::uint64_t>> load_snapshot(
    const std::string& path, change_target& target, const load_options& options);

struct check_report {
  bool whole = false;
  bool can_fix = false;  // by cutting it off at `valid_bytes`
  bool fixed = false;    // and all is whole now
  std::uint64_t valid_bytes = 0;
  std::uint64_t lost_bytes = 0;  // behind those
  std::string text;              // in lines, for people
};
enum class check_mode : std::uint8_t { look, fix };
// A file of the journal; or its manifest, or a folder with one: then all files of it, of which `fix` cuts only the last.
// Nothing is changed unless it is `fix`. Errors: the system's; invalid_value: the folder has no journal, or several;
// in_use: `fix`, and a server writes there.
[[nodiscard]] cordma::result<check_report> check_journal(const std::string& path, check_mode mode);

}  // namespace kv
