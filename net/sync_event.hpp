// SyncEvent: a 64-bit counter that is set, added to, read and waited for, by this process and by
// peers over connections; remote_sync_event.hpp is the interface of the peers.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/memory.hpp>
#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/task.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cordma {

class Endpoint;
class SyncEvent;
class Worker;

// Users of a SyncEvent beside the process that created it.
enum class sync_location : std::uint8_t {
  cpu,     // none
  remote,  // peers, over connections
  gpu,     // not_supported
  dpa,     // not_supported
};
[[nodiscard]] std::string_view name(sync_location where) noexcept;

enum class sync_notices : std::uint8_t {
  every_change,  // peers notify its owner of each change: see SyncEvent::listen()
  none,          // no notifications: for counters that are read, not waited for
};

struct sync_event_options {
  std::optional<sync_location> publisher;   // sets and adds; required
  std::optional<sync_location> subscriber;  // reads and waits; required
  // Memory of the counter: eight bytes, aligned to eight, of this Context. The counter starts with
  // the current content, and keeps the region registered. The memory has to exist until the event
  // is stopped, which reads it once more so that AddressSanitizer detects memory that was freed too
  // early. Peers use the key of the region: they can reach all of it, until its registration ends.
  // Empty: memory of the event itself, which starts as 0.
  Slice backing = {};
  sync_notices notices = sync_notices::every_change;
  // Immediate of notices, for programs that receive them without listen().
  std::uint32_t notice = 0;
};
static_assert(std::is_trivially_destructible_v<sync_event_options>);

// `counter & mask` compared with `value`, both unsigned.
struct sync_condition {
  enum class is : std::uint8_t { greater, equal, not_equal };
  static constexpr std::uint64_t whole = ~std::uint64_t{0};
  is comparison = is::greater;
  std::uint64_t value = 0;
  std::uint64_t mask = whole;
  [[nodiscard]] constexpr bool met_by(std::uint64_t counter) const noexcept {
    const std::uint64_t masked = counter & mask;
    if (comparison == is::greater) return masked > value;
    return (masked == value) == (comparison == is::equal);
  }
};

// How a thread waits between two reads of the counter.
enum class sync_wait : std::uint8_t {
  spin,     // reads again: sees changes at once, one core busy
  yield,    // first yields to other threads that wait for this core
  suspend,  // sleeps for 50 us
};

namespace detail {

class sync_base : public operation_base {
 public:
  enum class kind : std::uint8_t { set, add, get, wait };
  sync_base(SyncEvent& event, kind what, const sync_condition& condition) noexcept;

 protected:
  friend class cordma::SyncEvent;
  void do_start() noexcept;
  void do_cancel() noexcept { fail(errc::canceled); }
  void fail(failure why) noexcept;
  void resolve(std::uint64_t counter) noexcept;

  SyncEvent* event_;
  sync_condition condition_;  // set and add use only its value
  std::uint64_t counter_ = 0;
  kind kind_;
};

}  // namespace detail

// T: void (set), std::uint64_t (the counter before an add; the counter that was read, or that met
// the condition). All except waits complete at once. On cancellation: a wait is withdrawn and fails
// with canceled.
template <class T>
class [[nodiscard]] sync_operation final
    : public operation<sync_operation<T>, T, detail::sync_base> {
  using base = operation<sync_operation<T>, T, detail::sync_base>;

 public:
  using base::base;
  sync_operation(sync_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  T take() const noexcept {
    if constexpr (!std::is_void_v<T>) return this->counter_;
  }
};

// Started once, in one of two modes. With a Worker, it is bound to the Worker's thread and its
// calls are awaited. Without one, its calls block and may be made on any thread that is not running
// a reactor. Calls of the other mode, before the start or after stop() fail with bad_state.
//
// A change by this process wakes its own waiters. A change by a peer is followed, on the same
// connection, by a notice: an empty write with immediate. The owner posts a receive for each notice
// and then reads the counter, so that it can sleep until one arrives; listen() does both. If the
// owner does not receive notices, or stops, publishers wait until the connection ends or the event
// is destroyed: use sync_notices::none then. A blocking event is polled anyway, and should use
// none.
//
// Data written before a set or an add is visible to a reader that sees its result. The counter is
// never seen half changed. Adds wrap at 2^64. Operations over several transports are atomic with
// each other if each is atomic with the CPU (capabilities::atomic_with_cpu). A set by this process
// may be lost if it coincides with adds over a transport that is not, or with a set by a peer over
// one that splits words: see RemoteSyncEvent::set().
class SyncEvent {
 public:
  // Keeps a handle to the Context. Options are checked by start().
  explicit SyncEvent(const Context& context, const sync_event_options& options) noexcept;
  SyncEvent(const SyncEvent&) = delete;
  SyncEvent& operator=(const SyncEvent&) = delete;
  // Stops the event. Peers are then refused (remote_access, which ends their connection), unless
  // the counter is in a region of the program. REQUIRES the Worker's thread, or that no call
  // blocks.
  ~SyncEvent();

  // Errors: bad_state (publisher or subscriber not set; started before), not_supported (gpu, dpa; a
  // backing in device memory), invalid_value (backing of other than 8 bytes, misaligned, or of
  // another Context; `home` is of another Context), not_permitted (backing without local_write, or
  // without the rights that peers need: remote_write and remote_atomic to publish, remote_read to
  // subscribe), no_memory, no_lock. The Worker may be destroyed before the event, its reactor may
  // not.
  result<void> start(Worker& home);
  result<void> start_blocking();
  // Ends waits and listen() with shutdown. The event cannot be started again. Errors: bad_state
  // (not started), no_lock.
  result<void> stop();

  // Returns the blob for RemoteSyncEvent::import(): versioned, checked, 88 bytes. Any process that
  // has it can use the rights that the locations grant. Errors: bad_state, not_permitted (neither
  // location is remote), not_supported (publisher remote, and no transport of the Context has
  // atomics), invalid_value (more transports than a blob has keys for).
  [[nodiscard]] result<std::vector<std::byte>> export_remote() const;

  // Awaited. Errors: bad_state, no_lock; waits: shutdown, and invalid_value for a mask that is
  // neither 0 nor 1, 2, 4 or 8 consecutive bytes of 0xFF; add: not_supported if peers publish over
  // a transport with atomics that are not atomic with the CPU: then add through a connection.
  sync_operation<void> set(std::uint64_t value) noexcept;
  sync_operation<std::uint64_t> add(std::uint64_t value) noexcept;
  sync_operation<std::uint64_t> get() noexcept;
  // Waits for one comparison, greater, with the complete mask resume in the order of their values,
  // and FIFO among equals; other waits in FIFO order. A value that is replaced between two reads
  // may be missed.
  sync_operation<std::uint64_t> wait(const sync_condition& until) noexcept;
  // Strictly greater: nothing is greater than 2^64 - 1.
  sync_operation<std::uint64_t> wait_gt(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;
  sync_operation<std::uint64_t> wait_eq(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;
  sync_operation<std::uint64_t> wait_ne(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;

  // Receives the notices of a publisher at the other end of `from`, until that connection is
  // closed; one call per connection. REQUIRES that no other receives are started on `from`, now or
  // later: a message that is not empty ends the connection (truncated). Allocates at its start.
  // Throws bad_state, no_lock; flushed if the connection failed, truncated; shutdown after stop().
  // On cancellation: fails with canceled at once; posted receives stay and drop their messages.
  [[nodiscard]] task<void> listen(Endpoint& from);
  // Wakes waiters with a condition that the current counter meets. For programs that receive
  // notices themselves, or that poll without notices. REQUIRES the Worker's thread.
  void look() noexcept;
  // Number of waiting operations; linear in that number.
  [[nodiscard]] std::size_t waiting() noexcept;

  // These block. Errors: bad_state (also on a thread that is running a reactor), add: as above.
  result<void> blocking_set(std::uint64_t value);
  result<std::uint64_t> blocking_add(std::uint64_t value);
  [[nodiscard]] result<std::uint64_t> blocking_get();
  // Accepts any mask. Also fails with timed_out, shutdown. A peer's change becomes visible as the
  // transport delivers it: if that needs progress at the target, another thread has to run a Worker
  // of this Context meanwhile.
  [[nodiscard]] result<std::uint64_t> blocking_wait(const sync_condition& until, sync_wait how,
                                                    duration timeout = duration::max());

 private:
  enum class phase : std::uint8_t { fresh, async, blocking, stopped };
  class listening;
  friend class detail::sync_base;

  [[nodiscard]] failure wrong_phase() const;
  [[nodiscard]] result<void> prepare();
  [[nodiscard]] result<void> use_backing(access needed);
  [[nodiscard]] result<void> may_block() const;
  [[nodiscard]] std::optional<failure> obstacle(const detail::sync_base& op) const;
  [[nodiscard]] std::optional<failure> obstacle_to_add() const;
  void begin(detail::sync_base& op) noexcept;
  [[nodiscard]] std::atomic_ref<std::uint64_t> counter() const noexcept {
    return std::atomic_ref(*counter_);
  }

  Context context_;
  sync_event_options options_;
  std::atomic<phase> phase_{phase::fresh};
  reactor* home_ = nullptr;  // null in blocking mode
  MemoryRegion region_;
  std::uint64_t* counter_ = nullptr;
  std::optional<transport::kind> apart_;  // peers publish over it; not atomic with the CPU
  list<detail::sync_base> rising_;        // greater, with the complete mask: sorted by value
  list<detail::sync_base> others_;        // in FIFO order
  list<listening> listeners_;
};

}  // namespace cordma
