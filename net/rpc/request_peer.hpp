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

struct request_core;

// The requests of one connection, in both directions.
struct request_peer : list_node {
  request_peer(request_core& of, peer_core& on);

  void start(request_call& op) noexcept;
  void pump() noexcept;
  void on_message(ActiveMessage message) noexcept;
  // Of the peer's, which may have come before there were Requests here.
  void on_hello(const protocol::request_header& h) noexcept;
  void on_end() noexcept;
  // Closing may have waited for what has just ended.
  void close_if_due() noexcept;
  void fail(failure why) noexcept;
  void say_what_is_due() noexcept;
  // What told the window has not left, and the connection is there: another message tells it.
  void on_unsent() noexcept;
  void on_silent() noexcept;
  [[nodiscard]] bool is_announced(const request_call& op) const noexcept;
  [[nodiscard]] bool has_place(const request_call& op) const noexcept;
  [[nodiscard]] endpoint_core& endpoint() const noexcept { return *below->endpoint; }
  // What the next header says.
  [[nodiscard]] std::uint16_t given() noexcept { return window.say(); }
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] bool is_idle() noexcept;
  // Whether a message with that header has to be announced, as long as it is.
  [[nodiscard]] bool is_long(std::size_t header, std::uint64_t bytes) const noexcept;

  struct alarm final : timer {
    explicit alarm(request_peer& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).of.on_silent(); }), of(p) {}
    request_peer& of;
  };

  request_core* core;
  peer_core* below;                               // null once the connection has ended
  std::optional<protocol::send_credits> credits;  // once its hello has come
  protocol::receive_window window;
  bool hello_said = false;
  bool pumping = false;
  outgoing_word word;
  alarm silence{*this};
  list<request_call> waiting;
  list<asked> calls;
  list<held_request> held;
  std::uint32_t unanswered = 0;  // of calls: those that are bounded
  std::uint32_t announced = 0;   // likewise, that the peer may read
  std::uint64_t bytes = 0;

 private:
  void on_request(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_cancel(std::uint64_t id) noexcept;
};

}  // namespace cordma::detail
