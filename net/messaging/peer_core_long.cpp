// Rendezvous messages: announced, and read by the receiver once they are matched
// (peer_core_rails.cpp). Messages in memory that the peer may not read are written to the peer, or
// sent in pieces.
#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::detail {

using protocol::frame_kind;
using protocol::offer_outcome;
using transport::wc_status;

namespace {

// Limits the number of devices with keys: an offer is in one entry, behind a head and the header of
// its message.
std::uint16_t keys_that_fit(std::size_t parts, std::size_t header, std::size_t devices) noexcept {
  std::size_t keys = devices;
  const std::size_t room = frame_entry::bytes - protocol::head_bytes - header;
  while (keys > 1 && protocol::bytes_of_offer(parts, keys) > room) --keys;
  return static_cast<std::uint16_t>(keys);
}

bool is_host(std::span<const Slice> slices) noexcept {
  return std::ranges::all_of(slices, [](const Slice& s) { return s.kind() == memory_kind::host; });
}

// Limit of part frames in flight to a fetch. They take no credit; each is copied and released at
// once.
constexpr std::uint64_t parts_ahead = 16;

}  // namespace

// ---- announced by this side ----

// Whether the peer can read the message.
bool peer_core::readable(const message_send& op) const noexcept {
  if (!has(endpoint_->granted().remote_access, access::remote_read)) return false;
  const auto slices = op.slices();
  return std::ranges::all_of(slices, [this](const Slice& s) {
    const region_core& region = *s.region();
    return has(region.range.rights, access::remote_read) && region.keys[port_->kind()].rkey != 0;
  });
}

void peer_core::post_offer(message_send& op) noexcept {
  CORDMA_ASSERT_OP(offers_.count(), <, theirs_->offers);
  open_offer* const o = offers_.open(op, op.total_);
  if (o == nullptr) return op.fail(errc::no_memory);
  op.offer_ = offer_table::place_of(*o);
  protocol::offer what{.total = op.total_, .number = o->number(), .parts = 0};
  if (readable(op)) {
    what.keys = keys_that_fit(op.count_, op.header_.size(), agreed_.devices);
    for (; what.parts < op.count_; ++what.parts) {
      const Slice& s = op.slices_[what.parts];
      protocol::offer_part& part = what.part[what.parts];
      part = {.addr = reinterpret_cast<std::uintptr_t>(s.data()), .bytes = s.size()};
      for (std::size_t k = 0; k < what.keys; ++k) {
        part.rkeys[k] = s.region()->keys[port_->devices()[k].place].rkey;
      }
    }
  } else {
    const bool all_host = is_host(op.slices());
    CORDMA_ASSERT(all_host);
    o->send(op.slices());
  }
  credits_->take();
  op.set_phase(operation_base::phase::posted);
  frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
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
  open_offer* const o = offers_.find(number);
  if (o == nullptr || !o->is_sent()) return fail(breach("it wants what was not announced"));
  if (!o->want(want)) return fail(breach("it wants what cannot be"));
  if (!o->linked()) offers_.wanted().push_back(*o);
  puts_ = false;
}

// Sends the requested bytes of the offer while there are queue entries.
void peer_core::send_on(open_offer& o) noexcept {
  const protocol::want to = o.wanted();
  const bool written = to.rkey != 0;
  while (!o.is_up_to_date() && has_place()) {
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::part);
    entry.part_of = &o;
    std::array<Slice, most_message_slices> pieces;
    const std::uint64_t before = o.sent();
    const std::uint64_t most = written ? std::min(longest_request, endpoint_->caps().max_message)
                                       : std::uint64_t{theirs_->eager_bytes} - protocol::head_bytes;
    const auto behind = std::span<const Slice>(pieces).first(o.take(most, pieces));
    if (written) {
      post_write(entry, behind, to.addr + before, to.rkey);
    } else {
      const auto body = static_cast<std::uint32_t>(o.sent() - before);
      post_frame(entry, {.kind = frame_kind::part, .body = body, .word = o.number()}, behind);
    }
  }
  if (!o.is_up_to_date() || (written && !has_place())) return;
  o.unlink();
  if (!written) return;
  frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
  post_frame(entry, {.kind = frame_kind::wrote, .word = o.number()});
}

void peer_core::post_write(frame_entry& entry, std::span<const Slice> from, std::uint64_t addr,
                           std::uint64_t rkey) noexcept {
  std::array<transport::segment, most_message_slices> segments;
  for (std::size_t i = 0; i < from.size(); ++i) {
    segments[i] = {from[i].data(), static_cast<std::uint32_t>(from[i].size()),
                   from[i].region()->keys[port_->kind()].lkey};
  }
  transport::send_request request{.op = transport::opcode::write,
                                  .segment_count = static_cast<std::uint16_t>(from.size()),
                                  .segments = segments.data(),
                                  .remote_addr = addr,
                                  .rkey = rkey};
  post(entry, request);
}

// Ends the offer with the peer's answer, or with the connection. Its memory is in use until nothing
// of it is in flight.
void peer_core::end_offer(open_offer& o) noexcept {
  if (!o.is_over()) return;
  const bool is_answered = o.is_answered();
  message_send* const op = o.end();
  offers_.close();
  if (op == nullptr) return;
  op->offer_ = message_send::nowhere;
  if (!is_answered) return op->fail(endpoint_->flushed(op->op_name()));
  switch (o.outcome()) {
    case offer_outcome::taken: return op->succeed();
    case offer_outcome::truncated:
      return op->fail({errc::truncated, "the peer's receive was shorter"});
    case offer_outcome::refused: return op->fail({errc::rejected, "nobody wants it at the peer"});
    case offer_outcome::failed: return op->fail({errc::io_failed, "the peer could not read it"});
  }
}

void peer_core::on_done(protocol::done_word word) noexcept {
  open_offer* const o = offers_.find(word.offer);
  if (o == nullptr) return fail(breach("an answer to a message that was not announced"));
  o->answer(word.outcome);
  end_offer(*o);
  pump();
}

void peer_core::cut_offers() noexcept {
  offers_.for_each_open([this](open_offer& o) {
    o.cut();
    end_offer(o);
  });
}

// ---- announced by the peer ----

void peer_core::say_done(std::uint32_t offer, offer_outcome outcome) noexcept {
  answers_.add({.offer = offer, .outcome = outcome});
  pump();
}

void peer_core::refuse(message_segment& s) noexcept {
  say_done(s.what.number, offer_outcome::refused);
}

void peer_core::start_fetch(message_segment& s, message_receive& op) noexcept {
  if (endpoint_->state() == endpoint_state::closed) return op.fail(endpoint_->flushed("tag_recv"));
  fetch* const f = port_->core().take_fetch();
  if (f == nullptr) {
    say_done(s.what.number, offer_outcome::failed);
    return op.fail(errc::no_memory);
  }
  CORDMA_ASSERT(op.fetch_ == nullptr);
  f->begin(*this, op, s.what, s.head.word, op.into_);
  if (s.what.parts != 0) {
    f->go_by(fetch::by::reads);
    plan(*f);
  } else if (f->wanted() != 0 && writable(f->into())) {
    f->go_by(fetch::by::writes);
  } else {
    f->go_by(fetch::by::parts);
    CORDMA_ASSERT(f->wanted() == 0 || f->into().kind() == memory_kind::host);
  }
  op.fetch_ = f;
  op.set_phase(operation_base::phase::posted);
  fetches_.push_back(*f);
  go_on(*f);
}

bool peer_core::writable(const Slice& into) const noexcept {
  const region_core& region = *into.region();
  return has(endpoint_->granted().remote_access, access::remote_write) &&
         has(region.range.rights, access::remote_write) && region.keys[port_->kind()].rkey != 0 &&
         !endpoint_->caps().remote_access_is_copy;
}

void peer_core::go_on(fetch& f) noexcept {
  if (f.way() == fetch::by::reads) {
    f.read_all([&](std::uint8_t index) { read_piece(f, index); });
  } else {
    ask_on(f);
  }
}

void peer_core::ask_on(fetch& f) noexcept {
  const bool written = f.way() == fetch::by::writes;
  const std::uint64_t upto =
      f.due(written ? f.wanted() : parts_ahead * (port_->eager_bytes() - protocol::head_bytes));
  if (upto != 0 && endpoint_->pair() != nullptr && has_place()) {
    protocol::want want{.bytes = upto};
    if (written) {
      want.addr = reinterpret_cast<std::uintptr_t>(f.into().data());
      want.rkey = f.into().region()->keys[port_->kind()].rkey;
    }
    f.ask(upto);
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
    protocol::encode(want, std::span<std::byte, protocol::want_bytes>(
                               entry.data + protocol::head_bytes, protocol::want_bytes));
    post_frame(entry,
               {.kind = frame_kind::want, .body = protocol::want_bytes, .word = f.from().number});
  }
  f.settle();
}

fetch* peer_core::fetch_of(std::uint32_t number, fetch::by way) noexcept {
  return fetches_.find([&](const fetch& each) { return each.is(number, way); });
}

void peer_core::on_part(std::uint32_t number, std::span<const std::byte> bytes) noexcept {
  fetch* const f = fetch_of(number, fetch::by::parts);
  if (f == nullptr || !f->take_part(bytes)) {
    return fail(breach("bytes of a message that nobody asked for"));
  }
  go_on(*f);
}

void peer_core::on_wrote(std::uint32_t number) noexcept {
  fetch* const f = fetch_of(number, fetch::by::writes);
  if (f == nullptr || !f->take_written()) return fail(breach("it wrote what nobody asked for"));
  f->settle();
}

}  // namespace cordma::detail
