// What a connection needs only until it is up.
#pragma once

#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>

namespace cordma::transport::tcp {

struct handshake {
  static constexpr duration first_pause = std::chrono::milliseconds(10);
  explicit handshake(connection& c) noexcept
      : again(c, [](timer& t) noexcept {
          static_cast<connection::timed&>(t).owner->try_next_candidate();
        }) {}
  std::vector<socket_address> candidates;
  std::size_t next = 0;
  failure last{errc::ok};  // why the candidate before was no good
  hello first;
  hello_reader reader;
  time_point said_hello{};
  connection::timed again;       // pending: the host is called once more, by a socket of its own
  duration pause = first_pause;  // before that
};

}  // namespace cordma::transport::tcp
