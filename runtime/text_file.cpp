#include <cordma/runtime/text_file.hpp>

#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace cordma {

std::string read_text(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  while (file) {
    const ssize_t n = ::read(file.get(), part.data(), part.size());
    if (n > 0) {
      text.append(part.data(), static_cast<std::size_t>(n));
    } else if (n == 0 || errno != EINTR) {
      return n == 0 ? text : std::string();
    }
  }
  return text;
}

}  // namespace cordma
