// What a connection needs only until it is up.
#pragma once

#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>

namespace cordma::transport::tcp {

struct handshake {
  std::vector<socket_address> candidates;
  std::size_t next = 0;
  failure last{errc::ok};  // why the candidate before was no good
  hello first;
  hello_reader reader;
};

}  // namespace cordma::transport::tcp
