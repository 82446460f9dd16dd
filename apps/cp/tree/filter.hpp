// --include and --exclude, with rsync's patterns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// The first rule that matches decides; what none matches is in. A pattern (rsync(1), "PATTERN MATCHING RULES"): one
// that begins with '/' is matched from the top of the transfer, any other at the end of the path, from a '/' on; one
// that ends with '/' matches directories only. '*' is any run of bytes but '/', '**' any run, '?' any byte but '/',
// '[a-z]', '[[:alpha:]]' and '[!a-z]' one of them; '\' takes the next byte as it is, in a pattern that has a '*', '?'
// or '[', and is itself in any other. "dir/***" is "dir/" and all below it. With a '/' or a '**' inside, the pattern
// is matched with the whole path, else with the last name alone. Bound to one thread while rules are added.
class filter {
 public:
  enum class decision : unsigned char { include, exclude };
  // Throws std::invalid_argument, saying what is wrong with it: an open '[', a '\' with nothing behind it, more than
  // 4095 bytes, nothing at all.
  void add(decision d, std::string_view pattern);
  // `path` is relative to the top of the transfer, as entry::path; "." is never excluded. What is below an excluded
  // directory is not asked for: whoever walks the tree does not go there. Takes at most a time that grows with
  // pattern times path squared, whatever the pattern.
  [[nodiscard]] bool excludes(std::string_view path, bool is_directory) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

 private:
  // Where in the path the pattern may begin.
  enum class start : unsigned char { top, last_parts, any_part };
  struct rule {
    decision what = decision::exclude;
    std::string pattern;  // without the '/' at either end
    start from = start::top;
    std::size_t parts = 0;  // for last_parts: how many names it spans
    bool whole_path = false;
    bool directories_only = false;
    bool wild = false;
    bool slash_before = false;  // "**/x" is "x" at the top, too
    bool slash_behind = false;  // "x/***" is the directory "x", too
  };
  [[nodiscard]] static rule compile(decision d, std::string_view pattern);
  [[nodiscard]] static bool matches(const rule& r, std::string_view path,
                                    bool is_directory) noexcept;
  std::vector<rule> rules_;
};

// Of rules, in order, each "+ PATTERN" or "- PATTERN". Throws std::runtime_error where one is neither, and what
// filter::add() does.
[[nodiscard]] filter filter_of(const std::vector<std::string>& rules);

}  // namespace copy
