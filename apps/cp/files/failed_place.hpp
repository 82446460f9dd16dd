// Why nothing at all is transferred, where the connection is not to blame.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace copy {

enum class failing : std::uint8_t {
  may_not = 1,    // the server would not
  selection = 2,  // what was named cannot be opened
  file = 3,       // what is to be made cannot be
};

// On either side; a server tells its client, with the same sentence, which names things as the client does.
class failed_place : public std::runtime_error {
 public:
  failed_place(failing what, const std::string& why) : std::runtime_error(why), what_(what) {}
  [[nodiscard]] failing kind() const noexcept { return what_; }

 private:
  failing what_;
};

}  // namespace copy
