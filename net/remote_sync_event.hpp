// RemoteSyncEvent: a SyncEvent of a peer, used over a connection.
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

// Move-only; bound to the thread of its Endpoint. REQUIRES that neither it nor its Endpoint is
// destroyed before the operations on it have ended. It has no options: the event's owner sets its
// rights. Calls throw bad_state before the start, not_permitted if the event's location is not
// remote, and the errors of Endpoint's operations: remote_access once the event is destroyed, which
// ends the connection. Nothing allocates after the start.
class RemoteSyncEvent {
 public:
  // Parses the blob of SyncEvent::export_remote(), which is not trusted. Errors: invalid_value
  // (truncated, damaged, of another kind, without a key or with more than fit),
  // unsupported_version; not_supported if no transport of this Context reaches it, preserves the
  // order of its messages, or has the atomics that its publishers need. Keys of transports that
  // this build does not know are skipped.
  [[nodiscard]] static result<RemoteSyncEvent> import(const Context& context,
                                                      std::span<const std::byte> blob);
  RemoteSyncEvent(RemoteSyncEvent&&) noexcept;
  RemoteSyncEvent& operator=(RemoteSyncEvent&&) noexcept;
  ~RemoteSyncEvent();

  // `over` is a connection to the process of the event; it must not be moved. Errors: bad_state
  // (started before), not_connected, not_supported (its transport lacks atomics, or the event is
  // not exported on it), invalid_value (of another Context), no_memory, no_lock.
  result<void> start(Endpoint& over);
  // Number of keys in the blob that this build has no transport for.
  [[nodiscard]] std::size_t skipped() const noexcept;

  // Reads the counter (eight bytes). Calls run one at a time, in FIFO order.
  [[nodiscard]] task<std::uint64_t> get();
  // Writes the counter (eight bytes), and sends a notice if the owner wants notices. Calls run one
  // at a time, in FIFO order. Done as Endpoint::write() is; a later get() sees the value. Data
  // written before over the same connection is visible to any reader that sees the value. If such a
  // write may be seen half done (without capabilities::whole_words), it uses compare and swap,
  // repeated while others change the counter; this requires service rc. A set by the event's owner
  // during such a set is undone until this one is done, and for good if this one ends early:
  // canceled, or with its connection.
  [[nodiscard]] task<void> set(std::uint64_t value);
  // Returns the counter before. On cancellation, also of set(): it may have been executed, and a
  // waiter at the owner may see the change only with the next notice.
  [[nodiscard]] task<std::uint64_t> add(std::uint64_t value);

 private:
  explicit RemoteSyncEvent(std::unique_ptr<detail::remote_sync> core) noexcept;
  std::unique_ptr<detail::remote_sync> core_;
};

}  // namespace cordma
