// Builds with every compiler that can build cordma: Clang 17, GCC 12 or newer, with its C++ library.
#if defined(__clang__)
#if __clang_major__ < 17
#error "Clang 17 or newer is needed"
#endif
#elif __GNUC__ < 12
#error "GCC 12 or newer is needed"
#endif

#include <coroutine>
#include <stdexcept>

int main(int words, char** word) {
  try {
    if (words > 9) throw std::runtime_error(word[9]);
  } catch (const std::exception&) {
    return 1;
  }
  return std::coroutine_handle<>() ? 1 : 0;
}
