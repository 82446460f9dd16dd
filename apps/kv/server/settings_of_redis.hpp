// Settings that Redis has, and that mean nothing here.
#pragma once

#include <string_view>

namespace kv {

// In lower case. A file may have such lines, so that Redis's own file can be used. What would lose data or open doors if
// it were passed over (replicaof, rename-command, tls-protocols) is not among them.
[[nodiscard]] bool is_without_meaning(std::string_view name) noexcept;

}  // namespace kv
