#include <cordma/net/streams/stream_core.hpp>

#include <cordma/net/datapath/option_bounds.hpp>
#include <cordma/net/transport/little_endian.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace cordma::detail {

using transport::load;

namespace {

constexpr std::uint32_t most_window = 1U << 28;
constexpr std::uint32_t most_notices = 4096;
constexpr std::uint32_t most_sends = 32;
static_assert(protocol::least_notices <= most_notices);
static_assert(most_window <= UINT32_MAX);

}  // namespace

stream_core::stream_core(const Context& c, Endpoint connected, const stream_options& o)
    : context_(c),
      endpoint_(std::move(connected)),
      options_(o),
      reader_(std::max(o.window_bytes, 1U), std::max(o.notices, protocol::least_notices)) {
  require_within("stream_options::window_bytes", o.window_bytes, 1, most_window);
  if (endpoint_.state() != endpoint_state::connected) {
    throw_error({errc::not_connected,
                 "the Endpoint of a Stream is connected before: Worker::connect() makes one, or "
                 "wait for its "
                 "state_changed()"});
  }
  if (!endpoint_.abilities().ordered_path) {
    throw_error(failure::of(errc::not_supported,
                            {transport::name(endpoint_.transport()),
                             " does not keep the order of what one Endpoint sends, which a Stream "
                             "needs"}));
  }
  require_within("stream_options::notices", o.notices, protocol::least_notices,
                 std::min(most_notices, endpoint_.actual().recv_depth));
  ring_ = context_.allocate(o.window_bytes, access::local_write | access::remote_write).value();
  rooms_ = context_.allocate((o.notices + most_sends) * room_bytes).value();
  receives_.resize(o.notices);
  sends_.resize(std::min(most_sends, endpoint_.actual().send_depth));
  std::size_t at = 0;
  const auto next_room = [&] { return rooms_.all().part(room_bytes * at++, room_bytes); };
  for (incoming& in : receives_) {
    in.core = this;
    in.room = next_room();
    CORDMA_ASSERT_OP(in.room.size(), ==, room_bytes);
  }
  for (outgoing& out : sends_) {
    out.core = this;
    out.room = next_room();
  }
}

stream_core::~stream_core() {
  if (worker_core* const worker = endpoint_.core().worker()) worker->enter_to_destroy();
  const failure gone{errc::shutdown, "the Stream is gone"};
  if (!ended_) ended_ = gone;  // nothing is posted any more
  while (!readers_.empty()) {
    stream_read_operation& op = readers_.front();
    op.unlink();
    op.fail(gone);
  }
  while (!writers_.empty()) writers_.front().fail(gone);
  for (outgoing& out : sends_) {
    stream_write_operation* const op = std::exchange(out.for_op, nullptr);
    if (op == nullptr) continue;
    CORDMA_ASSERT_OP(op->under_way_, >, 0U);
    --op->under_way_;
    op->fail(gone);
  }
}

task<void> stream_core::start() {
  for (incoming& in : receives_) expect(in);
  pump();
  while (!to_peer_ && !ended_) co_await next_change();
  if (!to_peer_) throw_error(*ended_);
}

// ---- receiving ----

void stream_core::expect(incoming& in) noexcept {
  if (in.op) {
    in.op->again(in.room);
  } else {
    in.op.emplace(endpoint_.recv(in.room));
  }
  ++expected_;
  in.op->start();
  in.op->observe(
      [](operation_base&, void* at) noexcept {
        auto& done = *static_cast<incoming*>(at);
        done.core->on_received(done);
      },
      &in);
}

void stream_core::on_received(incoming& in) noexcept {
  --expected_;
  if (ended_) return;
  try {
    take(in);
  } catch (const std::bad_alloc&) {
    out_of_memory();
  }
  // Resumes the reader in the pass that received its bytes; it may destroy the Stream.
  if (served_ == nullptr) return;
  stream_read_operation& op = *std::exchange(served_, nullptr);
  reactor& at = *op.home();
  at.may_continue_inline() ? op.go_on() : at.ready(op);
}

void stream_core::take(incoming& in) {
  const result<Received> got = in.op->take_result();
  if (!got) return end(first_cause_or(got.why()));
  if (got->op == transport::opcode::recv_write_imm) {
    if (!to_peer_ || end_heard_ || !reader_.on_arrived(got->bytes)) {
      return broken("more bytes than it was told there is room for");
    }
    serve_first();
  } else {
    on_word({in.room.data(), std::min(got->bytes, room_bytes)});
    if (ended_) return;
  }
  reader_.give_back();
  // While this side closes no receive can be posted; the remaining ones still receive messages.
  if (endpoint_.state() != endpoint_state::closing || expected_ == 0) expect(in);
  pump();
}

void stream_core::on_word(std::span<const std::byte> text) {
  if (text.size() != word_bytes) return broken("a word of another length");
  const auto what = static_cast<word>(load<std::uint32_t>(&text[0]));
  if ((what == word::hello) == to_peer_.has_value()) {
    return broken(to_peer_ ? "a second greeting" : "its first word is no greeting");
  }
  switch (what) {
    case word::hello: return on_hello(text);
    case word::window:
      if (!to_peer_->flow.on_told(load<std::uint64_t>(&text[8]), load<std::uint64_t>(&text[16]))) {
        broken("it has read what was not written");
      }
      return;
    case word::end:
      end_heard_ = true;
      serve_readers();
      return;
    case word::mapped: {
      const result<RemoteMemory> memory = RemoteMemory::import(text.subspan(24));
      if (!memory || !mapped_.add_theirs(*memory)) broken("what it mapped is no memory");
      return;
    }
  }
  broken("an unknown word");
}

void stream_core::on_hello(std::span<const std::byte> text) {
  const auto theirs = load<std::uint32_t>(&text[4]);
  if (theirs != version) {
    return end({errc::unsupported_version, "the peer's stream is of version " +
                                               std::to_string(theirs) + ", this side's of " +
                                               std::to_string(version)});
  }
  const auto window = load<std::uint64_t>(&text[8]);
  const auto notices = load<std::uint64_t>(&text[16]);
  const result<RemoteMemory> memory = RemoteMemory::import(text.subspan(24));
  const bool fits = window >= 1 && window <= most_window && notices >= protocol::least_notices &&
                    notices <= most_notices && memory && memory->size() >= window;
  if (!fits) return broken("a greeting that makes no sense");
  // Allocates at most this side's own window, however much the peer offers.
  result<MemoryRegion> room =
      context_.allocate(std::min<std::uint64_t>(window, options_.window_bytes));
  if (!room) return end(room.why());
  CORDMA_ASSERT(!to_peer_);
  mapped_.prepare();
  to_peer_.emplace(
      outlet{.flow = protocol::stream_sender(window, static_cast<std::uint32_t>(notices)),
             .ring = memory->slice(0, window).value(),
             .staged = staging_ring(std::move(*room))});
  if (hello_said_) to_peer_->flow.speak();
  changed_.set();
}

void stream_core::broken(const char* what) noexcept {
  end(failure::of(errc::connection_aborted, {"the peer is no stream: ", what}));
  endpoint_.abort();
}

void stream_core::out_of_memory() noexcept {
  end(errc::no_memory);
  endpoint_.abort();
}

// Received bytes can still be read.
void stream_core::end(failure why) noexcept {
  if (ended_) return;
  CORDMA_ASSERT_OP(why.code(), !=, errc::ok);
  ended_ = std::move(why);
  cut_short_ = !writers_.empty();
  while (!writers_.empty()) writers_.front().fail(*ended_);
  serve_readers();
  changed_.set();
}

// ---- reading ----

std::span<const std::byte> stream_core::peek() const noexcept {
  const std::uint64_t at = reader_.consumed() % options_.window_bytes;
  const std::uint64_t bytes = std::min(reader_.available(), options_.window_bytes - at);
  return {ring_.data() + at, bytes};
}

void stream_core::consume(std::size_t bytes) noexcept {
  reader_.consume(bytes);
  if (reader_.has_to_tell()) pump();
}

void stream_core::read(stream_read_operation& op) noexcept {
  CORDMA_ASSERT_OP(op.got_, ==, 0U);
  op.set_phase(operation_base::phase::queued);
  if (readers_.empty() && fill(op)) {
    finish(op);
  } else {
    readers_.push_back(op);
  }
  if (reader_.has_to_tell()) pump();
}

// Copies the available bytes. True if the operation is done.
bool stream_core::fill(stream_read_operation& op) noexcept {
  const std::size_t whole = op.into_.size();
  while (op.got_ < whole && reader_.available() != 0) {
    const std::span<const std::byte> here = peek();
    const std::size_t n = std::min(here.size(), whole - op.got_);
    std::memcpy(op.into_.data() + op.got_, here.data(), n);
    op.got_ += n;
    reader_.consume(n);
  }
  return op.has_enough() || is_over() || ended_;
}

// REQUIRES that the operation is done.
void stream_core::finish(stream_read_operation& op) noexcept {
  if (op.has_enough() || is_over()) return op.finish();
  op.fail(*ended_);
}

void stream_core::serve_readers() noexcept {
  while (!readers_.empty()) {
    stream_read_operation& op = readers_.front();
    if (!fill(op)) break;
    op.unlink();
    finish(op);
  }
  if (reader_.has_to_tell()) pump();
}

// If these bytes are all that the first waiting reader needs, it resumes when on_received()
// returns.
void stream_core::serve_first() noexcept {
  CORDMA_ASSERT(served_ == nullptr);
  if (!readers_.empty()) {
    stream_read_operation& op = readers_.front();
    if (!fill(op)) return;  // take() pumps
    if (op.has_enough() && op.awaited()) {
      op.unlink();
      op.set_phase(operation_base::phase::done);
      served_ = &op;
    }
  }
  serve_readers();
}

failure stream_core::out_of_place() noexcept {
  const reactor* const at = home();
  if (at == nullptr) return {errc::shutdown, "its Worker is gone"};
  return at->wrong_thread("a Stream may only be used on the thread of its Worker");
}

// After the end of the connection, its last bytes may still be in flight to the readers, which
// receive the end after them.
failure stream_core::why_not() const noexcept {
  if (own_end_ != own_end::open) return {errc::not_connected, "this side has ended what it writes"};
  return ended_ ? *ended_ : first_cause_or(errc::not_connected);
}

failure stream_core::first_cause_or(failure other) const noexcept {
  const failure* const cause = endpoint_.first_cause();
  return cause != nullptr ? *cause : std::move(other);
}

// ---- memory that is mapped, and the end ----

result<std::uint32_t> stream_core::map(const MemoryRegion& memory) {
  if (!is_in_place()) return out_of_place();
  if (!is_writable()) return why_not();
  const result<std::vector<std::byte>> blob = memory.export_blob();
  if (!blob) return blob.why();
  if (memory.all().region()->context != endpoint_.core().context()) {
    return failure{errc::invalid_value, "the region belongs to another Context"};
  }
  if (!has(memory.rights(), access::remote_write)) {
    return failure{errc::not_permitted, "what a peer writes to needs access::remote_write"};
  }
  const result<std::uint32_t> number = mapped_.add_mine(memory);
  if (number) pump();
  return number;
}

result<RemoteSlice> stream_core::mapped(std::uint32_t number, std::uint64_t offset,
                                        std::uint64_t bytes) const {
  if (!is_writable()) return why_not();
  return mapped_.theirs(number, offset, bytes);
}

result<void> stream_core::shutdown_send() noexcept {
  if (own_end_ == own_end::open) {
    if (ended_) return *ended_;
    own_end_.become(own_end::due);
  }
  pump();
  return {};
}

bool stream_core::drained() const noexcept {
  return own_end_ >= own_end::said &&
         std::ranges::none_of(sends_, [](const outgoing& o) { return o.busy; });
}

// A peer that has sent its own end, and closed, has missed only the notification of this side's
// end.
std::optional<failure> stream_core::loss() const noexcept {
  const std::uint64_t sent = to_peer_ ? to_peer_->flow.sent() : 0;
  CORDMA_ASSERT_OP(there_, <=, sent);
  const failure* const cause = endpoint_.first_cause();
  const bool peer_closed = end_heard_ && cause != nullptr && cause->code() == errc::not_connected;
  const bool all_there = !cut_short_ && to_peer_ && there_ == sent;
  if (all_there && ((own_end_ == own_end::there && all_seen_) || peer_closed)) return {};
  if (ended_) return ended_;
  return first_cause_or(errc::connection_reset);
}

}  // namespace cordma::detail
