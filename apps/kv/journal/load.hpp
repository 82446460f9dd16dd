// Reading a journal or a snapshot, at the start of a server or to check that it is complete.
#pragma once

#include "log_reader.hpp"
#include "manifest.hpp"

#include <cordma/runtime/clock.hpp>

#include <functional>
#include <string>

namespace kv {

struct load_progress {
  std::string file;         // the file being read
  std::uint64_t bytes = 0;  // bytes read, of all files
  std::uint64_t total = 0;
  std::uint64_t records = 0;
  double seconds = 0;

  // "appendonly.aof.1.base.ckv: 312 of 1200 MB, 3120000 records, 410 MB/s, 2 s left"
  [[nodiscard]] std::string text() const;
};

struct load_options {
  // Called at intervals of at least `often`. If it returns false, the load fails with canceled.
  std::function<bool(const load_progress&)> progress;
  cordma::duration often = std::chrono::milliseconds(200);
  // Receives the lines for the log.
  std::function<void(const std::string&)> log;
};

struct loaded_journal {
  manifest files;
  std::uint64_t last = 0;         // number of the last record
  std::uint64_t base_bytes = 0;   // size that auto-aof-rewrite compares with
  std::uint64_t total_bytes = 0;  // size of all files
  std::uint64_t records = 0;
  std::uint64_t cut_bytes = 0;  // bytes at the end that were no record
  // Length and salt of the increment to continue in. If the length is below a header's, the
  // increment is begun anew.
  std::uint64_t last_file_bytes = 0;
  std::uint32_t salt = 0;
};

[[nodiscard]] std::string manifest_name(const std::string& append_name);

// Loads the journal in `directory` into `target`. Returns null if there is no journal. A torn end
// is cut off and logged. Errors: invalid_value, with the file, the position and a remedy;
// no_memory, if `target` reports an obstacle; the system's.
[[nodiscard]] cordma::result<std::optional<loaded_journal>> load_journal(
    const std::string& directory, const std::string& append_name, change_target& target,
    const load_options& options);

// Returns the number of records, or null if there is no snapshot. Errors: as load_journal().
[[nodiscard]] cordma::result<std::optional<std::uint64_t>> load_snapshot(
    const std::string& path, change_target& target, const load_options& options);

struct check_report {
  bool whole = false;
  bool can_fix = false;  // by truncating the file at `valid_bytes`
  bool fixed = false;    // it was truncated, and all files are valid now
  std::uint64_t valid_bytes = 0;
  std::uint64_t lost_bytes = 0;  // bytes behind `valid_bytes`
  std::string text;              // readable text, in lines
};
enum class check_mode : std::uint8_t { look, fix };
// Checks a file of the journal; for a manifest, or a folder with one, all its files, of which `fix`
// truncates only the last. Changes nothing without `fix`. Errors: the system's; invalid_value: the
// folder has no journal, or several; in_use: `fix` was requested and a server writes there.
[[nodiscard]] cordma::result<check_report> check_journal(const std::string& path, check_mode mode);

}  // namespace kv
