// The options of a Context with a single transport.
#pragma once

#include <cordma/cordma.hpp>

#include <optional>

namespace functions {

// For verbs, a separate device that exists only in this process; empty: the build has no verbs.
[[nodiscard]] std::optional<cordma::context_options> only(cordma::transport::kind over);

}  // namespace functions
