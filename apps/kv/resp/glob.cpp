#include "glob.hpp"

#include <cstddef>
#include <utility>

namespace kv {
namespace {

unsigned char folded(char c, letter_case how) noexcept {
  const auto u = static_cast<unsigned char>(c);
  return how == letter_case::ignored && u >= 'A' && u <= 'Z' ? static_cast<unsigned char>(u | 0x20)
                                                             : u;
}

// True if `c` is in the class that begins behind the '[' at `at`. Moves `at` behind the ']'.
bool in_class(std::string_view pattern, std::size_t& at, char c, letter_case how) noexcept {
  const unsigned char wanted = folded(c, how);
  const bool negated = at < pattern.size() && pattern[at] == '^';
  if (negated) ++at;
  bool found = false;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      found |= folded(pattern[at + 1], how) == wanted;
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      unsigned char low = folded(pattern[at], how);
      unsigned char high = folded(pattern[at + 2], how);
      if (low > high) std::swap(low, high);
      found |= wanted >= low && wanted <= high;
      at += 3;
    } else {
      found |= folded(pattern[at], how) == wanted;
      ++at;
    }
  }
  if (at < pattern.size()) ++at;  // an unclosed class ends with the pattern
  return found != negated;
}

// Matches one character against the pattern element at `at`, which is no star. Moves `at` behind
// it.
bool matches_one(std::string_view pattern, std::size_t& at, char c, letter_case how) noexcept {
  const char p = pattern[at++];
  if (p == '?') return true;
  if (p == '[') return in_class(pattern, at, c, how);
  if (p == '\\' && at < pattern.size()) return folded(pattern[at++], how) == folded(c, how);
  return folded(p, how) == folded(c, how);
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text, letter_case how) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // position behind the last star
  std::size_t held = 0;                       // end of the text that this star has matched
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      held = t;
      continue;
    }
    if (p < pattern.size() && matches_one(pattern, p, text[t], how)) {
      ++t;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star;
    t = ++held;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace kv
