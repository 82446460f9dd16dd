// A pointer of the program, stored in an Endpoint or a Worker and retrieved by its type.
#pragma once

namespace cordma {

// A value, bound to the thread of the object that contains it. Owns nothing; the library never
// reads it.
class user_data_holder {
 public:
  // Replaces the pointer; null removes it. There is one at a time, whatever its type.
  template <class T>
  void set_user_data(T* mine) noexcept {
    data_ = mine;
    type_ = &mark<T>;
  }
  // The pointer that was set; null if none was, or one of another type.
  template <class T>
  [[nodiscard]] T* user_data() const noexcept {
    return type_ == &mark<T> ? static_cast<T*>(data_) : nullptr;
  }

 private:
  template <class T>
  static inline char mark = 0;  // its address identifies the type

  void* data_ = nullptr;
  const char* type_ = nullptr;
};

}  // namespace cordma
