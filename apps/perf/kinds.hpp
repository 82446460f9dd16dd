// Kinds of messages and one-sided operations: how the loops send, receive and start them.
#pragma once

#include "../support/op_ring.hpp"
#include "lane.hpp"

#include <cordma/runtime/task.hpp>

namespace perf {

// Messages that match a receive. `slot` names the memory of this side, and of the peer for a write.
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

// A remote write with the number of the message as immediate data.
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

// One-sided operations on the peer's memory: make() creates operation `i`, look() checks its
// outcome.
struct reading {
  using operation = cordma::send_operation;
  static operation make(lane& l, std::uint64_t slot, std::uint64_t) {
    if (l.what.check) spoil(l.in(slot).bytes(), slot);
    return l.endpoint().read(l.peer_out(slot), l.in(slot));
  }
  static void look(lane& l, std::uint64_t slot, std::uint64_t) noexcept {
    if (l.what.check && !matches(l.in(slot).bytes(), slot)) ++l.wrong;
  }
};

// Each operation increments the peer's first word and therefore finds its own number there.
struct counting {
  using operation = cordma::atomic_operation;
  static void look(lane& l, std::uint64_t, std::uint64_t i, std::uint64_t before) noexcept {
    if (l.what.check && before != i) ++l.wrong;
  }
};
struct adding : counting {
  static operation make(lane& l, std::uint64_t, std::uint64_t) {
    return l.endpoint().fetch_add(l.peer_in(0), 1);
  }
};
struct swapping : counting {
  static operation make(lane& l, std::uint64_t, std::uint64_t i) {
    return l.endpoint().compare_swap(l.peer_in(0), i, i + 1);
  }
};

// Waits for all started operations.
template <class Operation>
cordma::task<void> drain(support::op_ring<Operation>& ring) {
  while (!ring.empty()) {
    auto& oldest = ring.oldest();
    co_await oldest;
    ring.pop();
  }
}

}  // namespace perf
