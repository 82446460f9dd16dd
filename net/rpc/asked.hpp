// A call of this side, from its request to its outcome.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/outgoing_word.hpp>
#include <cordma/net/rpc/record_pool.hpp>
#include <cordma/net/transport/checked_state.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace cordma::detail {

class request_core;
class request_peer;

// A request in flight, and the record for its response.
class asked : public pooled<asked> {
 public:
  asked(request_core& of, std::uint32_t index) noexcept : core_(&of), index_(index) {}

  void launch(request_peer& to, request_call& by) noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  // The caller no longer needs the response.
  void withdraw() noexcept;
  // The deadline of the call has passed: the call ends, unless its memory is still accessed.
  void on_deadline() noexcept;
  // The call object `from` was moved to `to`.
  void follow(const request_call& from, request_call& to) noexcept {
    CORDMA_ASSERT(op_ == &from);
    op_ = &to;
  }
  // The call was destroyed: memory that the peer may access is kept.
  void leave() noexcept;
  // The connection has ended: a request that was never sent ends with its own failure instead of
  // `why`.
  void end(const failure& why) noexcept;
  // The Requests are destroyed: drops everything in flight.
  void drop(const failure& why) noexcept;
  // True if a call waits for it.
  [[nodiscard]] bool is_wanted() const noexcept { return op_ != nullptr; }
  // True if a response with that id, from that peer, belongs to this request.
  [[nodiscard]] bool awaits(const request_peer& from, std::uint64_t answered_id) const noexcept {
    return peer_ == &from && id() == answered_id && at_ != stage::answered;
  }

 private:
  // late: as withdrawn, and the deadline has passed. answered: nothing more arrives from the peer.
  enum class stage : std::uint8_t { open, withdrawn, late, answered };
  // True if the second stage may follow the first.
  [[nodiscard]] friend constexpr bool operator>>(stage before, stage next) noexcept {
    return next == stage::answered || before < next;
  }

  void on_sent() noexcept;
  void on_read() noexcept;
  void say_withdrawn() noexcept;
  void end_late() noexcept;
  // Completes the call, and frees the record, if nothing is left to wait for.
  void settle() noexcept;
  void tell() noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept {
    return std::uint64_t{generation_} << 32 | index_;
  }

  request_core* core_;
  request_peer* peer_ = nullptr;  // null: the record is free
  const std::uint32_t index_;
  std::uint32_t generation_ = 1;
  request_call* op_ = nullptr;  // null: the call has ended
  request_call::manner how_ = request_call::manner::call;
  Slice room_;
  std::uint64_t room_bytes_ = 0;
  bool writable_ = false;   // the peer may write to the room
  bool announced_ = false;  // the peer may read the request
  transport::checked_state<stage> at_{stage::open};
  std::uint64_t bytes_ = 0;
  Response response_;
  std::optional<failure> outcome_;
  std::string redirect_;
  MemoryRegion keeps_request_;  // after the call was destroyed; outlive everything in flight
  MemoryRegion keeps_room_;
  outgoing_word request_;
  outgoing_word withdrawal_;
  std::optional<ActiveMessage> answer_;  // while its data is read
  std::optional<tag_recv_operation> reading_;
};

}  // namespace cordma::detail
