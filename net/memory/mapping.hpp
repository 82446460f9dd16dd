// Whether memory that a caller hands in can be used as it wants to register it.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>

namespace cordma::detail {

// not_permitted where some of `memory` is not mapped, not readable, or not writable though `rights` let
// somebody write there: as a device says when it pins the pages. Software would otherwise end in a
// signal, in whichever process touches them first. Nothing is touched or populated here. What the kernel
// does not tell (/proc is not mounted) is taken for good.
[[nodiscard]] result<void> check_mapping(std::span<const std::byte> memory,
                                         transport::access rights);

}  // namespace cordma::detail
