// The text of --version.
#pragma once

#include "wire.hpp"

#include <string>

namespace copy {

[[nodiscard]] inline std::string version_text(const char* program) {
  return std::string(program) + " " CORDMA_VERSION ", protocol " + std::to_string(protocol_version);
}

}  // namespace copy
