// Frames over one transport: the segments that receive them, and the requests that send them.
#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {
namespace {

// Limits for the segments that are posted, or allocated in advance: their number, and their bytes.
constexpr std::uint32_t most_posted = 1024;
constexpr std::uint32_t least_posted = 64;
constexpr std::uint32_t posted_bytes = 8U << 20;
// Limit of posted segments if messages stay in the transport's ring: for messages that need a
// receive.
constexpr std::uint32_t posted_in_place = 32;
constexpr std::uint32_t least_chunk = 64;
// Segments in addition to those that hold messages of peers: for frames that are processed and
// released, and for posted ones.
constexpr std::uint32_t spare_segments = 64;
static_assert(posted_in_place < spare_segments);
constexpr std::uint32_t first_entries = 1024;  // more are allocated on use

}  // namespace

frame_port::frame_port(message_core& of, worker_core& at, adapter_poller& over)
    : core_(&of), worker_(&at), via_(&over), eager_bytes_(of.options().eager_bytes) {
  if (eager_bytes_ == 0) eager_bytes_ = over.domain().caps().eager_bytes;
  CORDMA_ASSERT_OP(eager_bytes_, >=, protocol::least_eager_bytes);
  at_once_ = may_post_ = std::clamp(posted_bytes / eager_bytes_, least_posted, most_posted);
  receive_over(over.domain().caps().transport);
  devices_.push_back({.via = &over, .place = kind()});
  std::size_t place = transport::kind_count;
  for (const std::unique_ptr<adapter_poller>& a : at.rail_adapters()) {
    const bool same = a->domain().caps().transport == over.domain().caps().transport;
    if (same) devices_.push_back({.via = a.get(), .place = place});
    ++place;
  }
}

result<void> frame_port::make() {
  const transport::capabilities& caps = via_->domain().caps();
  if (caps.in_place) may_post_ = std::min(may_post_, posted_in_place);
  const std::uint32_t depth = std::min(may_post_, caps.max_shared_depth);
  result<std::unique_ptr<transport::receive_queue>> made =
      via_->adapter().make_receive_queue(depth, 1);
  if (!made) return made.why();
  queue_ = std::move(*made);
  may_post_ = std::min(may_post_, queue_->depth());
  CORDMA_ASSERT_OP(may_post_, >, 0U);
  queue_->set_user(static_cast<completion_sink*>(this));
  worker_->add(*this);
  grow_segments(spare_segments);
  feed();
  return {};
}

frame_port::~frame_port() {
  const failure gone{errc::shutdown, "its Messages are gone"};
  if (worker_ != nullptr && queue_ != nullptr) {
    worker_->end_users_of(*queue_, gone);
    via_->drop(queue_);
    worker_->remove(*this);
  }
  for (const frame_entry* const e : entries_) CORDMA_ASSERT(e->what == frame_entry::use::free);
  peers_.for_each([](peer_core& p) {
    p.unlink();
    p.on_port_gone();
  });
}

void frame_port::on_worker_gone() noexcept {
  worker_ = nullptr;
  if (queue_ != nullptr) via_->drop(queue_);
  core_->on_worker_gone();
}

void frame_port::on_joined(endpoint_core& endpoint) {
  auto made = std::make_unique<peer_core>(endpoint, *this);
  const std::uint32_t sends = made->places().all();
  endpoint.carry(std::move(made), sends);
}

// ---- memory ----

void frame_port::promise(std::uint32_t for_segments, std::uint32_t for_sends) {
  grow_segments(std::min(promised_segments_ + for_segments, at_once_) + spare_segments);
  feed();
  grow_entries(std::min(promised_sends_ + for_sends, first_entries));
  promised_segments_ += for_segments;
  promised_sends_ += for_sends;
}

void frame_port::unpromise(std::uint32_t for_segments, std::uint32_t for_sends) noexcept {
  CORDMA_ASSERT_OP(promised_segments_, >=, for_segments);
  CORDMA_ASSERT_OP(promised_sends_, >=, for_sends);
  promised_segments_ -= for_segments;
  promised_sends_ -= for_sends;
}

// Doubles each time, so that there are few regions, however many peers exist.
void frame_port::grow_segments(std::uint32_t to) {
  const auto have = static_cast<std::uint32_t>(segments_.size());
  if (to <= have) return;
  const std::uint32_t more = std::max({to - have, have, least_chunk});
  CORDMA_ASSERT_OP(std::uint64_t{have} + more, <, is_send);
  const std::uint32_t each = eager_bytes_;
  result<MemoryRegion> region =
      allocate(worker_->shared_context(), std::size_t{more} * each, access::local_write);
  if (!region) throw std::bad_alloc();
  segments_.reserve(have + more);
  segment_chunks_.reserve(segment_chunks_.size() + 1);
  memory_.reserve(memory_.size() + 1);
  auto chunk = std::make_unique<message_segment[]>(more);
  for (std::uint32_t i = more; i-- > 0;) {
    message_segment& s = chunk[i];
    s.port = this;
    s.room = {region->data() + std::size_t{i} * each, each,
              region->all().region()->keys[kind()].lkey};
    s.index = have + i;
    s.next_free = std::exchange(free_segments_, &s);
  }
  for (std::uint32_t i = 0; i < more; ++i) segments_.push_back(&chunk[i]);
  CORDMA_ASSERT_OP(segments_.back()->index, ==, segments_.size() - 1);
  segment_chunks_.push_back(std::move(chunk));
  memory_.push_back(std::move(*region));
}

void frame_port::grow_entries(std::uint32_t to) {
  const auto have = static_cast<std::uint32_t>(entries_.size());
  if (to <= have) return;
  const std::uint32_t more = std::max({to - have, have, least_chunk});
  CORDMA_ASSERT_OP(std::uint64_t{have} + more, <, is_send);
  result<MemoryRegion> region = allocate(
      worker_->shared_context(), std::size_t{more} * frame_entry::bytes, access::local_write);
  if (!region) throw std::bad_alloc();
  entries_.reserve(have + more);
  entry_chunks_.reserve(entry_chunks_.size() + 1);
  memory_.reserve(memory_.size() + 1);
  auto chunk = std::make_unique<frame_entry[]>(more);
  for (std::uint32_t i = more; i-- > 0;) {
    frame_entry& e = chunk[i];
    e.data = region->data() + std::size_t{i} * frame_entry::bytes;
    e.lkey = region->all().region()->keys[kind()].lkey;
    e.index = have + i;
    e.next_free = std::exchange(free_entries_, &e);
  }
  for (std::uint32_t i = 0; i < more; ++i) entries_.push_back(&chunk[i]);
  CORDMA_ASSERT_OP(entries_.back()->index, ==, entries_.size() - 1);
  entry_chunks_.push_back(std::move(chunk));
  memory_.push_back(std::move(*region));
}

// ---- receives ----

void frame_port::feed() noexcept {
  if (queue_ == nullptr) return;
  if (free_segments_ == nullptr && posted_ < may_post_ / 2 && lacks_segments()) [[unlikely]]
    grow_by_need();
  while (free_segments_ != nullptr && posted_ < may_post_) {
    message_segment& s = take_free_segment();
    ++posted_;
    queue_->post_recv({.id = sink_id(number(), s.index), .segment_count = 1, .segments = &s.room});
  }
}

message_segment* frame_port::take_segment() noexcept {
  if (free_segments_ == nullptr && lacks_segments()) [[unlikely]]
    grow_by_need();
  return has_segment() ? &take_free_segment() : nullptr;
}

// True if the reserved number is not allocated yet, or destroyed peers left held segments.
bool frame_port::lacks_segments() const noexcept {
  return segments_.size() < promised_segments_ + left_ + spare_segments;
}

// If there is no memory for more, peers wait until segments are released.
void frame_port::grow_by_need() noexcept {
  const auto have = static_cast<std::uint32_t>(segments_.size());
  CORDMA_ASSERT_OP(posted_, <=, have);
  CORDMA_ASSERT_OP(left_, <=, have);
  try {
    grow_segments(have + 1);
  } catch (const std::bad_alloc&) {}
}

void frame_port::release(message_segment& s) noexcept {
  if (s.left) [[unlikely]]
    --left_;
  s.unlink();
  s.from = nullptr;
  s.taken = s.left = false;
  s.header_bytes = 0;
  s.waiting.reset();
  s.next_free = std::exchange(free_segments_, &s);
  if (posted_ != may_post_) feed();
}

void frame_port::let_go(message_segment& s) noexcept {
  if (s.from != nullptr) {
    s.from->let_go(s);
  } else {
    s.port->release(s);
  }
}

void frame_port::leave(message_segment& s) noexcept {
  s.left = true;
  ++left_;
}

std::size_t frame_port::held_segments() const noexcept {
  std::size_t held = segments_.size() - posted_;
  for (const message_segment* s = free_segments_; s != nullptr; s = s->next_free) --held;
  return held;
}

bool frame_port::on_completion(std::uint32_t index, const transport::completion& c) noexcept {
  if ((index & is_send) != 0) {
    const std::uint32_t at = index & ~is_send;
    if (at >= entries_.size() || entries_[at]->what == frame_entry::use::free) return false;
    on_sent(*entries_[at], c);
    return true;
  }
  if (index >= segments_.size()) return false;
  on_received(*segments_[index], c);
  return true;
}

void frame_port::on_received(message_segment& s, const transport::completion& c) noexcept {
  --posted_;
  auto* const e = c.from != nullptr ? static_cast<endpoint_core*>(c.from->user()) : nullptr;
  const bool wanted = e != nullptr && !e->handle_gone() && e->state() != endpoint_state::closed;
  if (c.status != transport::wc_status::success || !wanted) {
    // If the device refuses receives, the next one is posted at another event.
    if (c.status != transport::wc_status::general_err) return release(s);
    s.next_free = std::exchange(free_segments_, &s);
    return;
  }
  e->count_received(c.byte_len);
  s.from = &peer_of(*e);
  s.from->on_frame(s, c.byte_len);
  // A held segment is not posted again: other segments have to receive later frames, including
  // offers and credits.
  if (posted_ < may_post_ / 2) [[unlikely]]
    feed();
}

// ---- sends ----

bool frame_port::has_entry() noexcept {
  if (free_entries_ != nullptr) [[likely]]
    return true;
  const auto have = static_cast<std::uint32_t>(entries_.size());
  try {
    if (have < promised_sends_) grow_entries(have + 1);
  } catch (const std::bad_alloc&) {
    starved_ = true;
  }
  return free_entries_ != nullptr;
}

frame_entry& frame_port::take_entry(peer_core& peer, frame_entry::use what,
                                    rail_core* over) noexcept {
  frame_entry& e = *free_entries_;
  free_entries_ = e.next_free;
  e.what = what;
  e.peer = &peer;
  e.over = over;
  (over == nullptr ? peer.places() : over->places()).take();
  return e;
}

void frame_port::release(frame_entry& e) noexcept {
  for (std::uint8_t i = 0; i < e.pinned; ++i) detail::release(*e.pins[i]);
  e.pinned = 0;
  e.op = nullptr;
  e.reads_for = nullptr;
  e.part_of = nullptr;
  e.what = frame_entry::use::free;
  (e.over == nullptr ? e.peer->places() : e.over->places()).give_back();
  e.next_free = std::exchange(free_entries_, &e);
}

void frame_port::on_sent(frame_entry& e, const transport::completion& c) noexcept {
  peer_core& peer = *e.peer;
  peer.endpoint().on_frame_done();
  peer.on_sent(e, c);
  peer.pump();
  if (!std::exchange(starved_, false)) return;
  peers_.for_each([](peer_core& each) { each.pump(); });
}

void frame_port::flush(peer_core& peer, const rail_core* only) noexcept {
  transport::completion flushed;
  flushed.status = transport::wc_status::wr_flush_err;
  // There may be more entries afterwards: other peers continue.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    frame_entry& e = *entries_[i];
    if (e.what == frame_entry::use::free || e.peer != &peer) continue;
    CORDMA_ASSERT_OP(peer.endpoint().frames_in_flight(), >, 0U);
    if (only == nullptr || e.over == only) on_sent(e, flushed);
  }
}

}  // namespace cordma::detail
