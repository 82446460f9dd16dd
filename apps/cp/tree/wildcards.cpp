#include "wildcards.hpp"

#include <algorithm>
#include <cctype>

namespace copy {
namespace {

constexpr std::size_t none = std::string_view::npos;

// The match of a byte with one element of a pattern, and the beginning of the next element; `none`:
// the element is invalid.
struct step {
  bool fits = false;
  std::size_t next = none;
};

struct named_class {
  const char* name;
  int (*holds)(int);
};
constexpr named_class named_classes[] = {
    {"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank},
    {"cntrl", std::iscntrl}, {"digit", std::isdigit}, {"graph", std::isgraph},
    {"lower", std::islower}, {"print", std::isprint}, {"punct", std::ispunct},
    {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit},
};

const named_class* find_class(std::string_view name) noexcept {
  for (const named_class& c : named_classes) {
    if (name == c.name) return &c;
  }
  return nullptr;
}

// Reads "[abc]", "[a-z]", "[!a-z]", "[^a-z]", "[]a]" or "[[:alpha:]]"; '\' escapes the next byte.
class bracket_reader {
 public:
  // `at` is the position of the '['.
  bracket_reader(std::string_view pattern, std::size_t at, char c) noexcept
      : pattern_(pattern), at_(at + 1), byte_(static_cast<unsigned char>(c)) {}

  step read() noexcept {
    const bool inverted = peek() == '!' || peek() == '^';
    if (inverted) ++at_;
    do {  // a ']' in first position is an ordinary byte
      if (!read_one()) return {};
      ++at_;
    } while (peek() != ']');
    return {.fits = among_ != inverted && byte_ != '/', .next = at_ + 1};
  }

 private:
  static constexpr int end = -1;

  [[nodiscard]] int peek(std::size_t ahead = 0) const noexcept {
    const std::size_t at = at_ + ahead;
    return at < pattern_.size() ? static_cast<unsigned char>(pattern_[at]) : end;
  }
  // Returns false if the element is invalid; else `at_` is the position of the last byte read.
  bool read_one() noexcept {
    if (peek() == '-' && before_ != 0 && peek(1) != end && peek(1) != ']') return read_range();
    if (peek() == '[' && peek(1) == ':') return read_named();
    if (peek() == '\\') ++at_;
    if (peek() == end) return false;
    before_ = peek();
    among_ |= byte_ == before_;
    return true;
  }
  bool read_range() noexcept {
    ++at_;
    if (peek() == '\\') ++at_;
    if (peek() == end) return false;
    among_ |= before_ <= byte_ && byte_ <= peek();
    before_ = 0;
    return true;
  }
  bool read_named() noexcept {
    const std::size_t name = at_ + 2;
    const std::size_t close = pattern_.find(']', name);
    if (close == none) return false;
    if (close == name || pattern_[close - 1] != ':') {  // an ordinary '['
      before_ = '[';
      among_ |= byte_ == '[';
      return true;
    }
    const named_class* const c = find_class(pattern_.substr(name, close - 1 - name));
    if (c == nullptr) return false;
    among_ |= c->holds(byte_) != 0;
    before_ = 0;
    at_ = close;
    return true;
  }

  std::string_view pattern_;
  std::size_t at_;
  int byte_;
  int before_ = 0;  // possible beginning of a range; 0: none
  bool among_ = false;
};

// REQUIRES: at < pattern.size(), and pattern[at] is not '*'.
step step_over(std::string_view pattern, std::size_t at, char c) noexcept {
  switch (pattern[at]) {
    case '?': return {.fits = c != '/', .next = at + 1};
    case '[': return bracket_reader(pattern, at, c).read();
    case '\\':
      if (at + 1 == pattern.size()) return {};
      return {.fits = pattern[at + 1] == c, .next = at + 2};
    default: return {.fits = pattern[at] == c, .next = at + 1};
  }
}

// A '*' or '**' that was matched as short as possible, and may become longer.
struct run {
  std::size_t behind = none;  // position in the pattern; none: no such run
  std::size_t end = 0;        // position in the text
};

}  // namespace

// Only the last '*' and the last '**' ever need to become longer: they also reach everything that a
// longer run before them would reach. Hence no recursion.
wildcard_match match_wildcards(std::string_view pattern, const wildcard_subject& text,
                               std::size_t at) noexcept {
  run within_a_name;
  run across;
  std::size_t in_pattern = 0;
  for (;;) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      const std::size_t behind =
          std::min(pattern.find_first_not_of('*', in_pattern), pattern.size());
      const bool one_star = behind - in_pattern == 1;
      (one_star ? within_a_name : across) = {.behind = behind, .end = at};
      if (!one_star) within_a_name = {};
      in_pattern = behind;
      continue;
    }
    if (in_pattern == pattern.size()) {
      if (at == text.size()) return wildcard_match::yes;
    } else if (at < text.size()) {
      const step s = step_over(pattern, in_pattern, text[at]);
      if (s.fits) {
        in_pattern = s.next;
        ++at;
        continue;
      }
    }
    run* longer = nullptr;
    if (within_a_name.behind != none && within_a_name.end < text.size() &&
        text[within_a_name.end] != '/') {
      longer = &within_a_name;
    } else if (across.behind != none && across.end < text.size()) {
      longer = &across;
      within_a_name = {};
    }
    if (longer == nullptr)
      return across.behind == none ? wildcard_match::no : wildcard_match::never;
    at = ++longer->end;
    in_pattern = longer->behind;
  }
}

const char* what_is_wrong(std::string_view pattern) noexcept {
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '*') {
      ++at;
      continue;
    }
    const step s = step_over(pattern, at, 'x');
    if (s.next == none) {
      return pattern[at] == '[' ? "has a '[' that no ']' ends, or a class in it that is none; "
                                  "\"\\[\" is the byte itself"
                                : "ends with a '\\', which would take the next byte as it is";
    }
    at = s.next;
  }
  return nullptr;
}

}  // namespace copy
