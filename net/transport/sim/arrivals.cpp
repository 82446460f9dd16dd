#include <cordma/net/transport/sim/arrivals.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {

arrivals::~arrivals() {
  for (; count_ != 0; --count_) pair_.net().give(last());
}

void arrivals::add(const packet& p) noexcept {
  CORDMA_ASSERT_OP(p.first, ==, !open());
  if (p.first) {
    CORDMA_ASSERT_OP(count_, <, ring_.size());
    CORDMA_ASSERT_OP(p.total, <=, most_bytes);
    packet& begun = pair_.new_packet(packet_kind::send);
    begun.op = p.op;
    begun.psn = p.psn;
    begun.first = true;
    begun.total = p.total;
    ring_[(first_ + count_) % ring_.size()] = &begun;
    ++count_;
  }
  packet& m = last();
  CORDMA_ASSERT_OP(m.length + p.length, <=, m.total);
  if (p.length != 0) std::memcpy(m.payload + m.length, p.payload, p.length);
  m.length += p.length;
  m.last = p.last;
  CORDMA_ASSERT(!m.last || m.length == m.total);
}

const packet& arrivals::hand_out() noexcept {
  CORDMA_ASSERT_OP(handed_, <, whole());
  return *ring_[(first_ + handed_++) % ring_.size()];
}

void arrivals::pop() noexcept {
  CORDMA_ASSERT_OP(whole(), >, 0U);
  pair_.net().give(*ring_[first_ % ring_.size()]);
  ++first_;
  --count_;
  handed_ -= std::min<std::size_t>(handed_, 1);
}

}  // namespace cordma::transport::sim
