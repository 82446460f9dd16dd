// The command line of cordma-cp.
#pragma once

#include "place.hpp"
#include "wire.hpp"

#include <cordma/cordma.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

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

struct request {
  std::vector<place> sources;
  std::vector<std::string> listed;  // below the one source; see transfer_options
  place target;
  transfer_options options;
  std::vector<std::string> rules;
  std::optional<cordma::transport::kind> transport;
  cordma::wait_mode wait = cordma::wait_mode::adaptive;
  std::uint32_t lanes = 2;
  // Longest time without progress after a lost connection; 0: a lost connection ends the transfer.
  cordma::duration reconnect = std::chrono::seconds(60);
  std::string token;
  bool tls = false;
  std::string trusted;           // a file of certificates; empty: the system's
  std::uint64_t flip_every = 0;  // see sender; for tests
  unsigned verbose = 0;
  bool itemize = false;
  bool quiet = false;
  bool progress = false;  // also where no terminal is
  bool stats = false;
  std::string json;  // a file, "-" standard output; empty: none

  [[nodiscard]] bool is_local() const noexcept { return sources.front().here() && target.here(); }
};

// Reads it; the code to end with where there is nothing more to do.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, request& into);

}  // namespace copy
