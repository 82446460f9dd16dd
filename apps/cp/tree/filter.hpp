// --include and --exclude, with rsync's patterns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// An ordered list of rules. The first matching rule decides; a path without a matching rule is
// included. Patterns are those of rsync(1), "PATTERN MATCHING RULES". A pattern that begins with
// '/' is matched from the top of the transfer, any other at the end of the path, after a '/'. A
// pattern that ends with '/' matches directories only. '*' matches any run of bytes except '/',
// '**' any run, '?' any byte except '/', and '[a-z]', '[[:alpha:]]' and '[!a-z]' one byte of a
// class. In a pattern with a '*', '?' or '[', '\' escapes the next byte; in any other pattern it is
// an ordinary byte. "dir/***" matches "dir/" and everything below it. A pattern with a '/' or a
// '**' inside is matched with the complete path, any other with the last name only. Bound to one
// thread while rules are added.
class filter {
 public:
  enum class decision : unsigned char { include, exclude };
  // Throws std::invalid_argument with the fault: an open '[', a '\' at the end, more than 4095
  // bytes, an empty pattern.
  void add(decision d, std::string_view pattern);
  // `path` is relative to the top of the transfer, as entry::path; "." is never excluded. The
  // caller does not walk into an excluded directory, so paths below it are not tested. The time is
  // at most proportional to the pattern's length times the square of the path's length.
  [[nodiscard]] bool excludes(std::string_view path, bool is_directory) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

 private:
  // Where in the path the pattern may begin.
  enum class start : unsigned char { top, last_parts, any_part };
  struct rule {
    decision what = decision::exclude;
    std::string pattern;  // without the '/' at either end
    start from = start::top;
    std::size_t parts = 0;  // for last_parts: number of names that it spans
    bool whole_path = false;
    bool directories_only = false;
    bool wild = false;
    bool slash_before = false;  // "**/x" also matches "x" at the top
    bool slash_behind = false;  // "x/***" also matches the directory "x"
  };
  [[nodiscard]] static rule compile(decision d, std::string_view pattern);
  [[nodiscard]] static bool matches(const rule& r, std::string_view path,
                                    bool is_directory) noexcept;
  std::vector<rule> rules_;
};

// Builds a filter from ordered rules, each "+ PATTERN" or "- PATTERN". Throws std::runtime_error
// for a rule of another form, and the errors of filter::add().
[[nodiscard]] filter filter_of(const std::vector<std::string>& rules);

}  // namespace copy
