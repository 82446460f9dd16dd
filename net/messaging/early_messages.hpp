// Messages and calls on an Endpoint that is not connected yet.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/messages.hpp>

namespace cordma::detail {

class message_core;

// How a waiting call is started, failed and named; provided by the layer of calls.
struct early_call {
  void (*start)(operation_base& call) noexcept;
  void (*fail)(operation_base& call, failure why) noexcept;
  const char* (*name)(const operation_base& call) noexcept;
};

// Operations that were started on an endpoint of Worker::endpoint() that will carry frames; they
// wait here. Receives wait in the matcher.
class early_messages final : public early_frames, public list_node {
 public:
  early_messages(endpoint_core& of, message_core& with);
  void send(message_send& op) noexcept;
  void hold(operation_base& call, const early_call& how) noexcept;
  // Starts all on the connection that its endpoint has now.
  void start_all() noexcept override;
  void on_end() noexcept override;
  void on_messages_gone() noexcept;

  // Null once the Messages are destroyed.
  [[nodiscard]] message_core* core() const noexcept { return core_; }
  [[nodiscard]] list<operation_base>& calls() noexcept { return calls_; }

 private:
  endpoint_core* endpoint_;
  message_core* core_;
  list<message_send> sends_;
  list<operation_base> calls_;
  const early_call* how_calls_ = nullptr;  // set once a call has waited
};

// REQUIRES that the Endpoint has early messages.
[[nodiscard]] inline early_messages& early_of(const endpoint_core& e) noexcept {
  return static_cast<early_messages&>(*e.early());
}

}  // namespace cordma::detail
