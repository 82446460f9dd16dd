// --include and --exclude, with rsync's patterns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace copy {

// The first rule that matches decides; what none matches is in. A pattern (rsync(1), "INCLUDE/EXCLUDE PATTERN
// RULES"): one that begins with '/' is matched from the top of the transfer, any other at the end of the path,
// from a '/' on; one that ends with '/' matches directories only. '*' is any run of bytes but '/', '**' any run,
// '?' any byte but '/', '[a-z]' and '[!a-z]' one of them, '\' takes the next byte as it is. "dir/***" is "dir/"
// and all below it. With a '/' or a '**' inside, the pattern is matched with the whole path, else with the last
// name alone.
class filter {
 public:
  enum class decision : unsigned char { include, exclude };
  // Throws std::invalid_argument, saying what is wrong with it (an open '[', nothing at all).
  void add(decision d, std::string_view pattern);
  // `path` is relative to the top of the transfer, as entry::path. What is below an excluded directory is not
  // asked for: whoever walks the tree does not go there.
  [[nodiscard]] bool excludes(std::string_view path, bool is_directory) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

 private:
  struct rule {
    decision what = decision::exclude;
    std::string pattern;  // without the '/' at either end
    bool anchored = false;
    bool directories_only = false;
    bool whole_path = false;
    bool all_below = false;  // it ended with "/***"
  };
  [[nodiscard]] static bool matches(const rule& r, std::string_view path, bool is_directory) noexcept;
  std::vector<rule> rules_;
};

}  // namespace copy
