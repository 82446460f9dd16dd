// Receives into pools that were canceled while posted: later receives of the endpoint take over
// their messages.
#include <cordma/net/datapath/worker_core.hpp>

#include <utility>

namespace cordma::detail {

post_base* endpoint_core::first_waiting_for_pool() noexcept {
  return recvs_.waiting().find([](const post_base& op) { return static_cast<bool>(op.lease_); });
}

// A message goes to the oldest receive, so the later receives into pools move up by one. Each then
// uses the buffer that was posted at its new position.
void endpoint_core::make_orphan(post_base& op) noexcept {
  CORDMA_ASSERT(op.slot_ != nullptr);
  slot* last = std::exchange(op.slot_, nullptr);
  CORDMA_ASSERT(last->op == &op && last->endpoint == this);
  CORDMA_ASSERT(last->is_recv && !last->orphan);
  Buffer posted_here = std::move(op.lease_);
  const auto move_up = [&](post_base& later) noexcept {
    last->op = &later;
    later.slot_ = last;
    std::swap(later.lease_, posted_here);
  };
  for (slot* next = last->next; next != nullptr; next = next->next) {
    post_base* const later = next->op;
    if (later == nullptr || !later->lease_) continue;  // abandoned, or into memory of the program
    move_up(*later);
    last = next;
  }
  if (post_base* const waiting = first_waiting_for_pool(); waiting != nullptr) {
    waiting->unlink();
    move_up(*waiting);
    waiting->set_phase(operation_base::phase::posted);
    return;
  }
  last->op = nullptr;
  last->orphan = true;
  last->lease = std::move(posted_here);
  ++received_.orphans;
  open_to_ = 0;
}

// Returns true if `op` took over the oldest orphan.
bool endpoint_core::adopt_orphan(post_base& op) noexcept {
  CORDMA_ASSERT_OP(received_.orphans, >, 0U);
  if (slot* const s = received_.kept.first()) {
    op.received_ = s->received;
    op.lease_ = std::move(s->lease);  // the buffer it came with is returned to its pool
    drop_first_kept();
    op.finish();
    return true;
  }
  slot* s = received_.posted.first();
  while (s != nullptr && !s->orphan) s = s->next;
  if (s == nullptr) return false;
  CORDMA_ASSERT(s->op == nullptr && s->endpoint == this);
  op.lease_ = std::move(s->lease);
  s->orphan = false;
  s->op = &op;
  --received_.orphans;
  op.slot_ = s;
  op.set_phase(operation_base::phase::posted);
  return true;
}

void endpoint_core::drop_first_kept() noexcept {
  slot& s = *received_.kept.first();
  CORDMA_ASSERT(s.endpoint == this && s.op == nullptr);
  CORDMA_ASSERT(s.orphan && s.arrived);
  received_.kept.remove(s);
  free_orphan(s);
}

void endpoint_core::free_orphan(slot& s) noexcept {
  CORDMA_ASSERT_OP(received_.orphans, >, 0U);
  --received_.orphans;
  s.lease.reset();
  s.orphan = s.arrived = false;
  worker_->free_slot(s);
}

// The slot is no longer in the list of posted receives.
void endpoint_core::orphan_done(slot& s, const transport::completion& c) noexcept {
  CORDMA_ASSERT(s.op == nullptr && !s.arrived);
  // Once the Endpoint is destroyed, nothing receives the message.
  if (c.status != transport::wc_status::success || handle_gone_) return free_orphan(s);
  CORDMA_ASSERT_OP(received_.orphans, >, 0U);
  counters_.bytes_received += c.byte_len;
  s.arrived = true;
  s.received = to_received(c);
  received_.kept.push_back(s);
}

}  // namespace cordma::detail
