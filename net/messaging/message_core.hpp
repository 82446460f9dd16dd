// What stands behind Messages: the matcher, the handlers, and a frame_port per transport.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/messaging/early_messages.hpp>
#include <cordma/net/messaging/fetch.hpp>
#include <cordma/net/messaging/frame_port.hpp>
#include <cordma/net/messaging/peer_core.hpp>
#include <cordma/net/protocol/tag_matcher.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace cordma::detail {

struct request_core;

// rpc/request_peer.cpp: active messages that are the library's own, and the end of who spoke them.
void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept;
void on_requests_end(request_peer& peer) noexcept;
// Whether nothing of it waits, or is on its way, or is to be answered to this side.
[[nodiscard]] bool is_idle(request_peer& peer) noexcept;

struct message_core {
  message_core(Worker& worker, const message_options& options);
  ~message_core();
  // What a connection over that transport is asked for, to carry frames. not_supported, full, no_memory,
  // invalid_value, no_lock.
  [[nodiscard]] result<endpoint_options> options_on(adapter_poller& via, endpoint_options asked);
  void receive(message_receive& op) noexcept;
  [[nodiscard]] std::optional<TagReceived> probe(const protocol::tag_pattern& pattern) noexcept;
  [[nodiscard]] std::optional<TaggedMessage> claim(const protocol::tag_pattern& pattern) noexcept;
  // The message in `s` is for `op`.
  void hand_over(message_segment& s, message_receive& op) noexcept;
  // Null: no memory.
  [[nodiscard]] fetch* take_fetch() noexcept;
  void release(fetch& f) noexcept;
  // Of an active message: begins its handler.
  void run(message_segment& s) noexcept;
  void end(protocol::tag_receive& r, const failure& why) noexcept;
  void end_receives(const failure& why) noexcept;
  // Of those that wait for that one alone.
  void end_receives_from(const endpoint_core& sender, const failure& why) noexcept;
  void on_worker_gone() noexcept;

  message_options options;
  reactor* home;
  std::shared_ptr<worker_anchor> anchor;
  protocol::tag_matcher matcher;
  std::unordered_map<std::uint16_t, std::shared_ptr<const am_handler>> handlers;
  std::uint64_t handler_failures = 0;
  std::uint64_t dropped = 0;
  std::vector<std::unique_ptr<fetch>> all_fetches;
  // They end the fetches that their requests are for.
  std::vector<std::unique_ptr<frame_port>> ports;
  fetch* free_fetches = nullptr;
  request_core* requests = nullptr;  // null: none are served
  list<early_messages> unwired;
  scope tasks;

 private:
  // The receive queue for a connection over that transport.
  [[nodiscard]] result<transport::receive_queue*> queue_on(adapter_poller& via);
};

// Whose frames the Endpoint carries, or will; null: plain messages, or the Messages are gone.
[[nodiscard]] message_core* messages_of(const endpoint_core& e) noexcept;

}  // namespace cordma::detail
