// A state variable that checks its transitions.
#pragma once

#include <cordma/runtime/check.hpp>

#include <type_traits>

namespace cordma::transport {

// `State` is an enum; its operator>> is true if the right state may follow the left one. Not
// thread-safe.
template <class State>
class checked_state {
  static_assert(std::is_enum_v<State>);

 public:
  explicit constexpr checked_state(State first) noexcept : now_(first) {}
  constexpr operator State() const noexcept { return now_; }  // NOLINT
  // For checks, which print the value.
  explicit constexpr operator long long() const noexcept { return static_cast<long long>(now_); }
  // REQUIRES that `next` may follow the current state.
  constexpr void become(State next) noexcept {
    CORDMA_ASSERT_OP(now_, >>, next);
    now_ = next;
  }

 private:
  State now_;
};

}  // namespace cordma::transport
