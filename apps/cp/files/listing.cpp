#include "listing.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace copy {
namespace {

// Offsets in a record of the kernel, which ends with a terminated name.
constexpr std::size_t record_bytes = offsetof(dirent64, d_reclen);
constexpr std::size_t kind_at = offsetof(dirent64, d_type);
constexpr std::size_t name_at = offsetof(dirent64, d_name);

listing::guess guess_of(unsigned char type) noexcept {
  if (type == DT_UNKNOWN) return listing::guess::unknown;
  return type == DT_DIR ? listing::guess::directory : listing::guess::other;
}

bool is_itself_or_its_parent(std::string_view name) noexcept { return name == "." || name == ".."; }

}  // namespace

int listing::read(int directory, std::vector<char>& buffer) {
  int error = 0;
  for (;;) {
    // No DIR: it would own the descriptor, and keep a buffer for the same time.
    const long filled = ::syscall(SYS_getdents64, directory, buffer.data(), buffer.size());
    if (filled < 0) error = errno;
    if (filled <= 0) break;
    for (const char* at = buffer.data(); at < buffer.data() + filled;) {
      std::uint16_t length = 0;
      std::memcpy(&length, at + record_bytes, sizeof length);
      const std::string_view bytes = at + name_at;
      if (!is_itself_or_its_parent(bytes)) {
        names_.push_back({.begin = text_.size(),
                          .size = static_cast<unsigned short>(bytes.size()),
                          .kind = guess_of(static_cast<unsigned char>(at[kind_at]))});
        text_.append(bytes.data(), bytes.size() + 1);
      }
      at += length;
    }
  }
  std::sort(names_.begin(), names_.end(),
            [this](const place& a, const place& b) { return text(a) < text(b); });
  // A directory that changes during the read may contain a name twice.
  const auto twice =
      std::unique(names_.begin(), names_.end(),
                  [this](const place& a, const place& b) { return text(a) == text(b); });
  names_.erase(twice, names_.end());
  return error;
}

listing::name listing::take() noexcept {
  const place& p = names_[at_++];
  return {.text = text_.data() + p.begin, .size = p.size, .kind = p.kind};
}

}  // namespace copy
