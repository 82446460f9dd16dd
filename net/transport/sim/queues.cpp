#include <cordma/net/transport/sim/queues.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {
namespace {

// Visits the pieces of the list that contain bytes offset ... offset + n.
template <class Visit>
void each_piece(std::span<const segment> list, std::uint64_t offset, std::size_t n,
                Visit visit) noexcept {
  for (const segment& s : list) {
    if (n == 0) return;
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(n, s.length - offset);
    visit(s.addr + offset, piece);
    n -= piece;
    offset = 0;
  }
  CORDMA_ASSERT_OP(n, ==, 0U);
}

}  // namespace

void gather(std::span<const segment> from, std::uint64_t offset, std::byte* to,
            std::size_t n) noexcept {
  each_piece(from, offset, n, [&to](const std::byte* piece, std::size_t length) {
    std::memcpy(to, piece, length);
    to += length;
  });
}

void scatter(std::span<const segment> to, std::uint64_t offset, const std::byte* from,
             std::size_t n) noexcept {
  each_piece(to, offset, n, [&from](std::byte* piece, std::size_t length) {
    std::memcpy(piece, from, length);
    from += length;
  });
}

bool covered(const region_table& regions, std::span<const segment> list, access right) noexcept {
  for (const segment& s : list) {
    if (s.length == 0) continue;
    const memory_range* const r = regions.local(s.lkey);
    if (r == nullptr || !has(r->rights, right)) return false;
    const auto start = reinterpret_cast<std::uintptr_t>(r->addr);
    const auto at = reinterpret_cast<std::uintptr_t>(s.addr);
    if (at < start || s.length > r->length || at - start > r->length - s.length) return false;
  }
  return true;
}

send_queue::send_queue(const queue_pair_options& o)
    : depth_(o.send_depth),
      most_puts_(o.type == service::rc ? room_for_puts : 0),
      max_segments_(std::max<std::size_t>(o.max_segments, 1)),
      max_inline_(o.inline_bytes),
      ring_(depth_ + most_puts_),
      segments_(ring_.size() * max_segments_),
      inline_bytes_(ring_.size() * max_inline_) {
  CORDMA_REQUIRE_OP(o.send_depth, >, 0U);
}

send_entry& send_queue::next() noexcept {
  CORDMA_ASSERT_OP(posted_ - completed_, <, ring_.size());
  send_entry& e = at(posted_);
  e = send_entry{};
  return e;
}

send_entry& send_queue::push(const send_request& r) noexcept {
  CORDMA_REQUIRE_OP(requests(), <, depth_);
  CORDMA_REQUIRE_OP(r.segment_count, <=, max_segments_);
  const std::size_t place = posted_ % ring_.size();
  send_entry& e = next();
  e.request = r;
  segment* const copy = segments_.data() + place * max_segments_;
  std::copy_n(r.segments, r.segment_count, copy);
  e.segments = {copy, r.segment_count};
  for (const segment& s : e.segments) e.length += s.length;
  if (r.to != nullptr) e.to = *r.to;
  if ((r.flags & post_flag::inline_data) != 0 && e.length != 0) {
    CORDMA_REQUIRE_OP(e.length, <=, max_inline_);
    std::byte* const held = inline_bytes_.data() + place * max_inline_;
    gather(e.segments, 0, held, e.length);
    copy[0] = {held, static_cast<std::uint32_t>(e.length), 0};
    e.segments = {copy, 1};
  }
  ++posted_;
  return e;
}

send_entry& send_queue::put(packet& copy) noexcept {
  CORDMA_REQUIRE(has_room_for_put());
  segment& whole = segments_[posted_ % ring_.size() * max_segments_];
  whole = {copy.payload, copy.length, 0};
  send_entry& e = next();
  e.request.flags = post_flag::inline_data;
  e.request.segment_count = 1;
  e.segments = {&whole, 1};
  e.length = copy.length;
  e.copy = &copy;
  ++puts_;
  ++posted_;
  return e;
}

recv_queue::recv_queue(std::uint32_t depth, std::uint32_t max_segments)
    : ring_(depth), segments_(std::size_t{depth} * max_segments), max_segments_(max_segments) {
  CORDMA_REQUIRE_OP(depth, >, 0U);
}

void recv_queue::push(const recv_request& r) noexcept {
  CORDMA_REQUIRE_OP(posted_ - completed_, <, ring_.size());
  CORDMA_REQUIRE_OP(r.segment_count, <=, max_segments_);
  const std::size_t place = posted_ % ring_.size();
  recv_entry& e = ring_[place];
  e = {.id = r.id, .from = r.from, .segments = {}, .capacity = 0};
  segment* const copy = segments_.data() + place * max_segments_;
  std::copy_n(r.segments, r.segment_count, copy);
  e.segments = {copy, r.segment_count};
  for (const segment& s : e.segments) e.capacity += s.length;
  ++posted_;
}

}  // namespace cordma::transport::sim
