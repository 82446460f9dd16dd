#include <cordma/runtime/check.hpp>

#include <cstdio>
#include <cstdlib>

namespace cordma::detail {

void check_failed(const char* kind, const char* expression, const char* file, int line,
                  const char* function) noexcept {
  std::fprintf(stderr, "%s:%d: %s failed in %s: %s\n", file, line, kind, function, expression);
  std::abort();
}

void check_failed_values(const char* kind, const char* expression, const char* file, int line,
                         long long left, long long right) noexcept {
  std::fprintf(stderr, "%s:%d: %s failed: %s, with %lld and %lld\n", file, line, kind, expression,
               left, right);
  std::abort();
}

}  // namespace cordma::detail
