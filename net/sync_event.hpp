// SyncEvent: a counter of 64 bits that is set, added to, read and waited for, by this process and by
// peers over connections; remote_sync_event.hpp is their side.
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

// Who uses a SyncEvent beside the process that made it.
enum class sync_location : std::uint8_t {
  cpu,     // nobody
  remote,  // peers, over connections
  gpu,     // not_supported
  dpa,     // not_supported
};
[[nodiscard]] std::string_view name(sync_location where) noexcept;

enum class sync_notices : std::uint8_t {
  every_change,  // peers tell its owner of each change: see SyncEvent::listen()
  none,          // nobody is told: for counters that are read, not waited for
};

struct sync_event_options {
  std::optional<sync_location> publisher;   // sets and adds; must be said
  std::optional<sync_location> subscriber;  // reads and waits; must be said
  // Where the counter lies: eight bytes, aligned to eight, of this Context. It begins as what is there,
  // and keeps the region registered. Its memory has to be there until the event is stopped, which looks at
  // it once more: AddressSanitizer finds there what went too early. Peers use the region's own key: they
  // can reach all of it, and until its registration ends. Empty: memory of the event's own, which begins as 0.
  Slice backing = {};
  sync_notices notices = sync_notices::every_change;
  std::uint32_t notice = 0;  // the immediate of notices: for who receives them without listen()
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

// What a thread does between two looks at the counter.
enum class sync_wait : std::uint8_t {
  spin,     // looks again: notices at once, one core busy
  yield,    // lets others run first, where they wait for this core
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
  sync_condition condition_;  // of set and add: only its value
  std::uint64_t counter_ = 0;
  kind kind_;
};

}  // namespace detail

// T: void (set), std::uint64_t (the counter before an add; the counter that was read, or that met the
// condition). All but waits are done at once. On cancellation: a wait is withdrawn, canceled.
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

// Started once, in one of two modes: with a Worker, it is bound to its thread and its calls are
// awaited; without, its calls block and may come from any thread that is not running a reactor. What
// belongs to the other mode, or comes before the start or after stop(), fails with bad_state.
//
// A change made here wakes who waits here. A peer's change is followed, on the same connection, by a
// notice: a write of nothing, with immediate. The owner has a receive posted for each and then looks at
// the counter, so that it can sleep until one comes: listen() does both. Where nobody receives, or no
// longer does, publishers wait until the connection ends or the event is gone: say sync_notices::none
// there. An event that blocks is looked at anyway, and wants none.
//
// What is written before a set or an add is seen by who saw its outcome. The counter is never seen half
// changed. Adds wrap at 2^64. Over several transports they are atomic with each other where each is
// atomic with the CPU (capabilities::atomic_with_cpu). A set made here may be lost where it meets adds of
// one that is not, or a set by a peer of one that splits words: see RemoteSyncEvent::set().
class SyncEvent {
 public:
  // Keeps the Context. Nothing is checked until it is started.
  explicit SyncEvent(const Context& context, const sync_event_options& options) noexcept;
  SyncEvent(const SyncEvent&) = delete;
  SyncEvent& operator=(const SyncEvent&) = delete;
  // Stops it. From then on peers are refused (remote_access, which ends their connection), unless the
  // counter lies in a region of the program's. REQUIRES the Worker's thread, or that no call blocks.
  ~SyncEvent();

  // Errors: bad_state (publisher or subscriber not said; started before), not_supported (gpu, dpa;
  // a backing in device memory),
  // invalid_value (backing of other than 8 bytes, misaligned, or of another Context; `home` is of
  // another Context), not_permitted (backing without local_write, or without the rights that peers
  // need: remote_write and remote_atomic to publish, remote_read to subscribe), no_memory, no_lock.
  // The Worker may go before the event, its reactor may not.
  result<void> start(Worker& home);
  result<void> start_blocking();
  // Who waits, and listen(), end with shutdown; nothing starts it again. Errors: bad_state (not
  // started), no_lock.
  result<void> stop();

  // What RemoteSyncEvent::import() takes: versioned, checked, 88 bytes. Whoever has it can use what
  // the locations grant. Errors: bad_state, not_permitted (neither location is remote), not_supported
  // (publisher remote, and no transport of the Context has atomics), invalid_value (more transports than a
  // blob has keys for).
  [[nodiscard]] result<std::vector<std::byte>> export_remote() const;

  // Awaited. Errors: bad_state, no_lock; waits: shutdown, and invalid_value for a mask that is neither
  // 0 nor 1, 2, 4 or 8 consecutive bytes of 0xFF; add: not_supported where peers publish over a
  // transport whose atomics and the CPU's do not see each other: add through a connection then.
  sync_operation<void> set(std::uint64_t value) noexcept;
  sync_operation<std::uint64_t> add(std::uint64_t value) noexcept;
  sync_operation<std::uint64_t> get() noexcept;
  // Waits for one comparison, greater, with the whole mask resume in the order of their values, and
  // first come first served among equals; others as they came. A value that comes and goes between
  // two looks may be missed.
  sync_operation<std::uint64_t> wait(const sync_condition& until) noexcept;
  // Strictly greater: nothing is greater than 2^64 - 1.
  sync_operation<std::uint64_t> wait_gt(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;
  sync_operation<std::uint64_t> wait_eq(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;
  sync_operation<std::uint64_t> wait_ne(std::uint64_t value,
                                        std::uint64_t mask = sync_condition::whole) noexcept;

  // Receives the notices of whoever publishes at the other end of `from`, until that connection is
  // closed; one call per connection. REQUIRES that nobody else receives on `from`, now or later: a
  // message that is not empty ends the connection (truncated). Allocates when it begins. Throws
  // bad_state, no_lock; flushed where the connection broke, truncated; shutdown after stop(). On cancellation:
  // canceled, at once; the receives that are posted stay so and drop what comes for them.
  [[nodiscard]] task<void> listen(Endpoint& from);
  // Wakes who waits for what the counter is now: for programs that receive notices themselves, or that
  // look without any. REQUIRES the Worker's thread.
  void look() noexcept;
  // How many wait. Counts them.
  [[nodiscard]] std::size_t waiting() noexcept;

  // These block. Errors: bad_state (also on a thread that is running a reactor), add: as above.
  result<void> blocking_set(std::uint64_t value);
  result<std::uint64_t> blocking_add(std::uint64_t value);
  [[nodiscard]] result<std::uint64_t> blocking_get();
  // Any mask. Also timed_out, shutdown. A peer's change comes as the transport brings it: where that
  // needs the target's progress, another thread runs a Worker of this Context meanwhile.
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
  reactor* home_ = nullptr;  // null where it blocks
  MemoryRegion region_;
  std::uint64_t* counter_ = nullptr;
  std::optional<transport::kind>
      apart_;                       // peers publish over it, and it is not atomic with the CPU
  list<detail::sync_base> rising_;  // greater, with the whole mask: in order of their values
  list<detail::sync_base> others_;  // as they came
  list<listening> listeners_;
};

}  // namespace cordma
