// A call of this side, from its request to its outcome.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/outgoing_word.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace cordma::detail {

struct request_core;
struct request_peer;

// A request on its way, and the place of its answer.
struct asked : list_node {
  void launch(request_peer& to, request_call& by) noexcept;
  void on_sent() noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_read() noexcept;
  // Nobody wants the answer any more.
  void withdraw() noexcept;
  // The call is gone: what the peer may touch is kept.
  void leave() noexcept;
  // Its deadline has passed: it ends, unless something of it is still touched.
  void end_late() noexcept;
  // The connection has: what had not left yet says so itself.
  void end(const failure& why) noexcept;
  // Tells the call, and becomes free, where there is nothing left to wait for.
  void settle() noexcept;
  void tell() noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept {
    return std::uint64_t{generation} << 32 | index;
  }

  request_core* core = nullptr;
  request_peer* peer = nullptr;  // null: it is free
  std::uint32_t index = 0;
  std::uint32_t generation = 1;
  request_call* op = nullptr;  // null: that has ended
  request_call::manner how = request_call::manner::call;
  Slice room;
  std::uint64_t room_bytes = 0;
  bool writable = false;   // the peer may write to the room
  bool announced = false;  // the peer may read the request
  bool answered = false;   // nothing more comes from the peer
  bool withdrawn = false;
  bool late = false;  // its deadline has passed
  std::uint64_t bytes = 0;
  Response response;
  std::optional<failure> outcome;
  std::string redirect;
  MemoryRegion keeps_request;  // where the call is gone; they outlive what is on its way
  MemoryRegion keeps_room;
  outgoing_word request;
  outgoing_word withdrawal;
  std::optional<ActiveMessage> answer;  // while it is read
  std::optional<tag_recv_operation> reading;
  asked* next_free = nullptr;
};

}  // namespace cordma::detail
