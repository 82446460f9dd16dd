// The options of a Context that has one transport alone.
#pragma once

#include <cordma/cordma.hpp>

#include <optional>

namespace functions {

// Over verbs a device of its own, which exists in this process alone; empty: the build has no verbs.
[[nodiscard]] std::optional<cordma::context_options> only(cordma::transport::kind over);

}  // namespace functions
