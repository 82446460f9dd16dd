// What a loop moves: how a message of each kind is sent and received.
#pragma once

#include "../support/op_ring.hpp"
#include "lane.hpp"

namespace perf {

// Messages, which take a receive. `slot` names the memory at this side; with a write the peer's as well.
struct plain {
  using recv_ring = support::op_ring<cordma::recv_operation>;
  using send_ring = support::op_ring<cordma::send_operation>;
  static cordma::recv_operation receive(lane& l, std::uint64_t slot) {
    return l.endpoint().recv(l.in(slot));
  }
  static cordma::send_operation send(lane& l, std::uint64_t slot, std::uint64_t) {
    return l.endpoint().send(l.out(slot));
  }
  static cordma::send_operation send_empty(lane& l) { return l.endpoint().send(l.out(0).first(0)); }
};

struct tagged {
  using recv_ring = support::op_ring<cordma::tag_recv_operation>;
  using send_ring = support::op_ring<cordma::message_send_operation>;
  static cordma::tag_recv_operation receive(lane& l, std::uint64_t slot) {
    return l.endpoint().tag_recv(the_tag, l.in(slot));
  }
  static cordma::message_send_operation send(lane& l, std::uint64_t slot, std::uint64_t) {
    return l.endpoint().tag_send(the_tag, l.out(slot));
  }
  static cordma::message_send_operation send_empty(lane& l) {
    return l.endpoint().tag_send(the_tag, l.out(0).first(0));
  }
};

// A remote write with the number of the message as its immediate.
struct imm {
  using recv_ring = support::op_ring<cordma::recv_operation>;
  using send_ring = support::op_ring<cordma::send_operation>;
  static cordma::recv_operation receive(lane& l, std::uint64_t) {
    return l.endpoint().recv(l.in(0).first(0));
  }
  static cordma::send_operation send(lane& l, std::uint64_t slot, std::uint64_t i) {
    return l.endpoint().write_imm(l.peer_in(slot), l.out(slot), static_cast<std::uint32_t>(i));
  }
  static cordma::send_operation send_empty(lane& l) { return l.endpoint().send(l.out(0).first(0)); }
};

}  // namespace perf
