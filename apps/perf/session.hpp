// One run from the connection to the last figure: the client's half and the server's.
#pragma once

#include "control.hpp"
#include "outcome.hpp"
#include "progress.hpp"

#include <string>

namespace perf {

// Connects to `address`, runs the plan, says good-bye. Throws cordma::error.
[[nodiscard]] cordma::task<outcome> measure(cordma::Context& context, cordma::Worker& worker,
                                            std::string address, plan what,
                                            progress_line& progress);

// Serves one client to its end. Throws cordma::error.
[[nodiscard]] cordma::task<void> serve(cordma::Context& context, cordma::Worker& worker,
                                       cordma::ConnectionRequest request);

}  // namespace perf
