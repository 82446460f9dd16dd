// Commands in their typed form, independent of the protocol.
#pragma once

#include "../resp/value.hpp"
#include "service.hpp"

#include <memory>
#include <string>
#include <vector>

namespace kv::cli {

// Bound to one thread.
class console {
 public:
  virtual ~console() = default;
  // REQUIRES at least one word. An unknown or failed command returns an error value. Throws
  // std::exception if the connection to the server is lost.
  virtual resp_value run(const std::vector<std::string>& words) = 0;
  // For the shell: the list of commands.
  [[nodiscard]] virtual std::string help() const = 0;
};

// Throws std::exception if the server cannot be reached or refuses the connection.
[[nodiscard]] std::unique_ptr<console> connect_native_console(const service& s);
[[nodiscard]] std::unique_ptr<console> connect_resp_console(const service& s);
[[nodiscard]] inline std::unique_ptr<console> connect_console(const service& s) {
  return s.is_resp() ? connect_resp_console(s) : connect_native_console(s);
}
// Of the native protocol.
[[nodiscard]] std::string native_help();

}  // namespace kv::cli
