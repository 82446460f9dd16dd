// What stands behind Messages: the matcher, the handlers, and a frame_port per transport.
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

// rpc/request_peer.cpp: active messages that are the library's own, and the end of who spoke them.
void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept;
void on_requests_end(request_peer& peer) noexcept;
// Whether nothing of it waits, or is on its way, or is to be answered to this side.
[[nodiscard]] bool is_idle(request_peer& peer) noexcept;

// Bound to the thread of its Worker.
class message_core {
 public:
  message_core(Worker& worker, const message_options& options);
  ~message_core();

  [[nodiscard]] const message_options& options() const noexcept { return options_; }
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // Null once it is gone.
  [[nodiscard]] worker_core* worker() const noexcept { return anchor_->worker; }
  [[nodiscard]] protocol::tag_matcher<message_receive>& matcher() noexcept { return matcher_; }
  [[nodiscard]] handler_table& handlers() noexcept { return handlers_; }
  // Active messages that had no handler.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] const std::vector<std::unique_ptr<frame_port>>& ports() const noexcept {
    return ports_;
  }
  // Of Endpoints that are not connected yet.
  [[nodiscard]] list<early_messages>& unwired() noexcept { return unwired_; }
  // Null: none are served.
  [[nodiscard]] request_core* requests() const noexcept { return requests_; }
  void serve(request_core* requests) noexcept { requests_ = requests; }

  // What a connection over that transport is asked for, to carry frames. not_supported, full, no_memory,
  // invalid_value, no_lock.
  [[nodiscard]] result<endpoint_options> options_on(adapter_poller& via, endpoint_options asked);
  // Host memory of the same Context, where it may be written.
  [[nodiscard]] bool may_take(const Slice& into) const noexcept {
    const region_core* const region = into.region();
    const context_core* const here = anchor_->context;
    return here != nullptr &&
           (into.size() == 0 || (region->touched_in == here &&
                                 has(region->range.rights, transport::access::local_write)));
  }
  void receive(message_receive& op) noexcept;
  // Of what may be here already.
  void receive_kept(message_receive& op) noexcept;
  // From one Endpoint alone.
  void receive_from(message_receive& op) noexcept;
  void take_kept(protocol::tag_message& kept, message_receive& op) noexcept;
  [[nodiscard]] std::optional<TagReceived> probe(const protocol::tag_pattern& pattern) noexcept;
  [[nodiscard]] std::optional<TaggedMessage> claim(const protocol::tag_pattern& pattern) noexcept;
  // The message in `s` is for `op`.
  void hand_over(message_segment& s, message_receive& op) noexcept;
  // Null: no memory.
  [[nodiscard]] fetch* take_fetch() noexcept;
  void release(fetch& f) noexcept;
  // Of an active message: begins its handler, or calls it, and its Endpoint may be gone then.
  void run(message_segment& s) noexcept;
  void call(const am_function& handler, const ShortMessage& message) noexcept;
  void start(const am_handler& handler, message_segment& s) noexcept;
  void end_receives(const failure& why) noexcept;
  // Of those that wait for that one alone.
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
  // They end the fetches that their requests are for.
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

// Whose frames the Endpoint carries, or will; null: plain messages, or the Messages are gone.
[[nodiscard]] message_core* messages_of(const endpoint_core& e) noexcept;

}  // namespace cordma::detail
