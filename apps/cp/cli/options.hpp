// The command line of cordma-cp.
#pragma once

#include "../transfer/request.hpp"

#include <optional>

namespace copy {

// rsync's, where it has one for the case (rsync(1), "EXIT VALUES").
enum class exit_code : int {
  fine = 0,
  usage = 1,
  protocol = 2,
  selection = 3,  // the target cannot be opened at all
  refused = 5,    // the server would not begin
  socket = 10,    // no connection, or it broke
  file = 11,      // the target cannot be made, or what the program needs itself
  stream = 12,    // what came was not what it should be
  signal = 20,    // SIGINT, SIGTERM, SIGHUP
  partial = 23,   // some files are not there
  vanished = 24,  // some were gone before they could be read
  limit = 25,     // --max-delete
  timeout = 30,
};

// Reads it; the code to end with where there is nothing more to do.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, request& into);

}  // namespace copy
