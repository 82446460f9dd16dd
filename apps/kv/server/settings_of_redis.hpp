// Settings of Redis that have no effect here.
#pragma once

#include <string_view>

namespace kv {

// True for a name, in lower case, that a file may contain without effect, so that Redis's own file
// can be used. Settings that, if ignored, would lose data or security (replicaof, rename-command,
// tls-protocols) are not among them.
[[nodiscard]] bool is_without_meaning(std::string_view name) noexcept;

}  // namespace kv
