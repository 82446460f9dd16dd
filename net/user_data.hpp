// Something of the program's own, kept at an Endpoint or a Worker and found again by its type.
#pragma once

namespace cordma {

// A value, bound to the thread of what it is part of. Owns nothing; the library never looks at it.
class user_data_holder {
 public:
  // Null takes it away. There is one at a time, whatever its type.
  template <class T>
  void set_user_data(T* mine) noexcept {
    data_ = mine;
    type_ = &mark<T>;
  }
  // What was set; null where nothing was, or something of another type.
  template <class T>
  [[nodiscard]] T* user_data() const noexcept {
    return type_ == &mark<T> ? static_cast<T*>(data_) : nullptr;
  }

 private:
  template <class T>
  static inline char mark = 0;  // its address names the type

  void* data_ = nullptr;
  const char* type_ = nullptr;
};

}  // namespace cordma
