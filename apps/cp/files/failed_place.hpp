// The reasons why nothing is transferred although the connection works.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace copy {

enum class failing : std::uint8_t {
  may_not = 1,    // the server refused
  selection = 2,  // a named path cannot be opened
  file = 3,       // the target cannot be created
};

// Thrown on either side. A server sends it to its client with the same message, which uses the
// client's names.
class failed_place : public std::runtime_error {
 public:
  failed_place(failing what, const std::string& why) : std::runtime_error(why), what_(what) {}
  [[nodiscard]] failing kind() const noexcept { return what_; }

 private:
  failing what_;
};

}  // namespace copy
