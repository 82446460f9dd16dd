// The text of INFO.
#pragma once

#include "service.hpp"

#include <string>
#include <string_view>

namespace kv {

// Returns that section, or those that it stands for ("default", "all"); empty: the default ones. On
// that worker's thread. REQUIRES that the caller holds all shards.
[[nodiscard]] std::string information(service& of, unsigned worker, std::string_view section);

// Resident memory of this process (RSS), in bytes; 0: unknown.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace kv
