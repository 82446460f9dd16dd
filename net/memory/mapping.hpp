// Checks that a caller's memory can be used with the requested access rights.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>

namespace cordma::detail {

// not_permitted if a part of `memory` is not mapped, not readable, or not writable although
// `rights` permit writing. A device reports the same when it pins the pages; a software transport
// would otherwise cause a signal in the process that touches them first. Touches and populates
// nothing. Memory that the kernel cannot report on (/proc is not mounted) counts as usable.
[[nodiscard]] result<void> check_mapping(std::span<const std::byte> memory,
                                         transport::access rights);

}  // namespace cordma::detail
