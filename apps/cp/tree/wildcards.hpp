// '*', '**', '?', '[...]' and '\' against a path: no filter rules, which know what to match with what.
#pragma once

#include <cstddef>
#include <string_view>

namespace copy {

// A path, maybe with a '/' in front of it or behind it that it has not itself.
class wildcard_subject {
 public:
  wildcard_subject(std::string_view path, bool slash_before, bool slash_behind) noexcept
      : path_(path), before_(slash_before ? 1 : 0), size_(path.size() + before_ + slash_behind) {}
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // REQUIRES at < size().
  [[nodiscard]] char operator[](std::size_t at) const noexcept {
    const std::size_t in_path = at - before_;  // wraps where it is the '/' in front
    return in_path < path_.size() ? path_[in_path] : '/';
  }

 private:
  std::string_view path_;
  std::size_t before_;
  std::size_t size_;
};

// `never`: it does not, nor would it from any later place in the text.
enum class wildcard_match : unsigned char { no, yes, never };

// Whether all of the pattern matches all of `text` from `at` on.
[[nodiscard]] wildcard_match match_wildcards(std::string_view pattern, const wildcard_subject& text,
                                             std::size_t at) noexcept;

// Why no text at all could match the pattern, as the end of a sentence; nullptr: some could.
[[nodiscard]] const char* what_is_wrong(std::string_view pattern) noexcept;

}  // namespace copy
