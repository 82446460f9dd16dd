#include <cordma/net/stream.hpp>

#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/streams/stream_core.hpp>
#include <cordma/runtime/timeout.hpp>

#include <utility>

namespace cordma {

// ---- reading ----

stream_read_operation::stream_read_operation(detail::stream_core& stream, std::span<std::byte> into,
                                             detail::stream_extent until) noexcept
    : operation(stream.home()), stream_(&stream), into_(into), until_(until) {}

void stream_read_operation::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("read"));
  finish();
}

void stream_read_operation::do_start() noexcept {
  if (!stream_->is_in_place()) [[unlikely]]
    return fail(stream_->out_of_place());
  stream_->read(*this);
}

void stream_read_operation::do_cancel() noexcept {
  unlink();
  fail(errc::canceled);
}

// ---- writing ----

stream_write_operation::stream_write_operation(detail::stream_core& stream,
                                               std::span<const std::byte> bytes,
                                               detail::stream_extent until) noexcept
    : operation(stream.home()), stream_(&stream), bytes_(bytes), until_(until) {}

stream_write_operation::stream_write_operation(detail::stream_core& stream,
                                               const Slice& bytes) noexcept
    : operation(stream.home()),
      stream_(&stream),
      bytes_(bytes.data(), bytes.size()),
      registered_(bytes),
      until_(detail::stream_extent::whole) {}

stream_write_operation::stream_write_operation(stream_write_operation&& other) noexcept
    : operation(std::move(other)),
      stream_(other.stream_),
      bytes_(other.bytes_),
      registered_(other.registered_),
      written_(other.written_),
      under_way_(std::exchange(other.under_way_, 0)),
      until_(other.until_) {
  if (under_way_ != 0) stream_->moved(other, *this);
}

stream_write_operation::~stream_write_operation() {
  const bool waits = state() == phase::queued && linked();
  if (waits) unlink();
  if (under_way_ != 0) stream_->left(*this);
  if (waits) stream_->pump();  // as in do_cancel()
}

void stream_write_operation::end() noexcept {
  unlink();
  set_phase(phase::posted);
  if (under_way_ == 0) finish();
}

void stream_write_operation::fail(failure why) noexcept {
  if (!failure_) failure_ = std::move(why.with_operation("write"));
  end();
}

void stream_write_operation::do_start() noexcept {
  if (!stream_->is_in_place()) [[unlikely]]
    return fail(stream_->out_of_place());
  stream_->write(*this);
}

// The writes behind it may now fit, and the end may have waited only for this one.
void stream_write_operation::do_cancel() noexcept {
  if (state() != phase::queued) return;
  detail::stream_core& stream = *stream_;
  const bool counts = registered_.region() != nullptr || until_ == detail::stream_extent::some;
  const bool resolves = written_ != 0 && counts;
  resolves ? end() : fail(errc::canceled);
  stream.pump();
}

// ---- Stream ----

Stream::Stream() noexcept = default;
Stream::Stream(std::unique_ptr<detail::stream_core> core) noexcept : core_(std::move(core)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

task<Stream> Stream::open(Context context, Endpoint connected, stream_options options) {
  auto core = std::make_unique<detail::stream_core>(context, std::move(connected), options);
  try {
    co_await with_timeout(core->endpoint().actual().connect_timeout, core->start());
  } catch (const error& e) {
    if (e.condition() != errc::timed_out) throw;
    throw_error({errc::timed_out, "the peer has said no word of a stream within connect_timeout"});
  }
  co_return Stream(std::move(core));
}

stream_read_operation Stream::read_some(std::span<std::byte> into) noexcept {
  return stream_read_operation(*core_, into);
}
stream_write_operation Stream::write_some(std::span<const std::byte> bytes) noexcept {
  return stream_write_operation(*core_, bytes);
}

namespace {

void require_alive(const std::weak_ptr<const char>& life) {
  if (life.expired()) throw_error({errc::shutdown, "the Stream is gone"});
}

}  // namespace

// The Stream may be moved, or destroyed, while these run.
task<void> Stream::read(std::span<std::byte> into) {
  if (into.empty()) co_return;
  stream_read_operation all(*core_, into, detail::stream_extent::whole);
  const std::size_t n = co_await all;
  if (n != into.size())
    throw_error({errc::truncated, "the stream ended before all of it was read"});
}

task<void> Stream::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  stream_write_operation all(*core_, bytes, detail::stream_extent::whole);
  co_await all;
}

stream_write_operation Stream::write(const Slice& bytes) noexcept {
  return stream_write_operation(*core_, bytes);
}

std::span<const std::byte> Stream::peek() const noexcept {
  if (core_->home() != nullptr && !core_->home()->enter()) return {};
  return core_->peek();
}
void Stream::consume(std::size_t bytes) noexcept {
  if (core_->home() != nullptr && !core_->home()->enter()) return;
  core_->consume(bytes);
}

result<std::uint32_t> Stream::map(const MemoryRegion& memory) { return core_->map(memory); }

send_operation Stream::write_at(std::uint32_t number, std::uint64_t offset,
                                const Slice& bytes) noexcept {
  const result<RemoteSlice> to = core_->mapped(number, offset, bytes.size());
  if (to) return core_->endpoint().write(*to, bytes);
  send_operation refused(core_->endpoint().core(), transport::opcode::write);
  refused.refuse(to.why());
  return refused;
}

result<void> Stream::shutdown_send() noexcept {
  if (!core_->is_in_place()) return core_->out_of_place();
  return core_->shutdown_send();
}

task<void> Stream::close() {
  detail::stream_core& core = *core_;
  const std::weak_ptr<const char> life = core.life();
  const result<void> said = shutdown_send();
  while (said && !core.has_ended() && !core.drained()) {
    co_await core.next_change();
    require_alive(life);
  }
  // A sent request has not arrived: on shm it is done once it is in the ring.
  send_operation arriving = core.endpoint().flush();
  const result<void> arrived = co_await arriving.result();
  require_alive(life);
  if (arrived.ok()) core.note_all_seen();
  co_await core.endpoint().close();
  require_alive(life);
  // The peer's last messages, including its end, may still be in flight.
  while (said && !core.has_ended()) {
    co_await core.next_change();
    require_alive(life);
  }
  if (std::optional<failure> why = core.loss()) throw_error(std::move(*why));
}

Endpoint& Stream::endpoint() noexcept { return core_->endpoint(); }

}  // namespace cordma
