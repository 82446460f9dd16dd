// One run from the connection to the last figure: the client's half and the server's.
#pragma once

#include "outcome.hpp"
#include "watcher.hpp"

#include <cordma/runtime/task.hpp>

#include <stdexcept>
#include <string>

namespace perf {

// It was ended before there was anything to show.
class nothing_measured : public std::runtime_error {
 public:
  nothing_measured(const std::string& why, bool was_by_hand)
      : std::runtime_error(why + ", before anything was measured"), by_hand(was_by_hand) {}
  const bool by_hand;
};

// Connects to `address`, runs the plan, says good-bye. What was measured until somebody asked the
// watcher to stop is the outcome of an interrupted run. Throws cordma::error, nothing_measured.
[[nodiscard]] cordma::task<outcome> measure(cordma::Context& context, cordma::Worker& worker,
                                            std::string address, plan what, watcher& watch);

// Serves one client to its end, and tells it how this side waits. Throws cordma::error.
[[nodiscard]] cordma::task<void> serve(cordma::Context& context, cordma::Worker& worker,
                                       cordma::ConnectionRequest request, std::string waits);

}  // namespace perf
