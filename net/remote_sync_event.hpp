// RemoteSyncEvent: somebody else's SyncEvent, used over a connection.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/runtime/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace cordma {

class Endpoint;

namespace detail {
struct remote_sync;
}

// Bound to the thread of its Endpoint, move-only; neither goes before what it was asked for has ended.
// There is nothing to configure: what it may do, its owner decided. Calls throw bad_state before the
// start, not_permitted where the event's location is not remote, and what Endpoint's operations throw:
// remote_access once the event is gone, which ends the connection. Nothing allocates after the start.
class RemoteSyncEvent {
 public:
  // What SyncEvent::export_remote() gave; never trusted. Errors: invalid_value (truncated, damaged, of
  // something else, with no key or more than fit), unsupported_version; not_supported where no transport
  // of this Context reaches it, keeps the order of what it sends, or has the atomics that its publishers
  // need. Keys of transports that this build does not know are skipped.
  [[nodiscard]] static result<RemoteSyncEvent> import(const Context& context,
                                                      std::span<const std::byte> blob);
  RemoteSyncEvent(RemoteSyncEvent&&) noexcept;
  RemoteSyncEvent& operator=(RemoteSyncEvent&&) noexcept;
  ~RemoteSyncEvent();

  // `over` is a connection to the process of the event, and stays where it is. Errors: bad_state
  // (started before), not_connected, not_supported (its transport lacks atomics, or the event is not
  // exported on it), invalid_value (of another Context), no_memory, no_lock.
  result<void> start(Endpoint& over);
  // Keys of the blob that this build has no transport for.
  [[nodiscard]] std::size_t skipped() const noexcept;

  // The counter, by a read of eight bytes; one at a time, first come first served.
  [[nodiscard]] task<std::uint64_t> get();
  // A write of eight bytes, and a notice where the owner wants them; one at a time, first come first
  // served. Done as Endpoint::write() is; a later get() sees it. What was written before over
  // the same connection is visible to whoever sees it. Where such a write may be seen half done
  // (without capabilities::whole_words), a compare and swap, again while others change the counter: that takes
  // service rc. A set by the event's owner that falls into one is undone there until this one is done,
  // and for good where this one ends before: canceled, or with its connection.
  [[nodiscard]] task<void> set(std::uint64_t value);
  // Returns the counter before. On cancellation, of set() as well: it may have happened, and a waiter
  // there may hear of it only with the next notice.
  [[nodiscard]] task<std::uint64_t> add(std::uint64_t value);

 private:
  explicit RemoteSyncEvent(std::unique_ptr<detail::remote_sync> core) noexcept;
  std::unique_ptr<detail::remote_sync> core_;
};

}  // namespace cordma
