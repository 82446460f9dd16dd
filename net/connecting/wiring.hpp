// Worker::endpoint(): an Endpoint that exists before its connection.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>

#include <string>

namespace cordma {
struct connect_options;
}  // namespace cordma

namespace cordma::detail {

// Starts to connect; `e` takes over the resulting connection, or ends with the cause of the
// failure. Throws std::bad_alloc.
void start_wiring(endpoint_core& e, worker_core& owner, const std::string& to,
                  const connect_options& options);

}  // namespace cordma::detail
