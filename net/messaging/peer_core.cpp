// One connection that carries frames: sending, receiving, and waiting messages.
#include <cordma/net/messaging/message_core.hpp>

#include <cordma/net/transport/small_copy.hpp>
#include <cordma/runtime/dump_writer.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::detail {

using protocol::frame_head;
using protocol::frame_kind;
using transport::wc_status;

namespace {

constexpr std::uint32_t least_sends = 4;
constexpr auto short_bytes = static_cast<std::uint32_t>(frame_entry::bytes - protocol::head_bytes);

}  // namespace

failure breach(const char* what) {
  return failure::of(errc::connection_aborted, {"the peer broke the protocol of messages: ", what});
}

peer_core::peer_core(endpoint_core& of, frame_port& over)
    : endpoint_(&of),
      sender_(&of),
      port_(&over),
      places_(std::max(of.granted().send_depth / 2,
                       std::min(least_sends, of.granted().send_depth - 1))),
      window_(static_cast<std::uint16_t>(over.core().options().credits)) {
  CORDMA_ASSERT_OP(places_.all(), >, 0U);
  // The other entries are for operations.
  CORDMA_ASSERT_OP(places_.all(), <, of.granted().send_depth);
  over.promise(over.core().options().credits, places_.all());
  over.peers().push_back(*this);
  settle();
}

peer_core::~peer_core() {
  CORDMA_ASSERT(places_.are_free());
  CORDMA_ASSERT_OP(offers_.count(), ==, 0U);
  CORDMA_ASSERT_OP(load_.under_way(), ==, 0U);
  CORDMA_ASSERT(waiting_.empty() && offers_.wanted().empty() && fetches_.empty());
  CORDMA_ASSERT(requests_ == nullptr);
  if (port_ != nullptr) port_->unpromise(port_->core().options().credits, places_.all());
}

Endpoint* peer_core::handle() const noexcept { return sender_->handle(); }

bool peer_core::idle() noexcept {
  return nothing_waits() && offers_.count() == 0 && answers_.empty() && fetches_.empty() &&
         (requests_ == nullptr || is_idle(*requests_));
}

void peer_core::dump(dump_writer& out) noexcept {
  std::uint64_t messages = 0;
  std::uint64_t coming = 0;
  const bool whole = waiting_.look_through([&messages](message_send&) { ++messages; }) &&
                     fetches_.look_through([&coming](fetch&) { ++coming; });
  out << "; messages: ";
  if (!whole) {
    out << "the list was just being changed";
    return;
  }
  out << messages << " wait, ";
  if (credits_) {
    out << static_cast<std::uint32_t>(credits_->available()) << " credits, ";
  } else {
    out << "no credits yet, ";
  }
  out << offers_.count() << " long ones announced, " << coming << " on their way here";
}

// ---- sending ----

std::optional<failure> peer_core::obstacle(message_send& op) const {
  const endpoint_core& e = *endpoint_;
  const bool closing = e.state() == endpoint_state::closing;
  if (!(closing && op.own_)) {
    if (std::optional<failure> ended = e.why_not(op.op_name())) return ended;
  }
  if (port_ == nullptr) return failure{errc::shutdown, "its Messages are gone"};
  if (op.count_ + 1U > e.granted().max_segments && !op.is_short()) {
    return failure::of(errc::invalid_value, {op.count_, " slices, and a head: granted are ",
                                             e.granted().max_segments, " in all"});
  }
  for (const Slice& s : op.slices()) {
    if (s.region()->touched_in != e.context().get()) [[unlikely]]
      return obstacle_of_memory(op);
  }
  return {};
}

std::optional<failure> peer_core::obstacle_of_memory(message_send& op) const {
  const auto slices = op.slices();
  const auto foreign = [this](const Slice& s) {
    return s.region()->context != endpoint_->context();
  };
  if (std::ranges::any_of(slices, foreign)) {
    return failure{errc::invalid_value, "a slice belongs to another Context"};
  }
  if (!readable(op)) {
    return failure{errc::not_supported,
                   "a message from device memory is read by its receiver: register all its memory "
                   "with access::remote_read, and leave that in endpoint_options::remote_access"};
  }
  op.announce();
  return {};
}

bool peer_core::is_long(const message_send& op) const noexcept {
  return op.announced_ ||
         protocol::head_bytes + op.header_.size() + op.total_ > theirs_->eager_bytes;
}

bool peer_core::has_room(bool is_long) const noexcept {
  return theirs_ && credits_->available() != 0 && (!is_long || offers_.count() < theirs_->offers) &&
         has_place();
}

bool peer_core::sends_now(bool is_long) const noexcept {
  return waiting_.empty() && has_room(is_long);
}

// Updates the flags that every message checks. With a trace, every message takes the slow path,
// which records it.
void peer_core::settle() noexcept {
  if (endpoint_->pair() != nullptr) {
    endpoint_->pair()->set_in_place(port_ != nullptr && !is_traced() ? this : nullptr);
  }
  hears_ = port_ != nullptr && theirs_ && !endpoint_->handle_gone() && !is_traced() &&
           endpoint_->state() != endpoint_state::closed;
  puts_ = hears_ && waiting_.empty() && offers_.wanted().empty() &&
          endpoint_->state() == endpoint_state::connected && !endpoint_->holds_back();
  longest_ = theirs_ ? theirs_->eager_bytes - static_cast<std::uint32_t>(protocol::head_bytes) : 0;
  // With one segment, only bytes behind the head in the entry can be posted: no longer frame is put
  // either.
  if (endpoint_->granted().max_segments == 1) longest_ = std::min(longest_, short_bytes);
}

// Copies a message that fits into one buffer, then puts it.
bool peer_core::put_gathered(const message_send& op) noexcept {
  std::array<std::byte, frame_entry::bytes> all;
  if (!puts_ || !op.is_short()) return false;
  std::uint32_t bytes = 0;
  const auto append = [&](const std::byte* from, std::size_t n) {
    transport::copy_bytes(&all[bytes], from, n);
    bytes += static_cast<std::uint32_t>(n);
  };
  if (!op.header_.empty()) append(op.header_.data(), op.header_.size());
  for (const Slice& s : op.slices()) {
    if (s.region()->touched_in != endpoint_->context().get()) return false;
    append(s.data(), s.size());
  }
  if (!may_put(bytes)) return false;
  if (put(op.eager_, op.word_, all.data(), bytes)) return true;
  take_back(bytes);
  return false;
}

[[gnu::noinline]] void peer_core::take_back(std::uint64_t bytes) noexcept {
  window_.unsay();
  credits_->put_back();
  endpoint_->take_back_put(protocol::head_bytes + bytes);
}

void peer_core::send(message_send& op) noexcept {
  if (std::optional<failure> why = obstacle(op)) return op.fail(std::move(*why));
  if (waiting_.empty() && theirs_ && has_room(is_long(op))) [[likely]] {
    post(op);
  } else {
    endpoint_->count_waited();
    op.set_phase(operation_base::phase::queued);
    waiting_.push_back(op);
    puts_ = false;
    listen();
  }
}

// True if no message of the program waits. The hello of requests, a message of the library, waits
// for a slow peer and does not delay closing.
bool peer_core::nothing_waits() noexcept {
  return waiting_.find([this](const message_send& op) { return theirs_ || !op.own_; }) == nullptr;
}

void peer_core::listen() noexcept {
  const bool connected = endpoint_->state() == endpoint_state::connected;
  if (theirs_ || !connected || silence_.pending() || nothing_waits()) return;
  reactor& home = *port_->core().home();
  home.add(silence_, after(home.now(), port_->core().options().hello_timeout));
}

// Closing waits until sent messages are received, including the hello, which a peer without
// messages may never receive.
void peer_core::on_closing() noexcept {
  if (theirs_ || silence_.pending() || port_ == nullptr) return;
  reactor& home = *port_->core().home();
  const duration patience = was_silent_ ? duration::zero() : port_->core().options().hello_timeout;
  home.add(silence_, after(home.now(), patience));
}

// A hello that arrives later is still accepted.
void peer_core::on_silent() noexcept {
  was_silent_ = true;
  if (endpoint_->state() == endpoint_state::closing && idle()) {
    const bool hello_alone = endpoint_->sends_in_flight() == 0;
    if (hello_alone) return fail({errc::not_connected, "closed by this side"});
    was_silent_ = false;
    return on_closing();
  }
  while (message_send* const op =
             waiting_.find([](const message_send& each) { return !each.own_; })) {
    op->unlink();
    op->fail({errc::not_supported,
              "the peer has said no hello of messages within hello_timeout: its endpoint carries "
              "none (both sides "
              "give connect_options::messages), or it is busy"});
  }
  pump();
}

void peer_core::stop_listening() noexcept {
  if (silence_.pending()) port_->core().home()->remove(silence_);
}

void peer_core::post(message_send& op) noexcept {
  op.left_ = true;
  if (is_long(op)) {
    post_offer(op);
  } else {
    post_eager(op);
  }
}

// An eager message is copied behind its head if it is short; otherwise it is gathered from its
// memory.
void peer_core::post_eager(message_send& op) noexcept {
  credits_->take();
  frame_entry& entry = port_->take_entry(*this, frame_entry::use::message);
  std::size_t in_entry = protocol::head_bytes;
  const auto append = [&](const std::byte* from, std::size_t bytes) {
    transport::copy_bytes(entry.data + in_entry, from, bytes);
    in_entry += bytes;
  };
  if (!op.header_.empty()) append(op.header_.data(), op.header_.size());
  const bool is_short = in_entry + op.total_ <= frame_entry::bytes;
  if (is_short) {
    for (const Slice& s : op.slices()) append(s.data(), s.size());
  }
  entry.op = &op;
  op.entry_ = entry.index;
  op.set_phase(operation_base::phase::posted);
  const auto body = static_cast<std::uint32_t>(op.header_.size() + op.total_);
  const auto behind = op.slices().first(is_short ? 0 : op.count_);
  post_frame(entry, {.kind = op.eager_, .body = body, .word = op.word_}, behind);
}

// The part of the body that is not in `behind` is in the entry.
void peer_core::post_frame(frame_entry& entry, frame_head head,
                           std::span<const Slice> behind) noexcept {
  endpoint_core& e = *endpoint_;
  head.given = window_.say();
  protocol::encode(head,
                   std::span<std::byte, protocol::head_bytes>(entry.data, protocol::head_bytes));
  std::array<transport::segment, most_segments> segments;
  auto in_entry = static_cast<std::uint32_t>(protocol::head_bytes + head.body);
  std::uint16_t count = 1;
  for (const Slice& s : behind) {
    const auto bytes = static_cast<std::uint32_t>(s.size());
    segments[count++] = {s.data(), bytes, s.region()->keys[port_->kind()].lkey};
    in_entry -= bytes;
  }
  segments[0] = {entry.data, in_entry, entry.lkey};
  e.count_sent(protocol::head_bytes + head.body);
  transport::send_request request{.op = transport::opcode::send,
                                  .flags = transport::post_flag::solicited,
                                  .segment_count = count,
                                  .segments = segments.data()};
  if (count == 1 && in_entry <= e.granted().inline_bytes) {
    request.flags |= transport::post_flag::inline_data;
  }
  post(entry, request);
}

void peer_core::post(frame_entry& entry, transport::send_request& request) noexcept {
  endpoint_core& e = *endpoint_;
  const bool on_own = entry.over == nullptr;
  transport::queue_pair& pair = on_own ? *e.pair() : *entry.over->link()->pair();
  request.id = port_->id_of(entry);
  on_own ? e.count_post(request) : e.count_post_on_rail();
  transport::completion now;
  if (e.worker()->trace() != nullptr) [[unlikely]]
    e.worker()->trace_frame(e, request);
  if (pair.post_send(request, now) == transport::posted::done) {
    e.count_immediate();
    on_sent(entry, now);
  } else {
    e.on_frame_posted();
  }
}

protocol::hello peer_core::own_hello() const noexcept {
  const message_options& o = port_->core().options();
  return {.eager_bytes = port_->eager_bytes(),
          .credits = o.credits,
          .offers = due_answers::most,
          .rails = o.rails,
          .devices = static_cast<std::uint32_t>(port_->devices().size())};
}

void peer_core::say_control() noexcept {
  if (!hello_said_ && has_place()) {
    hello_said_ = true;
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
    protocol::encode(own_hello(), std::span<std::byte, protocol::hello_bytes>(
                                      entry.data + protocol::head_bytes, protocol::hello_bytes));
    post_frame(entry, {.kind = frame_kind::hello,
                       .body = protocol::hello_bytes,
                       .word = protocol::frame_version});
  }
  if (rails_said_ != rails_.size()) [[unlikely]]
    say_rails();
  while (!answers_.empty() && has_place()) {
    const protocol::done_word word = answers_.take();
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
    post_frame(entry, {.kind = frame_kind::done, .word = protocol::to_word(word)});
  }
  if (theirs_ && window_.has_to_say() && has_place()) {
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
    post_frame(entry, {.kind = frame_kind::given});
  }
}

void peer_core::pump() noexcept {
  endpoint_core& e = *endpoint_;
  const bool open = e.state() == endpoint_state::connected || e.state() == endpoint_state::closing;
  if (!open || e.pair() == nullptr || port_ == nullptr || e.is_inherited()) return;
  if (std::exchange(pumping_, true)) return;
  const bool closing = e.state() == endpoint_state::closing;
  if (silence_.pending() && nothing_waits() && !closing) stop_listening();
  say_control();
  while (!waiting_.empty() && theirs_ && has_room(is_long(waiting_.front()))) {
    post(waiting_.pop_front());
  }
  offers_.wanted().for_each([this](open_offer& o) { send_on(o); });
  fetches_.for_each([this](fetch& f) { go_on(f); });
  say_control();
  pumping_ = false;
  settle();
  if (e.state() == endpoint_state::closing) e.begin_close();
}

void peer_core::on_connected() noexcept {
  pump();
  if (port_ != nullptr) listen();
}

void peer_core::on_sent(frame_entry& entry, const transport::completion& c) noexcept {
  message_send* const op = std::exchange(entry.op, nullptr);
  open_offer* const part_of = entry.part_of;
  const frame_entry::use what = entry.what;
  if (what == frame_entry::use::read) {
    fetch& f = *entry.reads_for;
    f.read_done(entry, c);
    port_->release(entry);
    return f.settle();
  }
  port_->release(entry);
  if (what == frame_entry::use::part) {
    part_of->piece_done();
    return end_offer(*part_of);
  }
  if (op == nullptr) return;
  op->entry_ = message_send::nowhere;
  if (c.status == wc_status::success) return op->succeed();
  failure why = endpoint_->flushed(op->op_name());
  if (c.status != wc_status::wr_flush_err) {
    why = failure(transport::to_errc(c.status));
    why.with_status(static_cast<std::uint16_t>(c.status), c.vendor_err);
  }
  op->fail(std::move(why));
}

// ---- receiving ----

void peer_core::fail(failure why) noexcept {
  endpoint_core& e = *endpoint_;
  if (e.pair() != nullptr) e.pair()->abort();
  e.end(std::move(why));
}

void peer_core::let_go(message_segment& s) noexcept {
  port_->release(s);
  if (window_.give_back()) pump();
}

void peer_core::on_hello(const message_segment& s) noexcept {
  const result<protocol::hello> said = protocol::decode_hello(s.head, s.body());
  if (!said) return fail(said.why());
  stop_listening();
  theirs_ = *said;
  credits_.emplace(static_cast<std::uint16_t>(said->credits));
  settle();
  agreed_ = protocol::agree(own_hello(), *said);
  CORDMA_ASSERT_OP(agreed_.rails, <=, protocol::most_rails);
  CORDMA_ASSERT_OP(agreed_.devices, <=, protocol::most_devices);
  CORDMA_ASSERT_OP(agreed_.devices, <=, port_->devices().size());
  if (agreed_.rails > 1) make_rails();
}

// Copies the message once, from the transport to its receiver.
void peer_core::on_arrived(transport::arrived_message& m) noexcept {
  if (m.bytes >= protocol::head_bytes && hears_) [[likely]] {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), m.data, sizeof words);
    const frame_head head = protocol::head_of(words[0], words[1]);
    if (head.body == m.bytes - protocol::head_bytes && credits_->on_given(head.given)) [[likely]] {
      if (head.kind == frame_kind::tag_eager) [[likely]] {
        if (message_receive* const wanted = taker_of(head)) return take_tagged(*wanted, head, m);
      } else if (head.kind == frame_kind::am_eager) {
        const protocol::am_word what = protocol::am_of(head.word);
        const handler* const found = port_->core().handlers().of(what.id);
        if (found != nullptr && what.header <= head.body) [[likely]] {
          return found->plain ? call_plain(*found, what.header, m)
                              : start_task(*found, words[0], words[1], m);
        }
      }
    }
  }
  take_slowly(m);
}

// Handles a message without a waiting receiver, or an invalid one; on_frame() reports the fault.
[[gnu::noinline]] void peer_core::take_slowly(transport::arrived_message& m) noexcept {
  if (message_segment* const s = copy_arrived(m)) on_frame(*s, m.bytes);
}

// Null: the message stays in the ring, or is dropped.
[[gnu::always_inline]] inline message_segment* peer_core::copy_arrived(
    transport::arrived_message& m) noexcept {
  if (port_ == nullptr || endpoint_->handle_gone() ||
      endpoint_->state() == endpoint_state::closed) {
    return nullptr;
  }
  message_segment* const s = m.bytes <= port_->eager_bytes() ? port_->take_segment() : nullptr;
  if (s == nullptr) [[unlikely]] {
    m.stays = true;
    return nullptr;
  }
  transport::copy_bytes(s->room.addr, m.data, m.bytes);
  endpoint_->count_received(m.bytes);
  s->from = this;
  return s;
}

// Returns the first matching receive, if it can receive the complete message now.
[[gnu::always_inline]] inline message_receive* peer_core::taker_of(
    const frame_head& head) noexcept {
  message_receive* const wanted = port_->core().matcher().first_for(head.word, sender_);
  if (wanted == nullptr || wanted->on_device_ || head.body > wanted->into_.size() ||
      !window_.take()) [[unlikely]] {
    return nullptr;
  }
  return wanted;
}

// The copy is last, so that a longer one does not save registers.
[[gnu::always_inline]] inline void peer_core::take_tagged(
    message_receive& wanted, const frame_head& head, const transport::arrived_message& m) noexcept {
  endpoint_->count_received(m.bytes);
  wanted.gets_all(head.body, head.word, handle());
  if (window_.give_back() || !puts_) [[unlikely]]
    return copy_and_pump(wanted, m);
  transport::copy_bytes(wanted.into_.data(), m.data + protocol::head_bytes, head.body);
}

[[gnu::noinline]] void peer_core::copy_and_pump(const message_receive& wanted,
                                                const transport::arrived_message& m) noexcept {
  transport::copy_bytes(wanted.into_.data(), m.data + protocol::head_bytes,
                        m.bytes - protocol::head_bytes);
  pump();
}

// The handler gets a copy, because the peer can change the transport's ring. This object may be
// destroyed then.
[[gnu::noinline]] void peer_core::call_plain(const handler& found, std::uint32_t header,
                                             transport::arrived_message& m) noexcept {
  const std::uint32_t size = m.bytes - static_cast<std::uint32_t>(protocol::head_bytes);
  std::array<std::byte, most_am_header> bytes;
  if (size > bytes.size() || !window_.take()) [[unlikely]]
    return take_slowly(m);
  transport::copy_bytes(bytes.data(), m.data + protocol::head_bytes, size);
  endpoint_->count_received(m.bytes);
  const ShortMessage message{
      handle(), {bytes.data(), header}, {bytes.data() + header, size - header}};
  give_back();
  port_->core().call(found.plain, message);
}

[[gnu::noinline]] void peer_core::start_task(const handler& found, std::uint64_t first,
                                             std::uint64_t word,
                                             transport::arrived_message& m) noexcept {
  if (m.bytes > port_->eager_bytes() || !port_->has_segment() || !window_.take()) [[unlikely]]
    return take_slowly(m);
  message_segment& s = port_->take_free_segment();
  endpoint_->count_received(m.bytes);
  s.from = this;
  s.head = protocol::head_of(first, word);
  s.header_bytes = protocol::am_of(word).header;
  transport::copy_bytes(s.room.addr + protocol::head_bytes, m.data + protocol::head_bytes,
                        s.head.body);
  held_.push_back(s);
  say_what_waits();
  port_->core().start(found.task, s);
}

void peer_core::on_frame(message_segment& s, std::uint32_t bytes) noexcept {
  const result<void> decoded = protocol::decode({s.room.addr, bytes}, s.head);
  if (!decoded) return refuse_all(s, decoded.why());
  if ((s.head.kind == frame_kind::hello) == theirs_.has_value()) {
    return refuse_all(s, breach(theirs_ ? "a second hello" : "its first frame is no hello"));
  }
  if (s.head.kind == frame_kind::hello) {
    on_hello(s);
    port_->release(s);
    return pump();
  }
  if (!credits_->on_given(s.head.given)) return refuse_all(s, breach("more receives than it has"));
  accept(s);
}

void peer_core::refuse_all(message_segment& s, failure why) noexcept {
  port_->release(s);
  fail(std::move(why));
}

void peer_core::accept(message_segment& s) noexcept {
  const frame_kind kind = s.head.kind;
  if (protocol::takes_credit(kind)) {
    if (!window_.take()) return refuse_all(s, breach("a message that there was no credit for"));
    if (s.is_offer()) {
      const result<void> announced_well = on_announced(s);
      if (!announced_well) return refuse_all(s, announced_well.why());
    }
    held_.push_back(s);
    if (kind == frame_kind::am_eager || kind == frame_kind::am_ready) {
      say_what_waits();
      return on_active(s);  // its handler may destroy the Endpoint, and this object
    }
    on_tagged(s);
  } else {
    on_answer(s);
    port_->release(s);
  }
  if (port_ != nullptr) say_what_waits();
}

// Processes a frame that is no message: an answer, a request for bytes, a part, or the descriptor
// of a rail.
void peer_core::on_answer(const message_segment& s) noexcept {
  const auto number = static_cast<std::uint32_t>(s.head.word);
  switch (s.head.kind) {
    case frame_kind::done: {
      const result<protocol::done_word> done = protocol::done_of(s.head.word);
      return done ? on_done(*done) : fail(done.why());
    }
    case frame_kind::want: {
      const result<protocol::want> want = protocol::decode_want(s.body());
      return want ? on_want(number, *want) : fail(want.why());
    }
    case frame_kind::part: return on_part(number, s.body());
    case frame_kind::wrote: return on_wrote(number);
    case frame_kind::rail: return on_rail(s.head.word, s.body());
    default: return;
  }
}

result<void> peer_core::on_announced(message_segment& s) {
  result<protocol::offer> what = protocol::decode_offer(s.body());
  if (!what) return what.why();
  if (what->keys > agreed_.devices) return breach("keys of devices that were not agreed on");
  if (answers_.is_full()) return breach("more announced messages than it may");
  s.what = *what;
  return answers_.expect();
}

void peer_core::on_tagged(message_segment& s) noexcept {
  message_core& core = port_->core();
  message_receive* wanted = core.matcher().arrive(s.head.word, sender_);
  while (wanted != nullptr) {
    message_receive& op = *wanted;
    if (!op.on_device_ || op.takes(s)) [[likely]] {
      if (s.head.kind == frame_kind::tag_eager) {
        op.got(s.data(), s.head.word, handle());
      } else {
        start_fetch(s, op);
      }
      port_->release(s);
      window_.give_back();
      return;
    }
    op.refuse_message();
    wanted = core.matcher().arrive(s.head.word, sender_);
  }
  s.waiting.emplace(s.head.word, sender_, s);
  core.matcher().keep(*s.waiting);
}

void peer_core::on_active(message_segment& s) noexcept {
  s.header_bytes = protocol::am_of(s.head.word).header;
  const std::size_t before = s.is_offer() ? protocol::bytes_of(s.what) : 0;
  if (before + s.header_bytes > s.head.body) {
    port_->release(s);
    return fail(breach("a header longer than its message"));
  }
  port_->core().run(s);
}

// ---- end ----

void peer_core::on_end() noexcept {
  pumping_ = true;  // nothing is sent any more
  hears_ = puts_ = false;
  if (port_ != nullptr) stop_listening();
  while (!waiting_.empty()) {
    message_send& op = waiting_.pop_front();
    op.fail(endpoint_->flushed(op.op_name()));
  }
  cut_offers();
  fetches_.for_each([this](fetch& f) {
    f.break_off(endpoint_->flushed("tag_recv"));
    f.settle();
  });
  for (const std::unique_ptr<rail_core>& r : rails_) r->close(endpoint_->flushed("rail"));
  answers_.clear();
  greeting_.reset();
  if (requests_ != nullptr) on_requests_end(*requests_);
  if (port_ == nullptr) return;
  // Announced messages cannot be read any more; messages that have arrived can be received.
  held_.for_each([this](message_segment& s) {
    if (s.waiting && s.is_offer()) port_->release(s);
  });
  port_->core().end_receives_from(*sender_, endpoint_->flushed("tag_recv"));
}

void peer_core::on_handle_gone() noexcept {
  hears_ = puts_ = false;
  sender_ = endpoint_;
  held_.for_each([this](message_segment& s) {
    CORDMA_ASSERT(s.from == this);
    s.unlink();
    s.from = nullptr;
    if (s.waiting) return port_->release(s);
    s.port->leave(s);
  });
}

void peer_core::on_port_gone() noexcept {
  CORDMA_ASSERT(places_.are_free());
  stop_listening();
  port_ = nullptr;
  hears_ = puts_ = false;
}

}  // namespace cordma::detail
