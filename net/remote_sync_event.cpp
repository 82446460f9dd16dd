#include <cordma/net/remote_sync_event.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/memory/blob.hpp>
#include <cordma/net/memory/key_names.hpp>
#include <cordma/runtime/mutex.hpp>

#include <string>
#include <utility>

namespace cordma {

using transport::opcode;
using transport::service;

namespace detail {

static_assert(sync_blob::bytes == 88, "a peer of the same release reads it");

struct remote_sync {
  remote_sync(const Context& c, const sync_blob& b)
      : context(c),
        word(b.word.addr, b.word.length, b.word.keys),
        rights(b.word.rights),
        imm(b.imm),
        notices(b.notices) {}

  // Throws if the event cannot be used in this way.
  void check(access wanted, const char* who) const;

  Context context;
  RemoteSlice word;
  access rights;
  std::uint32_t imm;
  bool notices;
  Endpoint* over = nullptr;  // null until it is started
  // The first word receives data that is read; written data starts at the second.
  MemoryRegion room;
  std::uint64_t last_seen = 0;  // value of the counter; may have changed since
  mutex reading;
  mutex writing;
};

void remote_sync::check(access wanted, const char* who) const {
  if (over == nullptr) {
    throw_error({errc::bad_state, "this RemoteSyncEvent is not started: start() it first"});
  }
  if (!has(rights, wanted)) {
    throw_error(failure::of(errc::not_permitted, {"the SyncEvent was made with its ", who,
                                                  " elsewhere than sync_location::remote"}));
  }
}

namespace {

// Returns why publishers or subscribers cannot use this transport; "" if they can.
std::string obstacle(const remote_sync& event, const transport::capabilities& c) {
  if (event.word.rkey(c.transport) == 0) return "the SyncEvent was not exported on it";
  const bool adds = has(event.rights, access::remote_atomic);
  if (adds && !c.supports(service::rc, opcode::fetch_add)) return "it has no atomics";
  if (!c.ordered_path) return "a notice could overtake the change it follows";
  return {};
}

task<std::uint64_t> read_counter(remote_sync* event) {
  event->check(access::remote_read, "subscriber");
  const mutex::guard mine = co_await event->reading.lock();
  const Slice into = event->room.all().first(sizeof(std::uint64_t));
  co_await event->over->read(event->word, into);
  event->last_seen = event->room.as<std::uint64_t>()[0];
  co_return event->last_seen;
}

// Notifies the owner of the preceding change. It addresses zero bytes of the event, so a peer that
// no longer has the event refuses the notice, even if no receives are posted for notices.
send_operation notice(remote_sync* event) {
  const RemoteSlice nothing = event->word.slice(0, 0).value();
  return event->over->write_imm(nothing, Slice(), event->imm).solicited();
}

// Replaces all eight bytes at once if a write would not do so, even while other peers change the
// counter.
task<void> swap_counter(remote_sync* event, std::uint64_t value) {
  for (;;) {
    const std::uint64_t expected = event->last_seen;
    const std::uint64_t found = co_await event->over->compare_swap(event->word, expected, value);
    event->last_seen = found == expected ? value : found;
    if (found == expected) break;
  }
  if (event->notices) co_await notice(event);
}

task<void> write_counter(remote_sync* event, std::uint64_t value) {
  event->check(access::remote_write, "publisher");
  const mutex::guard mine = co_await event->writing.lock();
  if (!event->over->core().caps().whole_words) {
    co_await swap_counter(event, value);
    co_return;
  }
  const Slice from = event->room.all().part(sizeof(std::uint64_t), sizeof(std::uint64_t));
  event->room.as<std::uint64_t>()[1] = value;
  send_operation writing = event->over->write(event->word, from).start();
  if (event->notices) {
    send_operation telling = notice(event).start();
    const result<void> written = co_await writing.result();
    const result<void> told = co_await telling.result();
    written.value();
    told.value();
  } else {
    co_await writing;
  }
}

task<std::uint64_t> add_counter(remote_sync* event, std::uint64_t value) {
  event->check(access::remote_atomic, "publisher");
  atomic_operation adding = event->over->fetch_add(event->word, value).start();
  if (event->notices) {
    send_operation telling = notice(event).start();
    const result<std::uint64_t> before = co_await adding.result();
    const result<void> told = co_await telling.result();
    if (before) told.value();
    co_return before.value();
  }
  const std::uint64_t before = co_await adding;
  co_return before;
}

}  // namespace
}  // namespace detail

RemoteSyncEvent::RemoteSyncEvent(std::unique_ptr<detail::remote_sync> core) noexcept
    : core_(std::move(core)) {}
RemoteSyncEvent::RemoteSyncEvent(RemoteSyncEvent&&) noexcept = default;
RemoteSyncEvent& RemoteSyncEvent::operator=(RemoteSyncEvent&&) noexcept = default;
RemoteSyncEvent::~RemoteSyncEvent() = default;

result<RemoteSyncEvent> RemoteSyncEvent::import(const Context& context,
                                                std::span<const std::byte> blob) {
  const result<detail::sync_blob> b = detail::decode_sync(blob);
  if (!b) return b.why();
  auto core = std::make_unique<detail::remote_sync>(context, *b);
  std::string reasons;
  for (const transport::capabilities& c : context.transports()) {
    const std::string why = detail::obstacle(*core, c);
    if (why.empty()) return RemoteSyncEvent(std::move(core));
    reasons += "; " + std::string(transport::name(c.transport)) + ": " + why;
  }
  return failure{
      errc::not_supported,
      "no transport of this Context can be used with the SyncEvent, which has keys for " +
          std::string(detail::key_names(core->word.keys()).text()) + reasons};
}

std::size_t RemoteSyncEvent::skipped() const noexcept {
  return detail::unknown_among(core_->word.keys());
}

result<void> RemoteSyncEvent::start(Endpoint& over) {
  if (core_->over != nullptr) {
    return failure{errc::bad_state, "a RemoteSyncEvent is started once: import another"};
  }
  const detail::endpoint_core& e = over.core();
  if (e.home() != nullptr && !e.home()->on_owner_thread()) {
    return e.home()->wrong_thread("endpoints may only be used on the thread of their Worker");
  }
  if (e.context() != core_->context.core()) {
    return failure{errc::invalid_value, "the Endpoint is of another Context"};
  }
  if (over.state() != endpoint_state::connected) {
    return failure{errc::not_connected, "the Endpoint is " + std::string(name(over.state())) +
                                            ": a RemoteSyncEvent needs a connection"};
  }
  const std::string why = detail::obstacle(*core_, e.caps());
  if (!why.empty()) {
    return failure{errc::not_supported, "the connection is over " +
                                            std::string(transport::name(over.transport())) +
                                            ", and " + why};
  }
  result<MemoryRegion> room = core_->context.allocate(2 * sizeof(std::uint64_t));
  if (!room) return room.why();
  core_->room = std::move(*room);
  CORDMA_ASSERT_OP(core_->room.size(), >=, 2 * sizeof(std::uint64_t));
  CORDMA_ASSERT_OP(core_->word.size(), ==, sizeof(std::uint64_t));
  core_->over = &over;
  return {};
}

task<std::uint64_t> RemoteSyncEvent::get() { return detail::read_counter(core_.get()); }
task<void> RemoteSyncEvent::set(std::uint64_t value) {
  return detail::write_counter(core_.get(), value);
}
task<std::uint64_t> RemoteSyncEvent::add(std::uint64_t value) {
  return detail::add_counter(core_.get(), value);
}

}  // namespace cordma
