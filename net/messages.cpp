#include <cordma/net/messages.hpp>

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/transport/small_copy.hpp>

#include <cstring>

namespace cordma {

using protocol::frame_kind;

namespace detail {
namespace {

constexpr std::string_view message_rule = "messages may only be used on the thread of their Worker";

}  // namespace

failure plain_messages() {
  return {errc::not_supported,
          "the Endpoint carries plain messages: connect or accept it with "
          "connect_options::messages, on both sides"};
}

// ---- message_send ----

[[gnu::always_inline]] inline message_send::message_send(endpoint_core& endpoint, frame_kind eager,
                                                         std::uint64_t word,
                                                         const Slice& message) noexcept
    : operation_base(endpoint.home()),
      endpoint_(&endpoint),
      word_(word),
      total_(message.size()),
      eager_(eager),
      count_(message.size() != 0 ? 1 : 0) {
  slices_[0] = message;
}

message_send::message_send(endpoint_core& endpoint, frame_kind eager, std::uint64_t word,
                           std::span<const Slice> message) noexcept
    : operation_base(endpoint.home()),
      endpoint_(&endpoint),
      word_(word),
      eager_(eager),
      straight_(false) {
  if (message.size() > most_message_slices) {
    failure_ = failure::of(errc::invalid_value, {message.size(), " slices, a message has at most ",
                                                 most_message_slices});
    return;
  }
  for (const Slice& s : message) {
    if (s.size() == 0) continue;
    slices_[count_++] = s;
    total_ += s.size();
  }
}

message_send::message_send(message_send&& other) noexcept
    : operation_base(std::move(other)),
      endpoint_(other.endpoint_),
      word_(other.word_),
      total_(other.total_),
      eager_(other.eager_),
      straight_(other.straight_),
      announced_(other.announced_),
      own_(other.own_),
      left_(other.left_),
      count_(other.count_),
      header_(other.header_) {
  // do_start() reads the first slice of a straight message, an empty one too.
  std::copy_n(other.slices_.begin(), std::max<std::size_t>(count_, straight_ ? 1 : 0),
              slices_.begin());
  if (state() != phase::queued && state() != phase::posted) return;
  entry_ = other.entry_;
  offer_ = other.offer_;
  if (entry_ != nowhere) peer_of(*endpoint_).port()->entry(entry_).op = this;
  if (offer_ != nowhere) peer_of(*endpoint_).offer(offer_).move_to(*this);
}

void message_send::leave_early() noexcept {
  if (state() != phase::queued && state() != phase::posted) return;
  if (state() == phase::queued && linked()) leave_queue();
  if (entry_ == nowhere && offer_ == nowhere) return;
  peer_core& peer = peer_of(*endpoint_);
  if (offer_ != nowhere) peer.offer(offer_).outlive(slices());
  if (entry_ == nowhere) return;
  frame_entry& entry = peer.port()->entry(entry_);
  CORDMA_ASSERT(entry.op == this);
  CORDMA_ASSERT_OP(entry.pinned + count_, <=, entry.pins.size());
  entry.op = nullptr;
  for (const Slice& s : slices()) {
    retain(*s.region());
    entry.pins[entry.pinned++] = s.region();
  }
}

bool message_send::reads_memory() const noexcept {
  const bool is_copied = left_ && !announced_ && is_short();
  return total_ != 0 && !is_copied;
}

bool message_send::is_short() const noexcept {
  return protocol::head_bytes + header_.size() + total_ <= frame_entry::bytes;
}

void message_send::set_header(std::span<const std::byte> header) noexcept {
  header_ = header;
  straight_ = straight_ && header.empty();
  if (header.size() > most_am_header) {
    failure_ = failure::of(errc::invalid_value, {header.size(), " bytes of header, at most ",
                                                 most_am_header, " are carried"});
  }
}

void message_send::refuse_id(std::uint16_t id) noexcept { refuse(reserved_id(id)); }

const char* message_send::op_name() const noexcept {
  return eager_ == frame_kind::tag_eager ? "tag_send" : "am_send";
}

void message_send::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation(op_name()));
  finish();
}

void message_send::do_start() noexcept {
  endpoint_core& e = *endpoint_;
  const Slice& s = slices_[0];
  if (!straight_ || e.frames() == nullptr || !home()->on_owner_thread() || !peer_of(e).may_put(s))
      [[unlikely]] {
    return start_with_care();
  }
  if (!peer_of(e).put(eager_, word_, s.data(), static_cast<std::uint32_t>(s.size()))) [[unlikely]]
    return start_after_all();
  leave_at_once();
}

// Called if the transport did not accept the message in the fast path.
[[gnu::noinline]] void message_send::start_after_all() noexcept {
  peer_of(*endpoint_).take_back(total_);
  start_with_care();
}

void message_send::start_with_care() noexcept {
  entry_ = offer_ = nowhere;
  endpoint_core& e = *endpoint_;
  if (failure_) return fail(std::move(*failure_));
  if (e.worker() == nullptr) return fail({errc::shutdown, "its Worker is gone"});
  if (!e.home()->on_owner_thread()) return fail(e.home()->wrong_thread(message_rule));
  if (e.frames() == nullptr) [[unlikely]] {
    return e.early() != nullptr ? early_of(e).send(*this) : fail(plain_messages());
  }
  if (!announced_ && peer_of(e).put_gathered(*this)) return leave_at_once();
  peer_of(e).send(*this);
}

void message_send::do_cancel() noexcept {
  if (state() != phase::queued) return;
  leave_queue();
  fail(errc::canceled);
}

// The messages behind it may now have space or credits, and closing may have waited only for this
// one.
void message_send::leave_queue() noexcept {
  unlink();
  if (endpoint_->frames() != nullptr) peer_of(*endpoint_).pump();
}

// ---- message_receive ----

message_receive::message_receive(message_core& core, const endpoint_core* from, std::uint64_t tag,
                                 std::uint64_t mask, const Slice& into) noexcept
    : operation_base(core.home()),
      core_(&core),
      into_(into),
      place_{.pattern = {.tag = tag & mask, .mask = mask, .from = from}} {}

message_receive::message_receive(message_segment& wanted, const Slice& into) noexcept
    : operation_base(wanted.port->core().home()), core_(nullptr), wanted_(&wanted), into_(into) {}

message_receive::message_receive(failure why, reactor* home) noexcept
    : operation_base(home), core_(nullptr) {
  failure_ = std::move(why);
}

message_receive::message_receive(message_receive&& other) noexcept
    : operation_base(std::move(other)),
      on_device_(other.on_device_),
      core_(other.core_),
      wanted_(other.wanted_),
      fetch_(std::exchange(other.fetch_, nullptr)),
      into_(other.into_),
      place_(other.place_) {
  if (done()) received_ = other.received_;
  if (fetch_ != nullptr) fetch_->move_to(*this);
}

void message_receive::leave_fetch() noexcept {
  CORDMA_ASSERT(into_.region() != nullptr);
  retain(*into_.region());
  fetch_->outlive(MemoryRegion(into_.region()));
}

void message_receive::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("tag_recv"));
  finish();
}

void message_receive::got_part(std::span<const std::byte> message) noexcept {
  unlink();
  received_.bytes = into_.size();
  transport::copy_bytes(into_.data(), message.data(), into_.size());
  fail(failure::of(errc::truncated,
                   {"a message of ", message.size(), " bytes, the receive has ", into_.size()}));
}

void message_receive::find_message() noexcept {
  if (wanted_ == nullptr) return core_->receive(*this);
  if (std::exchange(wanted_->taken, true)) return fail({errc::bad_state, "it was read before"});
  core_->hand_over(*wanted_, *this);
}

void message_receive::do_start() noexcept {
  if (core_ != nullptr && home()->on_owner_thread() && core_->may_take(into_)) [[likely]]
    return core_->receive(*this);
  start_otherwise();
}

void message_receive::start_otherwise() noexcept {
  if (failure_) return fail(std::move(*failure_));
  if (wanted_ != nullptr) core_ = &wanted_->port->core();
  if (!home()->on_owner_thread()) return fail(home()->wrong_thread(message_rule));
  if (core_->worker() == nullptr) return fail({errc::shutdown, "its Worker is gone"});
  if (!core_->may_take(into_)) return start_with_care();
  find_message();
}

void message_receive::start_with_care() noexcept {
  const region_core& region = *into_.region();
  if (region.context != core_->worker()->shared_context() ||
      !has(region.range.rights, access::local_write)) {
    return fail({errc::invalid_value,
                 "a receive needs memory of the same Context, with access::local_write"});
  }
  on_device_ = true;
  const message_segment* here = wanted_;
  if (here == nullptr) {
    const protocol::tag_message* const kept = core_->matcher().probe(place_.pattern);
    if (kept != nullptr) here = static_cast<const message_segment::kept*>(kept)->owner;
  }
  if (here != nullptr && !takes(*here)) return refuse_message();
  find_message();
}

bool message_receive::takes(const message_segment& s) const noexcept {
  if (!on_device_ || s.length() == 0) return true;
  if (!s.is_offer()) return false;
  return s.from == nullptr || s.what.parts != 0 || s.from->writable(into_);
}

void message_receive::refuse_message() noexcept {
  fail({errc::not_supported,
        "the message lies in host memory, and no RDMA device can bring it into device memory: "
        "receive it into host memory, or send it from device memory; one longer than eager_bytes "
        "comes where its memory has access::remote_read, or the receive's access::remote_write"});
}

void message_receive::do_cancel() noexcept {
  if (state() != phase::queued) return;  // it has its message
  unlink();
  fail(errc::canceled);
}

}  // namespace detail

// ---- Endpoint ----

message_send_operation Endpoint::tag_send(std::uint64_t tag, const Slice& message) noexcept {
  return {*core_, frame_kind::tag_eager, tag, message};
}

message_send_operation Endpoint::tag_send(std::uint64_t tag,
                                          std::span<const Slice> gathered) noexcept {
  return {*core_, frame_kind::tag_eager, tag, gathered};
}

tag_recv_operation Endpoint::tag_recv(std::uint64_t tag, const Slice& into) noexcept {
  return tag_recv(tag, whole_tag, into);
}

tag_recv_operation Endpoint::tag_recv(std::uint64_t tag, std::uint64_t mask,
                                      const Slice& into) noexcept {
  if (core_->is_plain()) return {detail::plain_messages(), core_->home()};
  detail::message_core* const all = detail::messages_of(*core_);
  if (all == nullptr) return {failure(errc::shutdown, "its Messages are gone"), core_->home()};
  return {*all, core_.get(), tag, mask, into};
}

std::optional<TagReceived> Endpoint::tag_probe(std::uint64_t tag,
                                               std::uint64_t mask) const noexcept {
  if (core_->home() != nullptr && !core_->home()->enter()) return {};
  detail::message_core* const all = core_->is_plain() ? nullptr : detail::messages_of(*core_);
  if (all == nullptr) return {};
  return all->probe({.tag = tag & mask, .mask = mask, .from = core_.get()});
}

std::optional<TaggedMessage> Endpoint::tag_claim(std::uint64_t tag, std::uint64_t mask) noexcept {
  if (core_->home() != nullptr && !core_->home()->enter()) return {};
  detail::message_core* const all = core_->is_plain() ? nullptr : detail::messages_of(*core_);
  if (all == nullptr) return {};
  return all->claim({.tag = tag & mask, .mask = mask, .from = core_.get()});
}

message_send_operation Endpoint::am_send(std::uint16_t id, std::span<const std::byte> header,
                                         const Slice& data) noexcept {
  const auto word =
      protocol::to_word({.id = id, .header = static_cast<std::uint16_t>(header.size())});
  message_send_operation op(*core_, frame_kind::am_eager, word, data);
  if (!header.empty()) [[unlikely]]
    op.set_header(header);
  if (id >= protocol::first_reserved_id) [[unlikely]]
    op.refuse_id(id);
  return op;
}

// ---- held messages ----

HeldMessage::HeldMessage(detail::peer_core* from, detail::message_segment& held) noexcept
    : peer_(from), segment_(&held) {}

void HeldMessage::let_go() noexcept {
  if (!segment_->port->core().home()->enter_to_destroy()) return;  // belongs to the parent
  const bool unread = segment_->from != nullptr && segment_->is_offer() && !segment_->taken;
  if (unread) peer_->refuse(*segment_);
  detail::frame_port::let_go(*segment_);
}

std::uint64_t HeldMessage::size() const noexcept { return segment_->length(); }

std::span<const std::byte> HeldMessage::data() const noexcept {
  return segment_->is_offer() ? std::span<const std::byte>{} : segment_->data();
}

tag_recv_operation HeldMessage::read(const Slice& into) noexcept { return {*segment_, into}; }

Endpoint* HeldMessage::from() const noexcept {
  return segment_ != nullptr && segment_->from != nullptr ? peer_->handle() : nullptr;
}

TaggedMessage::TaggedMessage(detail::message_segment& held) noexcept
    : HeldMessage(held.from, held) {}
std::uint64_t TaggedMessage::tag() const noexcept { return segment_->head.word; }

ActiveMessage::ActiveMessage(detail::message_segment& held) noexcept
    : HeldMessage(held.from, held) {}
std::span<const std::byte> ActiveMessage::header() const noexcept { return segment_->header(); }

// ---- Messages ----

Messages::Messages(Worker& worker, const message_options& options)
    : core_(std::make_unique<detail::message_core>(worker, options)) {}

Messages::~Messages() = default;

tag_recv_operation Messages::tag_recv(std::uint64_t tag, const Slice& into,
                                      std::uint64_t mask) noexcept {
  return {*core_, nullptr, tag, mask, into};
}

std::optional<TagReceived> Messages::tag_probe(std::uint64_t tag, std::uint64_t mask) noexcept {
  if (!core_->home()->enter()) return {};
  return core_->probe({.tag = tag & mask, .mask = mask, .from = nullptr});
}

std::optional<TaggedMessage> Messages::tag_claim(std::uint64_t tag, std::uint64_t mask) noexcept {
  if (!core_->home()->enter()) return {};
  return core_->claim({.tag = tag & mask, .mask = mask, .from = nullptr});
}

void Messages::on(std::uint16_t id, am_handler handler) {
  if (!core_->home()->enter()) return;
  core_->handlers().set(id, {.task = std::move(handler), .plain = {}});
}

void Messages::on(std::uint16_t id, am_function handler) {
  if (!core_->home()->enter()) return;
  core_->handlers().set(id, {.task = {}, .plain = std::move(handler)});
}

std::uint64_t Messages::handler_failures() const noexcept { return core_->handlers().failures(); }
std::uint64_t Messages::dropped() const noexcept { return core_->dropped(); }

}  // namespace cordma
