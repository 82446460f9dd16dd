// defaulted: a field of an options struct that records if the program has assigned it.
#pragma once

#include <utility>

namespace cordma {

struct by_default_t {};
inline constexpr by_default_t by_default;

// A T that has its default value until the program assigns it. An assigned value counts as assigned
// even if it equals the default. Converts to a T.
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
