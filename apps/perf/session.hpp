// One run from the connection to the last figure: the client's half and the server's.
#pragma once

#include "outcome.hpp"
#include "watcher.hpp"

#include <cordma/runtime/mutex.hpp>
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

// What the clients of a server have in common.
struct serving {
  cordma::Context& context;
  cordma::Worker& worker;
  std::string waits;     // how this side waits, in words
  cordma::mutex turn{};  // two clients at once would measure each other
};
// Serves one client to its end: hears what it wants, and measures when no other client does. One that says nothing, or
// stops in the middle, is dropped after a while. Throws cordma::error.
[[nodiscard]] cordma::task<void> serve(serving& all, cordma::ConnectionRequest request);

}  // namespace perf
