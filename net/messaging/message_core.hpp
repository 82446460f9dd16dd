// Implementation of Messages: the matcher, the handlers, and a frame_port per transport.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/messaging/early_messages.hpp>
#include <cordma/net/messaging/fetch.hpp>
#include <cordma/net/messaging/frame_port.hpp>
#include <cordma/net/messaging/handlers.hpp>
#include <cordma/net/messaging/peer_core.hpp>
#include <cordma/net/protocol/tag_matcher.hpp>
#include <cordma/net/transport/small_copy.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cordma::detail {

class request_core;

// Defined in rpc/request_peer.cpp: processes active messages of the library, and ends their peer.
void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept;
void on_requests_end(request_peer& peer) noexcept;
// Whether no request waits, is in flight, or awaits a response to this side.
[[nodiscard]] bool is_idle(request_peer& peer) noexcept;

// Bound to the thread of its Worker.
class message_core {
 public:
  message_core(Worker& worker, const message_options& options);
  ~message_core();

  [[nodiscard]] const message_options& options() const noexcept { return options_; }
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // Null once it is destroyed.
  [[nodiscard]] worker_core* worker() const noexcept { return anchor_->worker; }
  [[nodiscard]] protocol::tag_matcher<message_receive>& matcher() noexcept { return matcher_; }
  [[nodiscard]] handler_table& handlers() noexcept { return handlers_; }
  // Active messages without a handler.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] const std::vector<std::unique_ptr<frame_port>>& ports() const noexcept {
    return ports_;
  }
  // Messages of Endpoints that are not connected yet.
  [[nodiscard]] list<early_messages>& unwired() noexcept { return unwired_; }
  // Null if no requests are served.
  [[nodiscard]] request_core* requests() const noexcept { return requests_; }
  void serve(request_core* requests) noexcept { requests_ = requests; }

  // Returns the options for a connection over that transport that carries frames. Errors:
  // not_supported, full, no_memory, invalid_value, no_lock.
  [[nodiscard]] result<endpoint_options> options_on(adapter_poller& via, endpoint_options asked);
  // Whether it is writable host memory of the same Context.
  [[nodiscard]] bool may_take(const Slice& into) const noexcept {
    const region_core* const region = into.region();
    const context_core* const here = anchor_->context;
    return here != nullptr &&
           (into.size() == 0 || (region->touched_in == here &&
                                 has(region->range.rights, transport::access::local_write)));
  }
  void receive(message_receive& op) noexcept;
  // For messages that may have arrived already.
  void receive_kept(message_receive& op) noexcept;
  // For one Endpoint only.
  void receive_from(message_receive& op) noexcept;
  void take_kept(protocol::tag_message& kept, message_receive& op) noexcept;
  [[nodiscard]] std::optional<TagReceived> probe(const protocol::tag_pattern& pattern) noexcept;
  [[nodiscard]] std::optional<TaggedMessage> claim(const protocol::tag_pattern& pattern) noexcept;
  // Passes the message in `s` to `op`.
  void hand_over(message_segment& s, message_receive& op) noexcept;
  // Null: no memory.
  [[nodiscard]] fetch* take_fetch() noexcept;
  void release(fetch& f) noexcept;
  // Starts or calls the handler of an active message; its Endpoint may be destroyed when this
  // returns.
  void run(message_segment& s) noexcept;
  void call(const am_function& handler, const ShortMessage& message) noexcept;
  void start(const am_handler& handler, message_segment& s) noexcept;
  void end_receives(const failure& why) noexcept;
  // Ends the receives for that endpoint only.
  void end_receives_from(const endpoint_core& sender, const failure& why) noexcept;
  void on_worker_gone() noexcept;

 private:
  // The receive queue for a connection over that transport.
  [[nodiscard]] result<transport::receive_queue*> queue_on(adapter_poller& via);

  message_options options_;
  reactor* home_;
  std::shared_ptr<worker_anchor> anchor_;
  protocol::tag_matcher<message_receive> matcher_;
  std::uint64_t dropped_ = 0;
  std::vector<std::unique_ptr<fetch>> all_fetches_;
  list<fetch> free_fetches_;
  // Destroyed before the fetches, which they end with their requests.
  std::vector<std::unique_ptr<frame_port>> ports_;
  request_core* requests_ = nullptr;
  list<early_messages> unwired_;
  handler_table handlers_{*home_};
};

[[gnu::always_inline]] inline void message_core::receive(message_receive& op) noexcept {
  if (op.place_.pattern.from != nullptr) return receive_from(op);
  if (!matcher_.post_at_once(op)) [[unlikely]]
    return receive_kept(op);
  op.set_phase(operation_base::phase::queued);
}

[[gnu::always_inline]] inline void message_core::start(const am_handler& handler,
                                                       message_segment& s) noexcept {
  try {
    handlers_.start(handler, s);
  } catch (...) {
    handlers_.count_failure();
  }
}

[[gnu::always_inline]] inline void message_receive::got(std::span<const std::byte> message,
                                                        std::uint64_t tag,
                                                        Endpoint* from) noexcept {
  received_ = {.bytes = message.size(), .tag = tag, .from = from};
  if (message.size() > into_.size()) [[unlikely]]
    return got_part(message);
  transport::copy_bytes(into_.data(), message.data(), message.size());
  finish_in_poll();
}

[[gnu::always_inline]] inline void message_receive::gets_all(std::uint64_t bytes, std::uint64_t tag,
                                                             Endpoint* from) noexcept {
  received_ = {.bytes = bytes, .tag = tag, .from = from};
  finish_from_list();
}

// The Messages of an Endpoint that carries, or will carry, frames. Null: plain messages, or the
// Messages are destroyed.
[[nodiscard]] message_core* messages_of(const endpoint_core& e) noexcept;

}  // namespace cordma::detail
