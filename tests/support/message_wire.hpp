// A connection between the two sides of a stage that carries messages.
#pragma once

#include <support/stage.hpp>

#include <cordma/net/messages.hpp>

namespace cordma::test {

inline connect_options with(Messages& messages) {
  connect_options o;
  o.messages = &messages;
  return o;
}

inline task<wire> connect_messages(stage& on, Messages& client, Messages& server,
                                   connect_options to = {}, connect_options from = {}) {
  to.messages = &client;
  from.messages = &server;
  return connect(on, to, from);
}

}  // namespace cordma::test
