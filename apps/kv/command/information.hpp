// What INFO says.
#pragma once

#include "service.hpp"

#include <string>
#include <string_view>

namespace kv {

// Of that section, or of those that it stands for ("default", "all"); empty: the usual ones. On that worker's thread.
// REQUIRES that the caller holds all shards.
[[nodiscard]] std::string information(service& of, unsigned worker, std::string_view section);

// Of memory that this process has, as the kernel counts it (RSS). 0: it does not say.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace kv
