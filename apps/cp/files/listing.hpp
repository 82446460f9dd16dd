// The names in a directory, in the order of their bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// All names are read at once: what is made or removed later is not noticed.
class listing {
 public:
  // What the file system says of a name beside it, which may be nothing.
  enum class guess : unsigned char { unknown, directory, other };
  struct name {
    const char* text = nullptr;  // valid while the listing lives
    std::size_t size = 0;
    guess kind = guess::unknown;
  };

  // From where `directory` stands, which is at its beginning where it was just opened. `buffer`, which its caller
  // keeps for the next one, holds what the kernel hands out at once: 64 KiB are a good size. Returns 0 or errno; what
  // was read before an error is there.
  [[nodiscard]] int read(int directory, std::vector<char>& buffer);

  [[nodiscard]] bool at_end() const noexcept { return at_ == names_.size(); }
  // REQUIRES !at_end().
  [[nodiscard]] name take() noexcept;

 private:
  struct place {
    std::size_t begin = 0;  // in `text_`, with a 0 behind it
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
