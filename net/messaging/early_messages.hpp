// Messages and calls on an Endpoint that is not connected yet.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/messages.hpp>

namespace cordma::detail {

struct message_core;

// How a call waits here, which the room of calls knows.
struct early_call {
  void (*start)(operation_base& call) noexcept;
  void (*fail)(operation_base& call, failure why) noexcept;
  const char* (*name)(const operation_base& call) noexcept;
};

// What was started on an endpoint of Worker::endpoint() that will carry frames: it waits. Receives wait in the
// matcher.
struct early_messages final : early_frames, list_node {
  early_messages(endpoint_core& of, message_core& with);
  void send(message_send& op) noexcept;
  void hold(operation_base& call, const early_call& how) noexcept;
  // On the connection that its endpoint has now.
  void start_all() noexcept override;
  void on_end() noexcept override;
  void on_messages_gone() noexcept;

  endpoint_core* endpoint;
  message_core* core;  // null once the Messages are gone
  list<message_send> sends;
  list<operation_base> calls;
  const early_call* how_calls = nullptr;  // once one waited
};

// REQUIRES that the Endpoint has early messages.
[[nodiscard]] inline early_messages& early_of(const endpoint_core& e) noexcept {
  return static_cast<early_messages&>(*e.early);
}

}  // namespace cordma::detail
