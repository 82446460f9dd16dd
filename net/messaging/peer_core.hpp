// The frames of one connection.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/messaging/due_answers.hpp>
#include <cordma/net/messaging/fetch.hpp>
#include <cordma/net/messaging/frame_entry.hpp>
#include <cordma/net/messaging/frame_port.hpp>
#include <cordma/net/messaging/message_segment.hpp>
#include <cordma/net/messaging/open_offer.hpp>
#include <cordma/net/messaging/rail_core.hpp>
#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/rails.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/runtime/reactor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cordma::detail {

class request_peer;
struct handler;

// One connection that carries frames; part of its endpoint_core.
class peer_core final : public endpoint_frames, public list_node {
 public:
  peer_core(endpoint_core& of, frame_port& over);
  ~peer_core() override;

  void send(message_send& op) noexcept;
  // Executes waiting work while there are credits and queue entries.
  void pump() noexcept;
  void on_connected() noexcept override;
  void on_closing() noexcept override;
  void on_arrived(transport::arrived_message& m) noexcept override;
  // Takes a credit for a frame with this body. Returns false if it cannot be put now; send() then
  // reports why.
  [[nodiscard]] bool may_put(const Slice& s) noexcept;
  // REQUIRES may_put(). Returns true if the frame was sent: the transport has its own copy. After
  // false, call take_back().
  [[nodiscard]] bool put(protocol::frame_kind kind, std::uint64_t word, const std::byte* data,
                         std::uint32_t bytes) noexcept;
  void take_back(std::uint64_t bytes) noexcept;
  // The same with all of `op`, if it is eager.
  [[nodiscard]] bool put_gathered(const message_send& op) noexcept;
  // Whether a message is sent at once.
  [[nodiscard]] bool sends_now(bool is_long) const noexcept;
  // REQUIRES that `s` is from this peer.
  void on_frame(message_segment& s, std::uint32_t bytes) noexcept;
  // A request of this peer completed.
  void on_sent(frame_entry& e, const transport::completion& c) noexcept;
  // Ends the connection with this cause.
  void fail(failure why) noexcept;
  void on_end() noexcept override;
  // The endpoint was destroyed: unexpected messages are dropped.
  void on_handle_gone() noexcept override;
  // The Messages are destroyed.
  void on_port_gone() noexcept;
  // The endpoint's queue pair is destroyed, and those of the rails.
  void on_pair_gone() noexcept override;
  [[nodiscard]] bool idle() noexcept override;
  [[nodiscard]] Endpoint* handle() const noexcept;
  // The rails, for Endpoint::properties().
  void dump(dump_writer& out) noexcept override;
  void describe(std::vector<transport::property>& out) const override;
  void move_to(endpoint_core& to) noexcept override {
    endpoint_ = &to;
    settle();
  }
  void settle() noexcept override;

  // Releases a message of this peer and returns its credit.
  void let_go(message_segment& s) noexcept;
  // Fetches the announced message in `s` for `op`.
  void start_fetch(message_segment& s, message_receive& op) noexcept;
  void refuse(message_segment& s) noexcept;
  void say_done(std::uint32_t offer, protocol::offer_outcome outcome) noexcept;
  // Whether the peer may write a message to this memory. Over shm it sends parts.
  [[nodiscard]] bool writable(const Slice& into) const noexcept;

  [[nodiscard]] endpoint_core& endpoint() const noexcept { return *endpoint_; }
  // Null once the Messages are destroyed.
  [[nodiscard]] frame_port* port() const noexcept { return port_; }
  // While Worker::endpoint() connects, the matcher identifies it by that endpoint.
  void send_as(const endpoint_core& unwired) noexcept { sender_ = &unwired; }
  [[nodiscard]] send_places& places() noexcept { return places_; }
  // Of rendezvous messages, on the endpoint's own connection.
  [[nodiscard]] read_load& load() noexcept { return load_; }
  // Empty until it has arrived.
  [[nodiscard]] const std::optional<protocol::hello>& theirs() const noexcept { return theirs_; }
  [[nodiscard]] const protocol::agreed_rails& agreed() const noexcept { return agreed_; }
  // Starting at number 1.
  [[nodiscard]] const std::vector<std::unique_ptr<rail_core>>& rails() const noexcept {
    return rails_;
  }
  [[nodiscard]] open_offer& offer(std::uint32_t place) noexcept { return offers_.at(place); }
  // Null until the peer has used requests.
  [[nodiscard]] request_peer* requests() const noexcept { return requests_; }
  void carry(request_peer* requests) noexcept { requests_ = requests; }
  // Stores its hello of requests until there are Requests here. Returns false if one is stored
  // already.
  [[nodiscard]] bool keep_greeting(const protocol::request_header& h) noexcept {
    if (greeting_) return false;
    greeting_ = h;
    return true;
  }
  [[nodiscard]] std::optional<protocol::request_header> take_greeting() noexcept {
    return std::exchange(greeting_, std::nullopt);
  }

 private:
  [[nodiscard]] protocol::hello own_hello() const noexcept;
  void on_hello(const message_segment& s) noexcept;
  [[nodiscard]] bool is_traced() const noexcept {
    return endpoint_->worker() != nullptr && endpoint_->worker()->trace() != nullptr;
  }
  [[nodiscard]] bool may_put(std::uint64_t bytes) noexcept;
  [[nodiscard]] message_segment* copy_arrived(transport::arrived_message& m) noexcept;
  [[nodiscard]] message_receive* taker_of(const protocol::frame_head& head) noexcept;
  void take_tagged(message_receive& wanted, const protocol::frame_head& head,
                   const transport::arrived_message& m) noexcept;
  void copy_and_pump(const message_receive& wanted, const transport::arrived_message& m) noexcept;
  void take_slowly(transport::arrived_message& m) noexcept;
  void call_plain(const handler& found, std::uint32_t header,
                  transport::arrived_message& m) noexcept;
  void start_task(const handler& found, std::uint64_t first, std::uint64_t word,
                  transport::arrived_message& m) noexcept;
  // Processes the message in `s`, which has a valid head.
  void accept(message_segment& s) noexcept;
  void refuse_all(message_segment& s, failure why) noexcept;
  void say_what_waits() noexcept {
    if (!puts_ || window_.has_to_say()) [[unlikely]]
      pump();
  }
  // Returns the receive of a message that was received.
  void give_back() noexcept {
    if (window_.give_back() || !puts_) [[unlikely]]
      pump();
  }
  [[nodiscard]] bool nothing_waits() noexcept;
  // Start and stop the timeout for the peer's hello, while messages wait for it.
  void listen() noexcept;
  void stop_listening() noexcept;
  void on_silent() noexcept;
  void on_tagged(message_segment& s) noexcept;
  void on_active(message_segment& s) noexcept;
  void on_answer(const message_segment& s) noexcept;
  // Errors: connection_aborted, no_memory.
  [[nodiscard]] result<void> on_announced(message_segment& s);
  // Returns why the message cannot be sent, or nothing.
  [[nodiscard]] std::optional<failure> obstacle(message_send& op) const;
  // For a message that is not completely in host memory of this Context. A message in device memory
  // is announced.
  [[nodiscard]] std::optional<failure> obstacle_of_memory(message_send& op) const;
  [[nodiscard]] bool is_long(const message_send& op) const noexcept;
  [[nodiscard]] bool has_room(bool is_long) const noexcept;
  [[nodiscard]] bool has_place() const noexcept { return places_.has_one() && port_->has_entry(); }
  void post(message_send& op) noexcept;
  void post_eager(message_send& op) noexcept;
  void say_control() noexcept;
  void post_frame(frame_entry& e, protocol::frame_head head,
                  std::span<const Slice> behind = {}) noexcept;
  void post(frame_entry& e, transport::send_request& request) noexcept;

  // peer_core_long.cpp: announced by this side
  [[nodiscard]] bool readable(const message_send& op) const noexcept;
  void post_offer(message_send& op) noexcept;
  void on_want(std::uint32_t number, const protocol::want& want) noexcept;
  void send_on(open_offer& o) noexcept;
  void post_write(frame_entry& e, std::span<const Slice> from, std::uint64_t addr,
                  std::uint64_t rkey) noexcept;
  void end_offer(open_offer& o) noexcept;
  void on_done(protocol::done_word word) noexcept;
  void cut_offers() noexcept;
  // announced by the peer
  void go_on(fetch& f) noexcept;
  void ask_on(fetch& f) noexcept;
  // Null: none.
  [[nodiscard]] fetch* fetch_of(std::uint32_t number, fetch::by way) noexcept;
  void on_part(std::uint32_t number, std::span<const std::byte> bytes) noexcept;
  void on_wrote(std::uint32_t number) noexcept;

  // peer_core_rails.cpp
  void make_rails() noexcept;
  void say_rails() noexcept;
  void on_rail(std::uint64_t number, std::span<const std::byte> descriptor) noexcept;
  [[nodiscard]] rail_core* rail(std::size_t number) const noexcept {
    return number == 0 ? nullptr : rails_[number - 1].get();
  }
  // For reads of a message.
  [[nodiscard]] bool usable(std::size_t number, const protocol::offer& from) const noexcept;
  [[nodiscard]] std::size_t rail_after(std::size_t number,
                                       const protocol::offer& from) const noexcept;
  void plan(fetch& f) noexcept;
  void read_piece(fetch& f, std::uint8_t index) noexcept;
  void post_read(fetch& f, std::uint8_t index) noexcept;

  struct alarm final : timer {
    explicit alarm(peer_core& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).of.on_silent(); }), of(p) {}
    peer_core& of;
  };

  endpoint_core* endpoint_;
  const endpoint_core* sender_;  // the endpoint by which the matcher identifies it
  frame_port* port_;
  send_places places_;
  std::optional<protocol::hello> theirs_;
  std::optional<protocol::send_credits> credits_;
  protocol::receive_window window_;
  // Flags that every message checks; see settle().
  // Connected, the peer's hello has arrived, no batch that holds back, no message waits to be sent.
  bool puts_ = false;
  bool hears_ = false;         // the peer's hello has arrived, and messages may be received
  std::uint32_t longest_ = 0;  // limit of the body of a frame to the peer
  bool hello_said_ = false;
  bool pumping_ = false;
  list<message_send> waiting_;
  list<fetch> fetches_;
  list<message_segment> held_;  // messages not received yet, or being read
  offer_table offers_;          // announced by this side
  due_answers answers_;         // to offers of the peer
  request_peer* requests_ = nullptr;
  std::optional<protocol::request_header> greeting_;
  protocol::agreed_rails agreed_;  // valid once `theirs_` is set
  std::vector<std::unique_ptr<rail_core>> rails_;
  // Runs while messages wait for `theirs_`, or while closing waits until this side's hello is
  // received.
  alarm silence_{*this};
  bool was_silent_ = false;
  std::uint32_t rails_said_ = 0;
  read_load load_;
};

[[gnu::always_inline]] inline bool peer_core::may_put(std::uint64_t bytes) noexcept {
  return puts_ && bytes <= longest_ && credits_->try_to_take();
}

[[gnu::always_inline]] inline bool peer_core::may_put(const Slice& s) noexcept {
  return (s.size() == 0 || s.region()->touched_in == endpoint_->context().get()) &&
         may_put(s.size());
}

[[gnu::always_inline]] inline bool peer_core::put(protocol::frame_kind kind, std::uint64_t word,
                                                  const std::byte* data,
                                                  std::uint32_t bytes) noexcept {
  endpoint_core& e = *endpoint_;
  e.count_put(protocol::head_bytes + bytes);
  const protocol::frame_head head{.kind = kind, .given = window_.say(), .body = bytes};
  return e.pair()->put({protocol::first_word(head), word}, data, bytes);
}

// The frames of an Endpoint. REQUIRES that it carries frames, and is connected.
[[nodiscard]] inline peer_core& peer_of(const endpoint_core& e) noexcept {
  return static_cast<peer_core&>(*e.frames());
}

[[nodiscard]] failure breach(const char* what);
[[nodiscard]] failure plain_messages();

}  // namespace cordma::detail
