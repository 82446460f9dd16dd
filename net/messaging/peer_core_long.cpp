// Long messages: announced, and once they are wanted read by their receiver (rails.cpp); those that lie in memory which the
// peer may not read are written there, or sent piece by piece.
#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::detail {

using protocol::frame_kind;
using protocol::offer_outcome;
using transport::wc_status;

namespace {

constexpr unsigned index_bits = 10;  // of an offer's number; the others count
constexpr std::uint32_t offer_index = (1U << index_bits) - 1;
static_assert(protocol::most_offers <= offer_index + 1);

// Of so many devices at most: an offer goes in one entry, behind a head and the header of its message.
std::uint16_t keys_that_fit(std::size_t parts, std::size_t header, std::size_t devices) noexcept {
  std::size_t keys = devices;
  const std::size_t room = frame_entry::bytes - protocol::head_bytes - header;
  while (keys > 1 && protocol::bytes_of_offer(parts, keys) > room) --keys;
  return static_cast<std::uint16_t>(keys);
}

bool is_host(std::span<const Slice> slices) noexcept {
  return std::ranges::all_of(slices, [](const Slice& s) { return s.kind() == memory_kind::host; });
}

// Frames that may be on their way to a fetch. They take no credit; each is copied and let go at once.
constexpr std::uint64_t parts_ahead = 16;

}  // namespace

// ---- announced ----

// Whether the peer can read it.
bool peer_core::readable(const message_send& op) const noexcept {
  if (!has(endpoint->granted.remote_access, access::remote_read)) return false;
  const auto slices = op.slices();
  return std::ranges::all_of(slices, [this](const Slice& s) {
    const region_core& region = *s.region();
    return has(region.range.rights, access::remote_read) && region.keys[port->kind].rkey != 0;
  });
}

open_offer* peer_core::take_offer(message_send& op) noexcept {
  auto free = std::ranges::find_if(offers, [](const auto& o) { return !o->open; });
  if (free == offers.end()) {
    try {
      offers.push_back(std::make_unique<open_offer>());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    free = offers.end() - 1;
  }
  CORDMA_ASSERT_OP(open_offers, <, theirs->offers);
  CORDMA_ASSERT_OP(free - offers.begin(), <=, offer_index);
  open_offer& o = **free;
  CORDMA_ASSERT_OP(o.in_flight, ==, 0U);
  o = open_offer{};
  o.number = next_offer++ << index_bits | static_cast<std::uint32_t>(free - offers.begin());
  o.open = true;
  o.op = &op;
  o.total = op.total_;
  op.offer_ = o.number & offer_index;
  ++open_offers;
  return &o;
}

open_offer* peer_core::offer_of(std::uint32_t number) noexcept {
  const std::uint32_t index = number & offer_index;
  if (index >= offers.size()) return nullptr;
  open_offer& o = *offers[index];
  return o.open && o.number == number && !o.answer ? &o : nullptr;
}

void peer_core::post_offer(message_send& op) noexcept {
  open_offer* const o = take_offer(op);
  if (o == nullptr) return op.fail(errc::no_memory);
  protocol::offer what{.total = op.total_, .number = o->number, .parts = 0};
  if (readable(op)) {
    what.keys = keys_that_fit(op.count_, op.header_.size(), agreed.devices);
    for (; what.parts < op.count_; ++what.parts) {
      const Slice& s = op.slices_[what.parts];
      protocol::offer_part& part = what.part[what.parts];
      part = {.addr = reinterpret_cast<std::uintptr_t>(s.data()), .bytes = s.size()};
      for (std::size_t k = 0; k < what.keys; ++k) {
        part.rkeys[k] = s.region()->keys[port->devices[k].place].rkey;
      }
    }
  } else {
    const bool all_host = is_host(op.slices());
    CORDMA_ASSERT(all_host);
    o->sends = op.count_;
    std::ranges::copy(op.slices(), o->slices.begin());
  }
  credits->take();
  op.set_phase(operation_base::phase::posted);
  frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
  const std::size_t bytes = protocol::bytes_of(what);
  protocol::encode(what, {entry.data + protocol::head_bytes, bytes});
  std::size_t in_entry = protocol::head_bytes + bytes;
  if (!op.header_.empty()) {
    std::memcpy(entry.data + in_entry, op.header_.data(), op.header_.size());
    in_entry += op.header_.size();
  }
  CORDMA_ASSERT_OP(in_entry, <=, frame_entry::bytes);
  const frame_kind kind =
      op.eager_ == frame_kind::tag_eager ? frame_kind::tag_ready : frame_kind::am_ready;
  const auto body = static_cast<std::uint32_t>(in_entry - protocol::head_bytes);
  post_frame(entry, {.kind = kind, .body = body, .word = op.word_});
}

void peer_core::on_want(std::uint32_t number, const protocol::want& want) noexcept {
  open_offer* const o = offer_of(number);
  if (o == nullptr || o->sends == 0) return fail(breach("it wants what was not announced"));
  const bool same =
      o->wanted.bytes == 0 || (o->wanted.addr == want.addr && o->wanted.rkey == want.rkey);
  if (!same || want.bytes <= o->wanted.bytes || want.bytes > o->total) {
    return fail(breach("it wants what cannot be"));
  }
  o->wanted = want;
  if (!o->linked()) sending.push_back(*o);
  puts = false;
}

// What is wanted of it, as far as there is room.
void peer_core::send_on(open_offer& o) noexcept {
  const bool written = o.wanted.rkey != 0;
  CORDMA_ASSERT_OP(o.sent, <=, o.wanted.bytes);
  CORDMA_ASSERT_OP(o.wanted.bytes, <=, o.total);
  while (o.sent != o.wanted.bytes && has_place()) {
    frame_entry& entry = port->take_entry(*this, frame_entry::use::part);
    entry.part_of = &o;
    ++o.in_flight;
    std::array<Slice, most_message_slices> pieces;
    const std::uint64_t before = o.sent;
    const std::uint64_t most = written ? std::min(longest_request, endpoint->caps->max_message)
                                       : std::uint64_t{theirs->eager_bytes} - protocol::head_bytes;
    const std::size_t count = o.take(std::min(most, o.wanted.bytes - o.sent), pieces);
    const auto behind = std::span<const Slice>(pieces).first(count);
    if (written) {
      post_write(entry, behind, o.wanted.addr + before, o.wanted.rkey);
    } else {
      const auto body = static_cast<std::uint32_t>(o.sent - before);
      post_frame(entry, {.kind = frame_kind::part, .body = body, .word = o.number}, behind);
    }
  }
  if (o.sent != o.wanted.bytes || (written && !has_place())) return;
  o.unlink();
  if (!written) return;
  frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
  post_frame(entry, {.kind = frame_kind::wrote, .word = o.number});
}

void peer_core::post_write(frame_entry& entry, std::span<const Slice> from, std::uint64_t addr,
                           std::uint64_t rkey) noexcept {
  std::array<transport::segment, most_message_slices> segments;
  for (std::size_t i = 0; i < from.size(); ++i) {
    segments[i] = {from[i].data(), static_cast<std::uint32_t>(from[i].size()),
                   from[i].region()->keys[port->kind].lkey};
  }
  transport::send_request request{.op = transport::opcode::write,
                                  .segment_count = static_cast<std::uint16_t>(from.size()),
                                  .segments = segments.data(),
                                  .remote_addr = addr,
                                  .rkey = rkey};
  post(entry, request);
}

// A piece of it is no longer in flight.
void peer_core::part_sent(open_offer& o) noexcept {
  CORDMA_ASSERT_OP(o.in_flight, >, 0U);
  --o.in_flight;
  end_offer(o);
}

// With the peer's answer, or the connection; its memory is in use until nothing of it is in flight.
void peer_core::end_offer(open_offer& o) noexcept {
  if (o.in_flight != 0 || (!o.answer && !o.cut)) return;
  CORDMA_ASSERT(o.open && !o.linked());
  CORDMA_ASSERT_OP(open_offers, >, 0U);
  CORDMA_ASSERT_OP(o.pinned, <=, o.pins.size());
  o.open = false;
  --open_offers;
  for (std::uint8_t i = 0; i < o.pinned; ++i) release(*o.pins[i]);
  message_send* const op = std::exchange(o.op, nullptr);
  if (op == nullptr) return;
  op->offer_ = message_send::nowhere;
  if (!o.answer) return op->fail(endpoint->flushed(op->op_name()));
  switch (*o.answer) {
    case offer_outcome::taken: return op->succeed();
    case offer_outcome::truncated:
      return op->fail({errc::truncated, "the peer's receive was shorter"});
    case offer_outcome::refused: return op->fail({errc::rejected, "nobody wants it at the peer"});
    case offer_outcome::failed: return op->fail({errc::io_failed, "the peer could not read it"});
  }
}

void peer_core::on_done(protocol::done_word word) noexcept {
  open_offer* const o = offer_of(word.offer);
  if (o == nullptr) return fail(breach("an answer to a message that was not announced"));
  o->answer = word.outcome;
  o->unlink();
  end_offer(*o);
  pump();
}

void peer_core::cut_offers() noexcept {
  for (const std::unique_ptr<open_offer>& o : offers) {
    if (!o->open) continue;
    o->cut = true;
    o->unlink();
    end_offer(*o);
  }
}

// ---- wanted ----

void peer_core::say_done(std::uint32_t offer, offer_outcome outcome) noexcept {
  CORDMA_ASSERT_OP(dones.size(), <, announced);
  CORDMA_ASSERT_OP(dones.size(), <, dones.capacity());
  dones.push_back({.offer = offer, .outcome = outcome});
  pump();
}

void peer_core::refuse(message_segment& s) noexcept {
  say_done(s.what.number, offer_outcome::refused);
}

void peer_core::start_fetch(message_segment& s, message_receive& op) noexcept {
  if (endpoint->state == endpoint_state::closed) return op.fail(endpoint->flushed("tag_recv"));
  fetch* const f = port->core->take_fetch();
  if (f == nullptr) {
    say_done(s.what.number, offer_outcome::failed);
    return op.fail(errc::no_memory);
  }
  CORDMA_ASSERT(!f->linked() && op.fetch_ == nullptr);
  CORDMA_ASSERT_OP(f->reads, ==, 0U);
  f->peer = this;
  f->op = &op;
  f->from = s.what;
  f->tag = s.head.word;
  f->into = op.into_;
  f->wanted = std::min<std::uint64_t>(s.what.total, op.into_.size());
  f->way = s.what.parts != 0                     ? fetch::by::reads
           : f->wanted != 0 && writable(f->into) ? fetch::by::writes
                                                 : fetch::by::parts;
  if (f->way == fetch::by::reads) plan(*f);
  const bool by_cpu = f->way == fetch::by::parts && f->wanted != 0;
  CORDMA_ASSERT(!by_cpu || f->into.kind() == memory_kind::host);
  op.fetch_ = f;
  op.set_phase(operation_base::phase::posted);
  fetches.push_back(*f);
  go_on(*f);
}

bool peer_core::writable(const Slice& into) const noexcept {
  const region_core& region = *into.region();
  return has(endpoint->granted.remote_access, access::remote_write) &&
         has(region.range.rights, access::remote_write) && region.keys[port->kind].rkey != 0 &&
         !endpoint->caps->remote_access_is_copy;
}

void peer_core::go_on(fetch& f) noexcept {
  if (f.way == fetch::by::reads) {
    read_on(f);
  } else {
    ask_on(f);
  }
}

// Asks for more of it when half of what may be on its way has come.
void peer_core::ask_on(fetch& f) noexcept {
  CORDMA_ASSERT_OP(f.got, <=, f.asked);
  CORDMA_ASSERT_OP(f.asked, <=, f.wanted);
  const bool written = f.way == fetch::by::writes;
  const std::uint64_t ahead =
      written ? f.wanted : parts_ahead * (port->eager_bytes - protocol::head_bytes);
  const std::uint64_t upto = std::min(f.wanted, f.got + ahead);
  const bool due = f.asked < upto && (upto == f.wanted || upto - f.asked >= ahead / 2);
  if (due && !f.broken && endpoint->pair != nullptr && has_place()) {
    protocol::want want{.bytes = upto};
    if (written) {
      want.addr = reinterpret_cast<std::uintptr_t>(f.into.data());
      want.rkey = f.into.region()->keys[port->kind].rkey;
    }
    f.asked = upto;
    frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
    protocol::encode(want, std::span<std::byte, protocol::want_bytes>(
                               entry.data + protocol::head_bytes, protocol::want_bytes));
    post_frame(entry,
               {.kind = frame_kind::want, .body = protocol::want_bytes, .word = f.from.number});
  }
  f.settle();
}

void peer_core::on_part(std::uint32_t number, std::span<const std::byte> bytes) noexcept {
  fetch* const f = fetches.find([number](const fetch& each) {
    return each.from.number == number && each.way == fetch::by::parts;
  });
  if (f == nullptr || bytes.empty() || f->asked - f->got < bytes.size()) {
    return fail(breach("bytes of a message that nobody asked for"));
  }
  CORDMA_ASSERT_OP(f->got + bytes.size(), <=, f->into.size());
  std::memcpy(f->into.data() + f->got, bytes.data(), bytes.size());
  f->got += bytes.size();
  go_on(*f);
}

void peer_core::on_wrote(std::uint32_t number) noexcept {
  fetch* const f = fetches.find([number](const fetch& each) {
    return each.from.number == number && each.way == fetch::by::writes;
  });
  if (f == nullptr || f->asked != f->wanted) {
    return fail(breach("it wrote what nobody asked for"));
  }
  f->got = f->wanted;
  f->settle();
}

}  // namespace cordma::detail
