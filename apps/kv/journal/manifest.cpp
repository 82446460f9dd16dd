#include "manifest.hpp"

#include "../../support/hex_escapes.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

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
  // A name that leads elsewhere is none that was written here.
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
      std::string shown;  // whoever damaged it may have left anything there
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

}  // namespace kv
