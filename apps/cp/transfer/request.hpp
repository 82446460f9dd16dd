// The request of a user: sources, target and options of a transfer.
#pragma once

#include "../protocol/wire.hpp"
#include "place.hpp"

#include <cordma/cordma.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace copy {

struct request {
  std::vector<place> sources;
  std::vector<std::string> listed;  // below the one source; see transfer_options
  place target;
  transfer_options options;
  std::vector<std::string> rules;
  std::optional<cordma::transport::kind> transport;
  cordma::wait_mode wait = cordma::wait_mode::adaptive;
  std::uint32_t lanes = 2;
  // Longest time without progress after a lost connection; with 0 a lost connection ends the
  // transfer.
  cordma::duration reconnect = std::chrono::seconds(60);
  std::string token;
  bool tls = false;
  std::string trusted;           // file of certificates; empty: the system's
  std::uint64_t flip_every = 0;  // see sender; for tests
  unsigned verbose = 0;
  bool itemize = false;
  bool quiet = false;
  bool progress = false;  // also without a terminal
  bool stats = false;
  std::string json;  // file, or "-" for standard output; empty: none

  [[nodiscard]] bool is_local() const noexcept { return sources.front().here() && target.here(); }
};

}  // namespace copy
