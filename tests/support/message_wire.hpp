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

// Messages of both sides.
struct two_messages {
  two_messages(stage& on, const message_options& of_client, const message_options& of_server)
      : client(on.client(), of_client), server(on.server(), of_server) {}
  two_messages(stage& on, const message_options& of_both) : two_messages(on, of_both, of_both) {}
  Messages client;
  Messages server;
};

inline task<wire> connect_messages(stage& on, Messages& client, Messages& server,
                                   connect_options to = {}, connect_options from = {}) {
  to.messages = &client;
  from.messages = &server;
  return connect(on, to, from);
}

}  // namespace cordma::test
