// The command line of cordma-cp.
#pragma once

#include "../transfer/request.hpp"

#include <optional>

namespace copy {

// Exit codes of rsync, if it has one for the case (rsync(1), "EXIT VALUES").
enum class exit_code : int {
  fine = 0,
  usage = 1,
  protocol = 2,
  selection = 3,  // the target cannot be opened
  refused = 5,    // the server refused
  socket = 10,    // no connection, or it broke
  file = 11,      // the target, or a file of this program, cannot be created
  stream = 12,    // the received data was invalid
  signal = 20,    // SIGINT, SIGTERM, SIGHUP
  partial = 23,   // some files were not transferred
  vanished = 24,  // some files vanished before they were read
  limit = 25,     // --max-delete
  timeout = 30,
};

// Parses the command line. Returns an exit code if the program has nothing more to do.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, request& into);

}  // namespace copy
