// The names in a directory, in byte order.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// A snapshot of all names: later creations and removals are not noticed.
class listing {
 public:
  // The kind of a name, if the file system reports it with the name.
  enum class guess : unsigned char { unknown, directory, other };
  struct name {
    const char* text = nullptr;  // valid during the life of the listing
    std::size_t size = 0;
    guess kind = guess::unknown;
  };

  // Reads from the present offset of `directory`, which is 0 after an open. `buffer` is scratch
  // memory that the caller keeps between calls; its size limits one read from the kernel, and 64
  // KiB is suitable. Returns 0 or errno; names read before an error are kept.
  [[nodiscard]] int read(int directory, std::vector<char>& buffer);

  [[nodiscard]] bool at_end() const noexcept { return at_ == names_.size(); }
  // REQUIRES: !at_end().
  [[nodiscard]] name take() noexcept;

 private:
  struct place {
    std::size_t begin = 0;  // in `text_`, followed by a 0
    unsigned short size = 0;
    guess kind = guess::unknown;
  };
  [[nodiscard]] std::string_view text(const place& p) const noexcept {
    return {text_.data() + p.begin, p.size};
  }
  std::string text_;
  std::vector<place> names_;
  std::size_t at_ = 0;
};

}  // namespace copy
