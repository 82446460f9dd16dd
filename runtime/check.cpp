#include <cordma/runtime/check.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cordma::detail {
namespace {

constinit std::atomic<void (*)() noexcept> before_abort{nullptr};

[[noreturn]] void end_program() noexcept {
  if (const auto last_words = before_abort.exchange(nullptr)) last_words();
  std::abort();
}

}  // namespace

void call_before_abort(void (*last_words)() noexcept) noexcept { before_abort.store(last_words); }

void check_failed(const char* kind, const char* expression, const char* file, int line,
                  const char* function) noexcept {
  std::fprintf(stderr, "%s:%d: %s failed in %s: %s\n", file, line, kind, function, expression);
  end_program();
}

void check_failed_values(const char* kind, const char* expression, const char* file, int line,
                         long long left, long long right) noexcept {
  std::fprintf(stderr, "%s:%d: %s failed: %s, with %lld and %lld\n", file, line, kind, expression,
               left, right);
  end_program();
}

}  // namespace cordma::detail
