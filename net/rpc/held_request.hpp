// A request of the peer, from its arrival to the response and the end of its handler.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/outgoing_word.hpp>
#include <cordma/net/rpc/record_pool.hpp>
#include <cordma/net/transport/checked_state.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/reactor.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cordma::detail {

class request_core;
class request_peer;

// A request of the peer, from its arrival until the handler has ended and no handle refers to it.
class held_request : public pooled<held_request> {
 public:
  held_request(request_core& of, std::uint32_t /*index*/) noexcept : core_(&of) {}

  void begin(request_peer& from, const protocol::request_header& h, ActiveMessage m) noexcept;
  void respond(request_answer& by) noexcept;
  // The answer in progress was moved to `to`.
  void follow(request_answer& to) noexcept { answerer_ = &to; }
  // The answer was destroyed while it was sent: its memory is kept.
  void leave(const request_answer& by) noexcept;
  // False if it is already answered.
  bool withdraw(errc why, protocol::request_outcome outcome) noexcept;
  // The Requests are destroyed: drops everything in flight.
  void drop(const failure& why) noexcept;
  void on_handle_made() noexcept { held_ = true; }
  void on_handle_gone() noexcept;
  void on_handler_threw() noexcept;
  void on_handler_ended() noexcept;

  [[nodiscard]] reactor& home() const noexcept;
  // REQUIRES that the handler runs, or that a handle exists.
  [[nodiscard]] request_peer& peer() const noexcept { return *peer_; }
  // Without an address.
  [[nodiscard]] const protocol::request_header& head() const noexcept { return head_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // Null if it was dropped unread.
  [[nodiscard]] const ActiveMessage* message() const noexcept {
    return message_ ? &*message_ : nullptr;
  }
  // As message(), and protects it from being dropped unread.
  [[nodiscard]] ActiveMessage* begin_reading() noexcept {
    if (!message_) return nullptr;
    reading_ = true;
    return &*message_;
  }
  // The reason why it was dropped.
  [[nodiscard]] failure why_dropped() const;
  [[nodiscard]] time_point until() const noexcept { return until_; }
  [[nodiscard]] event& unwanted() noexcept { return unwanted_; }
  [[nodiscard]] bool wants_response() const noexcept {
    return (head_.flags & protocol::request_flag::one_way) == 0;
  }
  // True if the response is being written, and the message about it is not sent yet.
  [[nodiscard]] bool is_half_said() const noexcept { return word_due_; }

 private:
  // open: waits for a response, an acknowledgement or the handler's end; answering: a response is
  // in flight.
  enum class stage : std::uint8_t { open, answering, answered, unwanted };
  // True if the second stage may follow the first. An unwanted request was answered before.
  [[nodiscard]] friend constexpr bool operator>>(stage before, stage next) noexcept {
    switch (before) {
      case stage::open: return next == stage::answering || next == stage::answered;
      case stage::answering: return next == stage::answered;
      case stage::answered: return next == stage::unwanted;
      case stage::unwanted: break;
    }
    return false;
  }

  // Sends an answer without a response.
  void say(protocol::request_outcome outcome, std::uint64_t bytes = 0,
           std::string_view address = {}) noexcept;
  void on_written() noexcept;
  void on_said() noexcept;
  void settle() noexcept;
  void release_if_done() noexcept;
  void drop_unread() noexcept;
  void tell_answerer() noexcept;
  [[nodiscard]] bool wants_word() const noexcept;
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

  request_core* core_;
  request_peer* peer_ = nullptr;  // null: the record is free
  protocol::request_header head_;
  std::uint64_t size_ = 0;
  std::optional<ActiveMessage> message_;  // empty: dropped unread
  bool reading_ = false;                  // its data was or is being read
  bool running_ = false;
  bool held_ = false;
  transport::checked_state<stage> at_{stage::open};
  errc why_ = errc::ok;  // reason why it is unwanted
  event unwanted_;
  time_point until_ = never;
  alarm deadline_{*this};
  request_answer* answerer_ = nullptr;
  std::optional<failure> outcome_;  // of the answer
  MemoryRegion keeps_;              // memory of a destroyed answer; outlives everything in flight
  outgoing_word word_;
  std::optional<send_operation> writing_;
  Slice unwritten_;        // the part of the response that is not posted yet
  bool word_due_ = false;  // send the response message after the writes
  std::uint64_t response_size_ = 0;
};

}  // namespace cordma::detail
