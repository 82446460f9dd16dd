#include "../files/files.hpp"
#include "folder_lock.hpp"
#include "load.hpp"
#include "noting_target.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace kv {
namespace {

// Discards all changes.
class no_target final : public change_target {
 public:
  void put(std::string_view, std::string_view, unix_ms, std::uint64_t) noexcept override {}
  void erased(std::string_view) noexcept override {}
  void expiry_set(std::string_view, unix_ms) noexcept override {}
  void field_put(std::string_view, std::string_view, std::string_view) noexcept override {}
  void field_erased(std::string_view, std::string_view) noexcept override {}
  void cleared_part(const hash_part&) noexcept override {}
  void ended(std::uint64_t) noexcept override {}
};

cordma::result<check_report> check_file(const std::string& path, check_mode mode) {
  check_report report;
  cordma::result<log_reader> file = log_reader::open(path);
  if (!file && file.why().os_errno() != 0) return file.why();
  if (!file) {
    report.text = file.why().message() + "\n";
    return report;
  }
  log_reader& in = *file;
  no_target nowhere;
  noting_target target(nowhere);
  log_reader::outcome got = in.next();
  std::uint64_t end = log_header_bytes;
  bool sense = true;
  while (got == log_reader::outcome::record && sense) {
    sense = decode_changes(in.changes(), target);
    if (sense) end = in.offset();
    if (sense) got = in.next();
  }
  if (got == log_reader::outcome::unreadable) {
    return cordma::failure::of(cordma::errc::operating_system, {"reading ", path, ": ", in.why()});
  }
  const bool increment = in.header().kind == log_kind::increment;
  const bool complete = increment || (target.end() && *target.end() + 1 == in.sequence());
  report.whole = sense && got == log_reader::outcome::end && complete;
  report.valid_bytes = end;
  report.lost_bytes = in.size() - end;
  report.text = path + ": " + std::to_string(in.sequence()) + " is the last record, " +
                std::to_string(end) + " of " + std::to_string(in.size()) + " bytes are whole\n";
  if (report.whole) return report;
  const std::string why = !sense             ? "a record makes no sense"
                          : in.why().empty() ? "its end is missing"
                                             : in.why();
  report.text += "  at byte " + std::to_string(end) + ": " + why + "\n";
  report.can_fix = increment;
  if (!increment) {
    report.text += "  a base or snapshot has to be whole: put a copy in its place\n";
  } else if (mode == check_mode::fix) {
    const cordma::result<void> cut = truncate_file(path, end);
    if (!cut) return cut.why();
    report.fixed = true;
    report.text += "  cut off there: " + std::to_string(report.lost_bytes) + " bytes are gone\n";
  } else {
    report.text +=
        "  --fix cuts it off there, and gives up " + std::to_string(report.lost_bytes) + " bytes\n";
  }
  return report;
}

// True for the temporary file of a process that was killed while it wrote a manifest. A real
// journal with such a name has files of that name in the folder.
bool is_half_written(const std::filesystem::path& manifest) {
  const std::string journal = manifest.stem().string();
  return journal.starts_with(temporary_prefix) &&
         last_number_in(manifest.parent_path().string(), journal) == 0;
}

// Finds the only manifest in a folder or its subfolders: the journal in `dir` has a subfolder.
cordma::result<std::string> find_manifest(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    if (at.depth() >= 1) at.disable_recursion_pending();
    if (at->path().extension() == ".manifest" && !is_half_written(at->path())) {
      found.push_back(at->path().string());
    }
  }
  if (error) return cordma::failure::from_os(error.value(), {"reading ", folder});
  if (found.empty()) {
    return cordma::failure::of(cordma::errc::invalid_value, {folder, ": no journal is there"});
  }
  if (found.size() == 1) return found.front();
  std::ranges::sort(found);
  return cordma::failure::of(
      cordma::errc::invalid_value,
      {folder, ": there are several journals; say which: ", found[0], " or ", found[1]});
}

// Checks all files of a manifest.
cordma::result<check_report> check_all(const std::string& path, check_mode mode) {
  const cordma::result<std::optional<std::string>> text = read_manifest(path);
  if (!text) return text.why();
  if (!*text) return cordma::failure::from_os(ENOENT, {"opening ", path});
  const cordma::result<manifest> files = parse_manifest(**text);
  check_report all;
  if (!files) {
    all.text = path + ": " + files.why().message() + "\n";
    return all;
  }
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  std::vector<std::string> names;
  if ((*files).base) names.push_back((*files).base->name);
  for (const journal_file& f : (*files).increments) names.push_back(f.name);
  all.whole = true;
  for (const std::string& name : names) {
    const std::string at = directory + "/" + name;
    const bool last = &name == &names.back();
    if (last && file_size(at).value_or(log_header_bytes) < log_header_bytes) continue;
    const cordma::result<check_report> one = check_file(at, last ? mode : check_mode::look);
    if (!one) return one.why();
    all.text += (*one).text;
    all.can_fix = last && (*one).can_fix;
    all.fixed = all.whole && (*one).fixed;
    all.whole = all.whole && (*one).whole;
    all.valid_bytes = (*one).valid_bytes;
    all.lost_bytes = (*one).lost_bytes;
  }
  return all;
}

}  // namespace

cordma::result<check_report> check_journal(const std::string& path, check_mode mode) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const cordma::result<std::string> manifest = find_manifest(path);
    return manifest ? check_journal(*manifest, mode) : manifest.why();
  }
  // A server that writes there has locked its folder. A folder that has no locks or does not exist
  // is no obstacle.
  cordma::unique_fd folder;
  if (const auto at = std::filesystem::canonical(path, error); mode == check_mode::fix && !error) {
    cordma::result<cordma::unique_fd> lock = lock_folder(at.parent_path().string());
    if (lock.code() == cordma::errc::in_use) {
      return cordma::failure::of(cordma::errc::in_use,
                                 {lock.why().message(), ": end that one first"});
    }
    if (lock) folder = std::move(*lock);
  }
  return path.ends_with(".manifest") ? check_all(path, mode) : check_file(path, mode);
}

}  // namespace kv
