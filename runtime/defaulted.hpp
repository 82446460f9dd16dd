// defaulted: a field of an options struct that knows whether a program has assigned it.
#pragma once

#include <utility>

namespace cordma {

struct by_default_t {};
inline constexpr by_default_t by_default;

// A T that stands for its default until somebody assigns it; from then on it is theirs, also where it equals the
// default. Reads like a T.
template <class T>
class defaulted {
 public:
  constexpr defaulted(by_default_t, T value) : value_(std::move(value)) {}
  constexpr defaulted(T value) : value_(std::move(value)), assigned_(true) {}
  constexpr defaulted& operator=(T value) {
    value_ = std::move(value);
    assigned_ = true;
    return *this;
  }

  [[nodiscard]] constexpr const T& get() const noexcept { return value_; }
  constexpr operator const T&() const noexcept { return value_; }
  [[nodiscard]] constexpr bool assigned() const noexcept { return assigned_; }

 private:
  T value_;
  bool assigned_ = false;
};

}  // namespace cordma
