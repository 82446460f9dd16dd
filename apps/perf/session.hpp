// One run from the connection to the results: the client's part and the server's part.
#pragma once

#include "outcome.hpp"
#include "watcher.hpp"

#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/task.hpp>

#include <stdexcept>
#include <string>

namespace perf {

// The run ended before there were any results.
class nothing_measured : public std::runtime_error {
 public:
  nothing_measured(const std::string& why, bool was_by_hand)
      : std::runtime_error(why + ", before anything was measured"), by_hand(was_by_hand) {}
  const bool by_hand;
};

// Connects to `address`, runs the plan and closes the session. If the watcher was asked to stop,
// returns the results so far as an interrupted run. Throws cordma::error, nothing_measured.
[[nodiscard]] cordma::task<outcome> measure(cordma::Context& context, cordma::Worker& worker,
                                            std::string address, plan what, watcher& watch);

// State shared by the clients of a server.
struct serving {
  cordma::Context& context;
  cordma::Worker& worker;
  std::string waits;     // waiting mode of this side, as text
  cordma::mutex turn{};  // two concurrent clients would disturb each other
};
// Serves one client to its end: receives its plan, and measures while no other client does. A
// client that sends nothing, or stops in the middle, is disconnected after a time limit. Throws
// cordma::error.
[[nodiscard]] cordma::task<void> serve(serving& all, cordma::ConnectionRequest request);

}  // namespace perf
