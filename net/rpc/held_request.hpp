// A request of the peer, from its arrival to the answer and the end of its handler.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/outgoing_word.hpp>
#include <cordma/net/transport/checked_state.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/reactor.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cordma::detail {

struct request_core;
struct request_peer;

// A request of the peer's, from its arrival until the handler has ended and nobody holds it.
struct held_request : list_node {
  // open: to be answered, or acknowledged, or of no answer; answering: a response is on its way.
  enum class stage : std::uint8_t { open, answering, answered, unwanted };
  // Whether the right one may follow the left one. What nobody wants is answered all the same.
  [[nodiscard]] friend constexpr bool operator>>(stage before, stage next) noexcept {
    switch (before) {
      case stage::open: return next == stage::answering || next == stage::answered;
      case stage::answering: return next == stage::answered;
      case stage::answered: return next == stage::unwanted;
      case stage::unwanted: break;
    }
    return false;
  }

  void begin(request_peer& from, const protocol::request_header& h, ActiveMessage m) noexcept;
  void respond(request_answer& by) noexcept;
  // The answer without a response.
  void say(protocol::request_outcome outcome, std::uint64_t bytes = 0,
           std::string_view address = {}) noexcept;
  // False: it is too late for that.
  bool withdraw(errc why, protocol::request_outcome outcome) noexcept;
  void on_handler_threw() noexcept;
  void on_handler_ended() noexcept;
  void on_handle_gone() noexcept;
  void on_written() noexcept;
  void on_said() noexcept;
  void settle() noexcept;
  void release_if_done() noexcept;
  void drop_unread() noexcept;
  void tell_answerer() noexcept;
  [[nodiscard]] bool wants_word() const noexcept;
  [[nodiscard]] bool wants_response() const noexcept;
  [[nodiscard]] std::optional<failure> obstacle(const request_answer& by) const;
  void write(const Slice& response) noexcept;
  void write_piece() noexcept;
  void say_written() noexcept;

  struct alarm final : timer {
    explicit alarm(held_request& h) noexcept
        : timer([](timer& t) noexcept {
            static_cast<alarm&>(t).of.withdraw(errc::timed_out,
                                               protocol::request_outcome::timed_out);
          }),
          of(h) {}
    held_request& of;
  };

  request_core* core = nullptr;
  request_peer* peer = nullptr;  // null: the connection has ended, or it is free
  protocol::request_header head;
  std::uint64_t size = 0;
  std::optional<ActiveMessage> message;  // empty: dropped unread
  bool reading = false;                  // or read
  bool running = false;
  bool held = false;
  transport::checked_state<stage> at{stage::open};
  errc why = errc::ok;  // it is unwanted
  event unwanted;
  time_point until = never;
  alarm deadline{*this};
  request_answer* answerer = nullptr;
  std::optional<failure> outcome;  // of that
  MemoryRegion keeps;  // the response's, where the answer is gone; outlives what is on its way
  outgoing_word word;
  std::optional<send_operation> writing;
  Slice unwritten;        // of the response, what is not posted yet
  bool word_due = false;  // behind that
  std::uint64_t response_size = 0;
  held_request* next_free = nullptr;
};

}  // namespace cordma::detail
