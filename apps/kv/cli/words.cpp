#include "words.hpp"

#include <charconv>

namespace kv::cli {
namespace {

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

// What stands behind a backslash in double quotes; takes it off `line`.
char escaped(std::string_view& line) {
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
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

// From behind the opening quote to behind the closing one; false where there is none.
bool take_quoted(std::string_view& line, char quote, std::string& word) {
  while (!line.empty()) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == quote) return line.empty() || is_space(line.front());
    if (c == '\\' && !line.empty() && quote == '"') {
      word += escaped(line);
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

std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    if (line.empty()) return words;
    std::string word;
    while (!line.empty() && !is_space(line.front())) {
      const char c = line.front();
      line.remove_prefix(1);
      if (c != '"' && c != '\'') {
        word += c;
      } else if (!take_quoted(line, c, word)) {
        return std::nullopt;
      }
    }
    words.push_back(std::move(word));
  }
}

}  // namespace kv::cli
