#include "words.hpp"

#include "../../support/printable.hpp"

#include <charconv>

namespace kv {
namespace {

constexpr std::string_view escaped = "\n\r\t\a\b\\\"";
constexpr std::string_view letters = "nrtab\\\"";

// Decodes the escape after a backslash in double quotes and removes it from `line`.
char unescaped(std::string_view& line) {
  const char c = line.front();
  if (c == 'x' && line.size() >= 3) {
    unsigned char byte = 0;
    const auto parsed = std::from_chars(line.data() + 1, line.data() + 3, byte, 16);
    if (parsed.ec == std::errc() && parsed.ptr == line.data() + 3) {
      line.remove_prefix(3);
      return static_cast<char>(byte);
    }
  }
  line.remove_prefix(1);
  const std::size_t at = letters.find(c);
  return at != std::string_view::npos ? escaped[at] : c;
}

// Consumes from behind the opening quote to behind the closing one; false if there is none.
bool take_quoted(std::string_view& line, char quote, std::string& word) {
  while (!line.empty()) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == quote) return line.empty() || is_blank(line.front());
    if (c == '\\' && !line.empty() && quote == '"') {
      word += unescaped(line);
    } else if (c == '\\' && line.starts_with('\'')) {
      word += '\'';
      line.remove_prefix(1);
    } else {
      word += c;
    }
  }
  return false;
}

}  // namespace

word_found take_word(std::string_view line, std::size_t& at, std::string& into) {
  std::string_view rest = line.substr(at);
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  if (rest.empty()) return word_found::none;
  while (!rest.empty() && !is_blank(rest.front())) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c != '"' && c != '\'') {
      into += c;
    } else if (!take_quoted(rest, c, into)) {
      return word_found::broken;
    }
  }
  at = line.size() - rest.size();
  return word_found::whole;
}

std::optional<std::vector<std::string>> split_words(std::string_view line) {
  line = line.substr(0, line.find('\0'));
  std::vector<std::string> words;
  for (std::size_t at = 0;;) {
    std::string word;
    const word_found found = take_word(line, at, word);
    if (found == word_found::none) return words;
    if (found == word_found::broken) return std::nullopt;
    words.push_back(std::move(word));
  }
}

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t at = escaped.find(c); at != std::string_view::npos) {
      (to += '\\') += letters[at];
    } else if (byte >= ' ' && byte < 127) {
      to += c;
    } else {
      support::append_escape(to, byte);
    }
  }
  to += '"';
}

}  // namespace kv
