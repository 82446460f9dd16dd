// One connection that carries frames: what goes out, what comes, and what of it waits.
#include <cordma/net/detail/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::detail {

using protocol::frame_head;
using protocol::frame_kind;
using protocol::offer_outcome;
using transport::wc_status;

namespace {

constexpr std::uint32_t most_offers = 64;    // announced by the peer, and not answered
constexpr std::uint32_t offer_index = 1023;  // bits of an offer's number; the others count
static_assert(protocol::most_offers <= offer_index + 1);
// Of one read: devices take less at a time than messages may be long.
constexpr std::uint64_t longest_read = 1U << 30;
constexpr std::uint32_t least_sends = 4;

failure broken(const char* what) {
  return {errc::connection_aborted,
          std::string("the peer broke the protocol of messages: ") + what};
}

}  // namespace

peer_core::peer_core(endpoint_core& of, frame_port& over)
    : endpoint(&of),
      port(&over),
      sends(std::max(of.granted.send_depth / 2, std::min(least_sends, of.granted.send_depth - 1))),
      free_sends(sends),
      window(static_cast<std::uint16_t>(over.core->options.credits)) {
  over.promise(over.core->options.credits, sends);
  dones.reserve(most_offers);
  over.peers.push_back(*this);
}

peer_core::~peer_core() {
  if (port != nullptr) port->unpromise(port->core->options.credits, sends);
}

Endpoint* peer_core::handle() const noexcept {
  return endpoint->handle_gone ? nullptr : endpoint->handle;
}

bool peer_core::idle() const noexcept {
  return waiting.empty() && open_offers == 0 && dones.empty() && fetches.empty();
}

// ---- what goes out ----

std::optional<failure> peer_core::obstacle(const message_send& op) const {
  const endpoint_core& e = *endpoint;
  if (std::optional<failure> ended = e.why_not(op.op_name())) return ended;
  if (port == nullptr) return failure{errc::shutdown, "its Messages are gone"};
  if (op.count_ + 1U > e.granted.max_segments) {
    return failure{errc::invalid_value, std::to_string(op.count_) +
                                            " slices, and a head: granted are " +
                                            std::to_string(e.granted.max_segments) + " in all"};
  }
  for (std::uint16_t i = 0; i < op.count_; ++i) {
    if (op.slices_[i].region()->context != e.context) {
      return failure{errc::invalid_value, "a slice belongs to another Context"};
    }
  }
  return {};
}

bool peer_core::is_long(const message_send& op) const noexcept {
  return op.announced_ ||
         protocol::head_bytes + op.header_.size() + op.total_ > theirs->eager_bytes;
}

bool peer_core::has_room(const message_send& op) const noexcept {
  return theirs && free_sends != 0 && credits->available() != 0 &&
         (!is_long(op) || open_offers < theirs->offers);
}

void peer_core::send(message_send& op) noexcept {
  if (std::optional<failure> why = obstacle(op)) return op.fail(std::move(*why));
  if (waiting.empty() && has_room(op)) [[likely]] {
    post(op);
  } else {
    ++endpoint->counters.waited;
    op.set_phase(operation_base::phase::queued);
    waiting.push_back(op);
  }
}

void peer_core::post(message_send& op) noexcept {
  if (is_long(op)) {
    post_offer(op);
  } else {
    post_eager(op);
  }
}

// Short: copied behind the head. Else gathered from where it is.
void peer_core::post_eager(message_send& op) noexcept {
  credits->take();
  frame_entry& entry = port->take_entry(*this, frame_entry::use::message);
  std::size_t in_entry = protocol::head_bytes;
  const auto append = [&](const std::byte* from, std::size_t bytes) {
    std::memcpy(entry.data + in_entry, from, bytes);
    in_entry += bytes;
  };
  if (!op.header_.empty()) append(op.header_.data(), op.header_.size());
  const bool is_short = in_entry + op.total_ <= frame_entry::bytes;
  if (is_short) {
    for (std::uint16_t i = 0; i < op.count_; ++i)
      append(op.slices_[i].data(), op.slices_[i].size());
  }
  entry.op = &op;
  op.entry_ = entry.index;
  op.set_phase(operation_base::phase::posted);
  const auto body = static_cast<std::uint32_t>(op.header_.size() + op.total_);
  const auto behind = std::span<const Slice>(op.slices_).first(is_short ? 0 : op.count_);
  post_frame(entry, {.kind = op.eager_, .body = body, .word = op.word_}, in_entry, behind);
}

peer_core::open_offer& peer_core::take_offer(message_send& op) noexcept {
  const auto free = std::ranges::find_if(offers, [](const open_offer& o) { return !o.open; });
  open_offer& o = *free;
  o.number = next_offer++ << 10 | static_cast<std::uint32_t>(free - offers.begin());
  o.open = true;
  o.op = &op;
  op.offer_ = o.number & offer_index;
  ++open_offers;
  return o;
}

void peer_core::post_offer(message_send& op) noexcept {
  for (std::uint16_t i = 0; i < op.count_; ++i) {
    const region_core& region = *op.slices_[i].region();
    if (has(region.range.rights, access::remote_read) && region.keys[port->kind].rkey != 0)
      continue;
    return op.fail({errc::invalid_value,
                    "a message of " + std::to_string(op.total_) +
                        " bytes is read by the peer: its memory needs access::remote_read"});
  }
  protocol::offer what{.total = op.total_, .parts = op.count_};
  for (std::uint16_t i = 0; i < op.count_; ++i) {
    const Slice& s = op.slices_[i];
    what.part[i] = {.addr = reinterpret_cast<std::uintptr_t>(s.data()),
                    .rkey = s.region()->keys[port->kind].rkey,
                    .bytes = s.size()};
  }
  credits->take();
  what.number = take_offer(op).number;
  op.set_phase(operation_base::phase::posted);
  frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
  const std::size_t bytes = protocol::bytes_of(what);
  protocol::encode(what, {entry.data + protocol::head_bytes, bytes});
  std::size_t in_entry = protocol::head_bytes + bytes;
  if (!op.header_.empty()) {
    std::memcpy(entry.data + in_entry, op.header_.data(), op.header_.size());
    in_entry += op.header_.size();
  }
  const frame_kind kind =
      op.eager_ == frame_kind::tag_eager ? frame_kind::tag_ready : frame_kind::am_ready;
  const auto body = static_cast<std::uint32_t>(in_entry - protocol::head_bytes);
  post_frame(entry, {.kind = kind, .body = body, .word = op.word_}, in_entry, {});
}

void peer_core::post_frame(frame_entry& entry, const frame_head& head, std::size_t in_entry,
                           std::span<const Slice> behind) noexcept {
  endpoint_core& e = *endpoint;
  frame_head h = head;
  h.given = window.say();
  protocol::encode(h, std::span<std::byte, protocol::head_bytes>(entry.data, protocol::head_bytes));
  std::array<transport::segment, most_segments> segments;
  segments[0] = {entry.data, static_cast<std::uint32_t>(in_entry), entry.lkey};
  std::uint16_t count = 1;
  for (const Slice& s : behind) {
    segments[count++] = {s.data(), static_cast<std::uint32_t>(s.size()),
                         s.region()->keys[port->kind].lkey};
  }
  ++e.counters.sends;
  e.counters.bytes_sent += protocol::head_bytes + head.body;
  transport::send_request request{.id = port->id_of(entry.index | frame_port::is_send),
                                  .op = transport::opcode::send,
                                  .segment_count = count,
                                  .segments = segments.data()};
  if (count == 1 && in_entry <= e.granted.inline_bytes) {
    request.flags |= transport::post_flag::inline_data;
  }
  if (e.batches != 0) {
    request.flags |= transport::post_flag::more;
    ++e.unrung;
  } else {
    ++e.counters.rings;
  }
  transport::completion now;
  if (e.pair->post_send(request, now) == transport::posted::done) {
    ++e.counters.immediate;
    on_sent(entry, now);
  } else {
    ++e.frames_in_flight;
  }
}

void peer_core::say_control() noexcept {
  if (!hello_said && free_sends != 0) {
    hello_said = true;
    frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
    protocol::encode(protocol::hello{.eager_bytes = port->core->options.eager_bytes,
                                     .credits = port->core->options.credits,
                                     .offers = most_offers},
                     std::span<std::byte, protocol::hello_bytes>(entry.data + protocol::head_bytes,
                                                                 protocol::hello_bytes));
    post_frame(
        entry,
        {.kind = frame_kind::hello, .body = protocol::hello_bytes, .word = protocol::frame_version},
        protocol::head_bytes + protocol::hello_bytes, {});
  }
  while (!dones.empty() && free_sends != 0) {
    const protocol::done_word word = dones.front();
    dones.erase(dones.begin());
    frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
    post_frame(entry, {.kind = frame_kind::done, .word = protocol::to_word(word)},
               protocol::head_bytes, {});
  }
  if (theirs && window.has_to_say() && free_sends != 0) {
    frame_entry& entry = port->take_entry(*this, frame_entry::use::control);
    post_frame(entry, {.kind = frame_kind::given}, protocol::head_bytes, {});
  }
}

void peer_core::pump() noexcept {
  endpoint_core& e = *endpoint;
  const bool open = e.state == endpoint_state::connected || e.state == endpoint_state::closing;
  if (!open || e.pair == nullptr || port == nullptr || std::exchange(pumping, true)) return;
  say_control();
  while (!waiting.empty() && has_room(waiting.front())) post(waiting.pop_front());
  fetches.for_each([this](fetch& f) {
    if (free_sends != 0) read_on(f);
  });
  say_control();
  pumping = false;
  if (e.state == endpoint_state::closing) e.begin_close();
}

void peer_core::on_connected() noexcept { pump(); }

void peer_core::on_sent(frame_entry& entry, const transport::completion& c) noexcept {
  message_send* const op = std::exchange(entry.op, nullptr);
  fetch* const reads_for = entry.reads_for;
  const frame_entry::use what = entry.what;
  port->release(entry);
  if (what == frame_entry::use::read) {
    --reads_for->reads;
    return reads_for->read_done(c);
  }
  if (op == nullptr) return;
  op->entry_ = message_send::nowhere;
  if (c.status == wc_status::success) return op->succeed();
  failure why = endpoint->flushed(op->op_name());
  if (c.status != wc_status::wr_flush_err) {
    why = failure(transport::to_errc(c.status));
    why.with_status(static_cast<std::uint16_t>(c.status), c.vendor_err);
  }
  op->fail(std::move(why));
}

// ---- what comes ----

void peer_core::fail(failure why) noexcept {
  endpoint_core& e = *endpoint;
  if (e.pair != nullptr) e.pair->abort();
  e.end(std::move(why));
}

void peer_core::let_go(message_segment& s) noexcept {
  port->release(s);
  window.give_back();
  if (window.has_to_say()) pump();
}

void peer_core::on_hello(const message_segment& s) noexcept {
  const result<protocol::hello> said = protocol::decode_hello(s.head, s.body());
  if (!said) return fail(said.why());
  try {
    offers.resize(said->offers);
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory);
  }
  theirs = *said;
  credits.emplace(static_cast<std::uint16_t>(said->credits));
}

void peer_core::on_frame(message_segment& s, std::uint32_t bytes) noexcept {
  const result<frame_head> head = protocol::decode_head({s.room, bytes});
  const auto refuse_all = [&](failure why) {
    port->release(s);
    fail(std::move(why));
  };
  if (!head) return refuse_all(head.why());
  s.head = *head;
  const frame_kind kind = head->kind;
  if ((kind == frame_kind::hello) == theirs.has_value()) {
    return refuse_all(broken(theirs ? "a second hello" : "its first frame is no hello"));
  }
  if (kind == frame_kind::hello) {
    on_hello(s);
    port->release(s);
    return pump();
  }
  if (!credits->on_given(head->given)) return refuse_all(broken("more receives than it has"));
  if (protocol::takes_credit(kind)) {
    if (!window.take()) return refuse_all(broken("a message that there was no credit for"));
    if (s.is_offer()) {
      const result<protocol::offer> what = protocol::decode_offer(s.body());
      if (!what) return refuse_all(what.why());
      s.what = *what;
    }
    held.push_back(s);
    if (kind == frame_kind::tag_eager || kind == frame_kind::tag_ready) {
      on_tagged(s);
    } else {
      on_active(s);
    }
  } else {
    const std::uint64_t word = head->word;
    port->release(s);
    if (kind == frame_kind::done) {
      const result<protocol::done_word> done = protocol::done_of(word);
      if (!done) return fail(done.why());
      on_done(*done);
    }
  }
  if (!waiting.empty() || window.has_to_say()) pump();
}

void peer_core::on_tagged(message_segment& s) noexcept {
  message_core& core = *port->core;
  protocol::tag_receive* const wanted = core.matcher.arrive(s.head.word, this);
  if (wanted == nullptr) {
    s.waiting.emplace(s.head.word, this, s);
    core.matcher.keep(*s.waiting);
    return;
  }
  core.hand_over(s, *static_cast<message_receive::place*>(wanted)->owner);
  port->release(s);
  window.give_back();
}

void peer_core::on_active(message_segment& s) noexcept {
  s.header_bytes = protocol::am_of(s.head.word).header;
  const std::size_t before = s.is_offer() ? protocol::bytes_of(s.what) : 0;
  if (before + s.header_bytes > s.head.body) {
    return fail(broken("a header longer than its message"));
  }
  port->core->run(s);
}

void peer_core::on_done(protocol::done_word word) noexcept {
  const std::uint32_t index = word.offer & offer_index;
  if (index >= offers.size() || !offers[index].open || offers[index].number != word.offer) {
    return fail(broken("an answer to a message that was not announced"));
  }
  open_offer& o = offers[index];
  o.open = false;
  --open_offers;
  for (std::uint8_t i = 0; i < o.pinned; ++i) release(*o.pins[i]);
  o.pinned = 0;
  message_send* const op = std::exchange(o.op, nullptr);
  if (op != nullptr) {
    op->offer_ = message_send::nowhere;
    switch (word.outcome) {
      case offer_outcome::taken: op->succeed(); break;
      case offer_outcome::truncated:
        op->fail({errc::truncated, "the peer's receive was shorter"});
        break;
      case offer_outcome::refused: op->fail({errc::rejected, "nobody wants it at the peer"}); break;
      case offer_outcome::failed: op->fail({errc::io_failed, "the peer could not read it"}); break;
    }
  }
  pump();
}

// ---- what is read ----

void peer_core::say_done(std::uint32_t offer, offer_outcome outcome) noexcept {
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
  f->peer = this;
  f->op = &op;
  f->from = s.what;
  f->tag = s.head.word;
  f->into = op.into_;
  f->wanted = std::min<std::uint64_t>(s.what.total, op.into_.size());
  op.fetch_ = f;
  op.set_phase(operation_base::phase::posted);
  fetches.push_back(*f);
  if (free_sends != 0) read_on(*f);
}

void peer_core::read_on(fetch& f) noexcept {
  endpoint_core& e = *endpoint;
  f.reading = true;
  while (f.asked < f.wanted && free_sends != 0 && !f.broken && e.pair != nullptr) {
    const protocol::offer_part& part = f.from.part[f.part];
    const std::uint64_t n =
        std::min({part.bytes - f.in_part, f.wanted - f.asked, longest_read, e.caps->max_message});
    const transport::segment into{f.into.data() + f.asked, static_cast<std::uint32_t>(n),
                                  f.into.region()->keys[port->kind].lkey};
    frame_entry& entry = port->take_entry(*this, frame_entry::use::read);
    entry.reads_for = &f;
    const transport::send_request request{.id = port->id_of(entry.index | frame_port::is_send),
                                          .op = transport::opcode::read,
                                          .segment_count = 1,
                                          .segments = &into,
                                          .remote_addr = part.addr + f.in_part,
                                          .rkey = part.rkey};
    f.asked += n;
    f.in_part += n;
    if (f.in_part == part.bytes) {
      ++f.part;
      f.in_part = 0;
    }
    ++f.reads;
    ++e.counters.sends;
    transport::completion now;
    if (e.pair->post_send(request, now) == transport::posted::done) {
      on_sent(entry, now);
    } else {
      ++e.frames_in_flight;
    }
  }
  f.reading = false;
  f.settle();
}

void fetch::read_done(const transport::completion& c) noexcept {
  if (c.status != wc_status::success && !broken) {
    broken.emplace(c.status == wc_status::wr_flush_err ? peer->endpoint->flushed("tag_recv")
                                                       : failure(transport::to_errc(c.status)));
  }
  settle();
}

// Ends it, where nothing of it is in flight and there is no more to ask for.
void fetch::settle() noexcept {
  if (reading || reads != 0 || (asked < wanted && !broken)) return;
  peer_core& from_peer = *peer;
  message_receive* const done = std::exchange(op, nullptr);
  const bool cut = wanted < from.total;
  const offer_outcome outcome = broken ? offer_outcome::failed
                                : cut  ? offer_outcome::truncated
                                       : offer_outcome::taken;
  if (done != nullptr) {
    done->fetch_ = nullptr;
    done->received_ = {.bytes = wanted, .tag = tag, .from = from_peer.handle()};
    if (broken) {
      done->fail(std::move(*broken));
    } else if (cut) {
      done->fail({errc::truncated, "a message of " + std::to_string(from.total) +
                                       " bytes, the receive has " + std::to_string(wanted)});
    } else {
      done->finish();
    }
  }
  const std::uint32_t number = from.number;
  from_peer.port->core->release(*this);
  from_peer.say_done(number, outcome);
}

// ---- the end ----

void peer_core::on_end() noexcept {
  pumping = true;  // nothing goes out any more
  while (!waiting.empty()) {
    message_send& op = waiting.pop_front();
    op.fail(endpoint->flushed(op.op_name()));
  }
  for (open_offer& o : offers) {
    if (!o.open) continue;
    o.open = false;
    for (std::uint8_t i = 0; i < o.pinned; ++i) release(*o.pins[i]);
    o.pinned = 0;
    message_send* const op = std::exchange(o.op, nullptr);
    if (op == nullptr) continue;
    op->offer_ = message_send::nowhere;
    op->fail(endpoint->flushed(op->op_name()));
  }
  open_offers = 0;
  fetches.for_each([this](fetch& f) {
    if (!f.broken) f.broken.emplace(endpoint->flushed("tag_recv"));
    f.settle();
  });
  dones.clear();
  if (requests != nullptr) on_requests_end(*requests);
  if (port == nullptr) return;
  // What is announced cannot be read any more; what is here can be received.
  held.for_each([this](message_segment& s) {
    if (s.waiting && s.is_offer()) port->release(s);
  });
  message_core& core = *port->core;
  core.matcher.for_each_receive([&](protocol::tag_receive& r) {
    if (r.pattern().from == this) core.end(r, endpoint->flushed("tag_recv"));
  });
}

void peer_core::on_handle_gone() noexcept {
  held.for_each([this](message_segment& s) {
    s.unlink();
    s.from = nullptr;
    if (s.waiting) port->release(s);
  });
}

void peer_core::on_port_gone() noexcept { port = nullptr; }

}  // namespace cordma::detail
