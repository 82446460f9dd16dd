#include "manifest.hpp"

#include "../../support/printable.hpp"
#include "../files/files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <sstream>

#include <fcntl.h>

namespace kv {
namespace {

void write(std::ostream& out, const journal_file& file, char type) {
  out << "file " << file.name << " seq " << file.number << " type " << type << "\n";
}

struct line_of_manifest {
  journal_file file;
  char type = 0;
};

std::optional<line_of_manifest> parse_line(std::string_view line) {
  std::istringstream in{std::string(line)};
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  if (words.size() != 6 || words[0] != "file" || words[2] != "seq" || words[4] != "type" ||
      words[5].size() != 1) {
    return std::nullopt;
  }
  line_of_manifest parsed;
  parsed.file.name = words[1];
  parsed.type = words[5][0];
  const std::string& digits = words[3];
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.file.number);
  // A name that points outside the directory was not written by this program.
  if (failed != std::errc() || end != digits.data() + digits.size() ||
      parsed.file.number > manifest::most_number || parsed.file.name.front() == '.' ||
      parsed.file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return std::nullopt;
  }
  return parsed;
}

bool take(manifest& into, line_of_manifest line) {
  switch (line.type) {
    case 'b':
      if (into.base) return false;
      into.base = std::move(line.file);
      return true;
    case 'i':
      if (!into.increments.empty() && into.increments.back().number >= line.file.number) {
        return false;
      }
      into.increments.push_back(std::move(line.file));
      return true;
    case 'h': into.history.push_back(std::move(line.file)); return true;
    default: return false;
  }
}

}  // namespace

std::string manifest::text() const {
  std::ostringstream out;
  if (base) write(out, *base, 'b');
  for (const journal_file& file : history) write(out, file, 'h');
  for (const journal_file& file : increments) write(out, file, 'i');
  return std::move(out).str();
}

std::uint64_t manifest::last_number() const noexcept {
  std::uint64_t last = base ? base->number : 0;
  for (const journal_file& file : increments) last = std::max(last, file.number);
  for (const journal_file& file : history) last = std::max(last, file.number);
  return last;
}

cordma::result<manifest> parse_manifest(std::string_view text) {
  manifest parsed;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    std::optional<line_of_manifest> entry = parse_line(line);
    if (!entry || number > manifest::most_files || !take(parsed, std::move(*entry))) {
      std::string shown;  // a damaged file may contain any bytes
      support::append_printable(shown, line.substr(0, 200));
      return cordma::failure::of(cordma::errc::invalid_value,
                                 {"line ", number, " is not as it should be: \"", shown, "\""});
    }
  }
  if (!parsed.base && parsed.increments.empty()) {
    return cordma::failure(cordma::errc::invalid_value, "it names no file of a journal");
  }
  return parsed;
}

cordma::result<std::optional<std::string>> read_manifest(const std::string& path) {
  constexpr std::size_t most = manifest::most_bytes;
  const cordma::unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::optional<std::string>();
  if (!fd) return cordma::failure::from_os(errno, {"opening ", path});
  std::string text(most + 1, '\0');
  const std::ptrdiff_t n = read_fully(fd.get(), text, 0);
  if (n < 0) return cordma::failure::from_os(errno, {"reading ", path});
  if (static_cast<std::size_t>(n) > most) {
    return cordma::failure::of(cordma::errc::invalid_value,
                               {path, " has more than ", most, " bytes: it is no manifest"});
  }
  text.resize(static_cast<std::size_t>(n));
  return std::optional<std::string>(std::move(text));
}

std::uint64_t last_number_in(const std::string& directory,
                             std::string_view appendfilename) noexcept {
  std::uint64_t last = 0;
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::string_view rest = name;
    if (!rest.starts_with(appendfilename) || !rest.substr(appendfilename.size()).starts_with('.')) {
      continue;
    }
    rest.remove_prefix(appendfilename.size() + 1);
    std::uint64_t number = 0;
    const auto [behind, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (wrong != std::errc()) continue;
    rest.remove_prefix(static_cast<std::size_t>(behind - rest.data()));
    if (number > manifest::most_number / 2) continue;
    if (rest == ".base.ckv" || rest == ".incr.ckv") last = std::max(last, number);
  }
  return last;
}

cordma::result<std::uint64_t> next_number(std::uint64_t named, std::uint64_t found) {
  const std::uint64_t next = std::max(named, found) + 1;
  if (next <= manifest::most_number) return next;
  return cordma::failure::of(cordma::errc::full,
                             {"the journal has no number left for a file after ", next - 1});
}

}  // namespace kv
