// Frames over one transport: the segments that they come in, and the requests that they go out by.
#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {
namespace {

// Of segments that are posted, or there before they are needed: so many, and so many bytes.
constexpr std::uint32_t most_posted = 1024;
constexpr std::uint32_t least_posted = 64;
constexpr std::uint32_t posted_bytes = 8U << 20;
// Where messages lie in the transport, but for those that need a receive.
constexpr std::uint32_t posted_in_place = 32;
constexpr std::uint32_t least_chunk = 64;
// Segments beyond those that peers may have messages in: for frames that are looked at and let go, and for those that are
// posted.
constexpr std::uint32_t spare_segments = 64;
static_assert(posted_in_place < spare_segments);
constexpr std::uint32_t first_entries = 1024;  // more of them only when they are used

}  // namespace

frame_port::frame_port(message_core& of, worker_core& at, adapter_poller& over)
    : core(&of), worker(&at), via(&over), eager_bytes(of.options.eager_bytes) {
  if (eager_bytes == 0) eager_bytes = over.domain().caps().eager_bytes;
  CORDMA_ASSERT_OP(eager_bytes, >=, protocol::least_eager_bytes);
  at_once = may_post = std::clamp(posted_bytes / eager_bytes, least_posted, most_posted);
  kind = static_cast<std::size_t>(over.domain().caps().transport);
  devices.push_back({.via = &over, .place = kind});
  std::size_t place = transport::kind_count;
  for (const std::unique_ptr<adapter_poller>& a : at.rail_adapters()) {
    const bool same = a->domain().caps().transport == over.domain().caps().transport;
    if (same) devices.push_back({.via = a.get(), .place = place});
    ++place;
  }
}

result<void> frame_port::make() {
  const transport::capabilities& caps = via->domain().caps();
  if (caps.in_place) may_post = std::min(may_post, posted_in_place);
  const std::uint32_t depth = std::min(may_post, caps.max_shared_depth);
  result<std::unique_ptr<transport::receive_queue>> made =
      via->adapter().make_receive_queue(depth, 1);
  if (!made) return made.why();
  queue = std::move(*made);
  may_post = std::min(may_post, queue->depth());
  CORDMA_ASSERT_OP(may_post, >, 0U);
  queue->set_user(static_cast<completion_sink*>(this));
  worker->add(*this);
  grow_segments(spare_segments);
  feed();
  return {};
}

frame_port::~frame_port() {
  const failure gone{errc::shutdown, "its Messages are gone"};
  if (worker != nullptr && queue != nullptr) {
    worker->end_users_of(*queue, gone);
    via->drop(queue);
    worker->remove(*this);
  }
  for (const frame_entry* const e : entries) CORDMA_ASSERT(e->what == frame_entry::use::free);
  peers.for_each([this](peer_core& p) {
    CORDMA_ASSERT(p.port == this);
    CORDMA_ASSERT_OP(p.free_sends, ==, p.sends);
    p.unlink();
    p.on_port_gone();
  });
}

void frame_port::on_worker_gone() noexcept {
  worker = nullptr;
  if (queue != nullptr) via->drop(queue);
  core->on_worker_gone();
}

void frame_port::on_joined(endpoint_core& endpoint) {
  auto made = std::make_unique<peer_core>(endpoint, *this);
  endpoint.frame_sends = made->sends;
  endpoint.peer = std::move(made);
}

// ---- memory ----

void frame_port::promise(std::uint32_t for_segments, std::uint32_t for_sends) {
  grow_segments(std::min(promised_segments + for_segments, at_once) + spare_segments);
  feed();
  grow_entries(std::min(promised_sends + for_sends, first_entries));
  promised_segments += for_segments;
  promised_sends += for_sends;
}

void frame_port::unpromise(std::uint32_t for_segments, std::uint32_t for_sends) noexcept {
  CORDMA_ASSERT_OP(promised_segments, >=, for_segments);
  CORDMA_ASSERT_OP(promised_sends, >=, for_sends);
  promised_segments -= for_segments;
  promised_sends -= for_sends;
}

// Twice as many each time: few regions, however many peers.
void frame_port::grow_segments(std::uint32_t to) {
  const auto have = static_cast<std::uint32_t>(segments.size());
  if (to <= have) return;
  const std::uint32_t more = std::max({to - have, have, least_chunk});
  CORDMA_ASSERT_OP(std::uint64_t{have} + more, <, is_send);
  const std::uint32_t each = eager_bytes;
  result<MemoryRegion> region =
      allocate(worker->shared_context(), std::size_t{more} * each, access::local_write);
  if (!region) throw std::bad_alloc();
  segments.reserve(have + more);
  segment_chunks.reserve(segment_chunks.size() + 1);
  memory.reserve(memory.size() + 1);
  auto chunk = std::make_unique<message_segment[]>(more);
  for (std::uint32_t i = more; i-- > 0;) {
    message_segment& s = chunk[i];
    s.port = this;
    s.room = {region->data() + std::size_t{i} * each, each,
              region->all().region()->keys[kind].lkey};
    s.index = have + i;
    s.next_free = std::exchange(free_segments, &s);
  }
  for (std::uint32_t i = 0; i < more; ++i) segments.push_back(&chunk[i]);
  CORDMA_ASSERT_OP(segments.back()->index, ==, segments.size() - 1);
  segment_chunks.push_back(std::move(chunk));
  memory.push_back(std::move(*region));
}

void frame_port::grow_entries(std::uint32_t to) {
  const auto have = static_cast<std::uint32_t>(entries.size());
  if (to <= have) return;
  const std::uint32_t more = std::max({to - have, have, least_chunk});
  CORDMA_ASSERT_OP(std::uint64_t{have} + more, <, is_send);
  result<MemoryRegion> region = allocate(
      worker->shared_context(), std::size_t{more} * frame_entry::bytes, access::local_write);
  if (!region) throw std::bad_alloc();
  entries.reserve(have + more);
  entry_chunks.reserve(entry_chunks.size() + 1);
  memory.reserve(memory.size() + 1);
  auto chunk = std::make_unique<frame_entry[]>(more);
  for (std::uint32_t i = more; i-- > 0;) {
    frame_entry& e = chunk[i];
    e.data = region->data() + std::size_t{i} * frame_entry::bytes;
    e.lkey = region->all().region()->keys[kind].lkey;
    e.index = have + i;
    e.next_free = std::exchange(free_entries, &e);
  }
  for (std::uint32_t i = 0; i < more; ++i) entries.push_back(&chunk[i]);
  CORDMA_ASSERT_OP(entries.back()->index, ==, entries.size() - 1);
  entry_chunks.push_back(std::move(chunk));
  memory.push_back(std::move(*region));
}

// ---- receives ----

void frame_port::feed() noexcept {
  if (queue == nullptr) return;
  if (free_segments == nullptr && posted < may_post / 2 && lacks_segments()) [[unlikely]]
    grow_by_need();
  while (free_segments != nullptr && posted < may_post) {
    message_segment& s = *free_segments;
    free_segments = s.next_free;
    ++posted;
    queue->post_recv({.id = id_of(s.index), .segment_count = 1, .segments = &s.room});
  }
}

message_segment* frame_port::take_segment() noexcept {
  if (free_segments == nullptr && lacks_segments()) [[unlikely]]
    grow_by_need();
  message_segment* const s = free_segments;
  if (s != nullptr) free_segments = s->next_free;
  return s;
}

// As many as were promised are not there yet, or peers that are gone left some behind.
bool frame_port::lacks_segments() const noexcept {
  return segments.size() < promised_segments + left + spare_segments;
}

// Without memory for more, peers wait until some are let go.
void frame_port::grow_by_need() noexcept {
  const auto have = static_cast<std::uint32_t>(segments.size());
  CORDMA_ASSERT_OP(posted, <=, have);
  CORDMA_ASSERT_OP(left, <=, have);
  try {
    grow_segments(have + 1);
  } catch (const std::bad_alloc&) {}
}

void frame_port::release(message_segment& s) noexcept {
  s.unlink();
  s.from = nullptr;
  s.taken = false;
  if (std::exchange(s.left, false)) --left;
  s.header_bytes = 0;
  s.waiting.reset();
  s.next_free = std::exchange(free_segments, &s);
  if (posted != may_post) feed();
}

void frame_port::let_go(message_segment& s) noexcept {
  if (s.from != nullptr) {
    s.from->let_go(s);
  } else {
    s.port->release(s);
  }
}

bool frame_port::on_completion(std::uint32_t index, const transport::completion& c) noexcept {
  if ((index & is_send) != 0) {
    const std::uint32_t at = index & ~is_send;
    if (at >= entries.size() || entries[at]->what == frame_entry::use::free) return false;
    on_sent(*entries[at], c);
    return true;
  }
  if (index >= segments.size()) return false;
  on_received(*segments[index], c);
  return true;
}

void frame_port::on_received(message_segment& s, const transport::completion& c) noexcept {
  --posted;
  auto* const e = c.from != nullptr ? static_cast<endpoint_core*>(c.from->user()) : nullptr;
  const bool wanted = e != nullptr && !e->handle_gone && e->state != endpoint_state::closed;
  if (c.status != transport::wc_status::success || !wanted) {
    // Where the device refuses receives, the next one is tried when something else happens.
    if (c.status != transport::wc_status::general_err) return release(s);
    s.next_free = std::exchange(free_segments, &s);
    return;
  }
  ++e->counters.recvs;
  e->counters.bytes_received += c.byte_len;
  s.from = &peer_of(*e);
  s.from->on_frame(s, c.byte_len);
  // What is held is not posted again: there must be others for what comes, offers and credits among it.
  if (posted < may_post / 2) [[unlikely]]
    feed();
}

// ---- sends ----

bool frame_port::has_entry() noexcept {
  if (free_entries != nullptr) [[likely]]
    return true;
  const auto have = static_cast<std::uint32_t>(entries.size());
  try {
    if (have < promised_sends) grow_entries(have + 1);
  } catch (const std::bad_alloc&) {
    starved = true;
  }
  return free_entries != nullptr;
}

frame_entry& frame_port::take_entry(peer_core& peer, frame_entry::use what,
                                    rail_core* over) noexcept {
  frame_entry& e = *free_entries;
  free_entries = e.next_free;
  e.what = what;
  e.peer = &peer;
  e.over = over;
  --(over == nullptr ? peer.free_sends : over->free_sends);
  return e;
}

void frame_port::release(frame_entry& e) noexcept {
  for (std::uint8_t i = 0; i < e.pinned; ++i) detail::release(*e.pins[i]);
  e.pinned = 0;
  e.op = nullptr;
  e.reads_for = nullptr;
  e.part_of = nullptr;
  e.what = frame_entry::use::free;
  ++(e.over == nullptr ? e.peer->free_sends : e.over->free_sends);
  e.next_free = std::exchange(free_entries, &e);
}

void frame_port::on_sent(frame_entry& e, const transport::completion& c) noexcept {
  peer_core& peer = *e.peer;
  --peer.endpoint->frames_in_flight;
  peer.on_sent(e, c);
  peer.pump();
  if (!std::exchange(starved, false)) return;
  peers.for_each([](peer_core& each) { each.pump(); });
}

void frame_port::flush(peer_core& peer, const rail_core* only) noexcept {
  transport::completion flushed;
  flushed.status = transport::wc_status::wr_flush_err;
  // There may be more of them afterwards: others go on.
  for (std::size_t i = 0; i < entries.size(); ++i) {
    frame_entry& e = *entries[i];
    if (e.what == frame_entry::use::free || e.peer != &peer) continue;
    CORDMA_ASSERT_OP(peer.endpoint->frames_in_flight, >, 0U);
    if (only == nullptr || e.over == only) on_sent(e, flushed);
  }
}

}  // namespace cordma::detail
