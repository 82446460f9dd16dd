// The requests of one connection, in both directions.
#pragma once

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/asked.hpp>
#include <cordma/net/rpc/held_request.hpp>
#include <cordma/net/rpc/outgoing_word.hpp>
#include <cordma/runtime/reactor.hpp>

#include <cstdint>
#include <optional>

namespace cordma::detail {

class request_core;

// The requests of one connection, in both directions.
class request_peer : public list_node {
 public:
  request_peer(request_core& of, peer_core& on);

  void start(request_call& op) noexcept;
  void pump() noexcept;
  void on_message(ActiveMessage message) noexcept;
  // Messages of the peer, which may have arrived before the Requests were created.
  void on_hello(const protocol::request_header& h) noexcept;
  void on_end() noexcept;
  // Closing may have waited for the operation that has just ended.
  void close_if_due() noexcept;
  // Ends the connection, if it exists.
  void fail(failure why) noexcept;
  // A message that carried the window was not sent, and the connection exists: sends another one.
  void on_unsent() noexcept;
  [[nodiscard]] bool is_up() const noexcept { return below_ != nullptr; }
  // REQUIRES is_up().
  [[nodiscard]] endpoint_core& endpoint() const noexcept { return below_->endpoint(); }
  // Null if it is destroyed.
  [[nodiscard]] Endpoint* handle() const noexcept { return is_up() ? below_->handle() : nullptr; }
  // The window for the next header.
  [[nodiscard]] std::uint16_t given() noexcept { return window_.say(); }
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] bool is_idle() noexcept;
  // True if a message with that header and length must be announced by an offer.
  [[nodiscard]] bool is_long(std::size_t header, std::uint64_t bytes) const noexcept;
  [[nodiscard]] bool is_announced(const request_call& op) const noexcept;

  // Records that a call is sent, with this number of bytes; takes a credit. Undone by
  // leave_place().
  void take_place(asked& a, std::uint64_t bytes, bool is_announced) noexcept {
    calls_.push_back(a);
    ++unanswered_;
    bytes_ += bytes;
    announced_ += is_announced ? 1 : 0;
    credits_->take();
  }
  void leave_place(asked& a, std::uint64_t bytes, bool is_announced) noexcept {
    CORDMA_ASSERT_OP(unanswered_, >, 0U);
    CORDMA_ASSERT_OP(bytes_, >=, bytes);
    CORDMA_ASSERT_OP(announced_, >=, is_announced ? 1U : 0U);
    --unanswered_;
    bytes_ -= bytes;
    announced_ -= is_announced ? 1 : 0;
    a.unlink();
  }
  // Returns the credit of a call that was not sent.
  void put_back_credit() noexcept {
    if (is_up()) credits_->put_back();
  }
  // Records an arrived request of the peer, until let_go().
  void hold(held_request& h) noexcept { held_.push_back(h); }
  void let_go(held_request& h) noexcept {
    h.unlink();
    window_.give_back();
    say_what_is_due();
  }

 private:
  void on_request(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_cancel(std::uint64_t id) noexcept;
  void on_silent() noexcept;
  void say_what_is_due() noexcept;
  [[nodiscard]] bool has_place(const request_call& op) const noexcept;

  struct alarm final : timer {
    explicit alarm(request_peer& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).of.on_silent(); }), of(p) {}
    request_peer& of;
  };

  request_core* core_;
  peer_core* below_;                               // null once the connection has ended
  std::optional<protocol::send_credits> credits_;  // set by the peer's hello
  protocol::receive_window window_;
  bool hello_said_ = false;
  bool pumping_ = false;
  outgoing_word word_;
  alarm silence_{*this};
  list<request_call> waiting_;
  list<asked> calls_;
  list<held_request> held_;
  std::uint32_t unanswered_ = 0;  // calls that count against the limit
  std::uint32_t announced_ = 0;   // calls with a request that the peer may read; limited as well
  std::uint64_t bytes_ = 0;
};

}  // namespace cordma::detail
