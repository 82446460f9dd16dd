#include "form.hpp"

task<void> root() {
  const char* names[] = {"a", "b"};
  std::string s[2] = {"x", "y"};
  co_await yield_{};
  if (s[1] != "y" || names[0][0] != 'a') ++T::bad;
  co_return;
}
