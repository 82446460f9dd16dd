// Commands as people type them, whichever protocol carries them.
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
  // REQUIRES at least one word. A command that is none, or fails, is an error as a value. Throws std::exception
  // where the server is lost.
  virtual resp_value run(const std::vector<std::string>& words) = 0;
  // For the shell: what there is.
  [[nodiscard]] virtual std::string help() const = 0;
};

// Throws std::exception where the server is not reached, or does not want it.
[[nodiscard]] std::unique_ptr<console> connect_native_console(const service& s);
[[nodiscard]] std::unique_ptr<console> connect_resp_console(const service& s);
[[nodiscard]] inline std::unique_ptr<console> connect_console(const service& s) {
  return s.is_resp() ? connect_resp_console(s) : connect_native_console(s);
}
// Of the native protocol.
[[nodiscard]] std::string native_help();

}  // namespace kv::cli
