// REQUIRE: the caller broke a rule of the contract. ASSERT: cordma broke one of its own rules. Both
// are enabled in every build. Never used for conditions that a peer, a file or a user can cause:
// those return an error.
#pragma once

namespace cordma::detail {
// Registers `last_words`, which is called once when a check fails, after its message.
void call_before_abort(void (*last_words)() noexcept) noexcept;

[[noreturn]] void check_failed(const char* kind, const char* expression, const char* file, int line,
                               const char* function) noexcept;
// As above, with the two values that violate the stated relation.
[[noreturn]] void check_failed_values(const char* kind, const char* expression, const char* file,
                                      int line, long long left, long long right) noexcept;
}  // namespace cordma::detail

#define CORDMA_CHECK_(kind, expression)               \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::cordma::detail::check_failed(kind, #expression, __FILE__, __LINE__, __func__))
#define CORDMA_CHECK_OP_(kind, a, op, b)                                                    \
  (__builtin_expect(static_cast<bool>((a)op(b)), 1)                                         \
       ? static_cast<void>(0)                                                               \
       : ::cordma::detail::check_failed_values(kind, #a " " #op " " #b, __FILE__, __LINE__, \
                                               static_cast<long long>(a),                   \
                                               static_cast<long long>(b)))

#define CORDMA_REQUIRE(expression) CORDMA_CHECK_("REQUIRE", expression)
#define CORDMA_ASSERT(expression) CORDMA_CHECK_("ASSERT", expression)
#define CORDMA_REQUIRE_OP(a, op, b) CORDMA_CHECK_OP_("REQUIRE", a, op, b)
#define CORDMA_ASSERT_OP(a, op, b) CORDMA_CHECK_OP_("ASSERT", a, op, b)
