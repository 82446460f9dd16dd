// Matches '*', '**', '?', '[...]' and '\' with a path. Without filter rules, which choose the part
// of the path to match.
#pragma once

#include <cstddef>
#include <string_view>

namespace copy {

// A path, optionally with an additional '/' before or behind it.
class wildcard_subject {
 public:
  wildcard_subject(std::string_view path, bool slash_before, bool slash_behind) noexcept
      : path_(path), before_(slash_before ? 1 : 0), size_(path.size() + before_ + slash_behind) {}
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // REQUIRES: at < size().
  [[nodiscard]] char operator[](std::size_t at) const noexcept {
    const std::size_t in_path = at - before_;  // wraps for the '/' in front
    return in_path < path_.size() ? path_[in_path] : '/';
  }

 private:
  std::string_view path_;
  std::size_t before_;
  std::size_t size_;
};

// `never`: it does not match, and would not match at any later position of the text.
enum class wildcard_match : unsigned char { no, yes, never };

// Matches the complete pattern with all of `text` from `at` on.
[[nodiscard]] wildcard_match match_wildcards(std::string_view pattern, const wildcard_subject& text,
                                             std::size_t at) noexcept;

// Returns the reason why no text could match the pattern, as the end of a sentence; null if one
// could.
[[nodiscard]] const char* what_is_wrong(std::string_view pattern) noexcept;

}  // namespace copy
