// Worker: a reactor with the completion queues of every transport; where endpoints live.
#pragma once

#include <cordma/net/connect.hpp>
#include <cordma/net/context.hpp>
#include <cordma/net/datagram.hpp>
#include <cordma/net/device_event.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/listener.hpp>
#include <cordma/net/user_data.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>

#include <memory>
#include <string>

struct rdma_cm_event;

namespace cordma {

using transport::wake_reason;

struct worker_counters {
  std::uint64_t stale_completions = 0;  // of requests nobody waits for any more; dropped
  // Of requests that never were. Nobody is resumed with what they say: all connections of that
  // transport end, everything in flight on them is flushed once, and this Worker makes no new ones
  // with it.
  std::uint64_t corrupt_completions = 0;
  std::size_t inflight = 0;   // requests posted and not complete, over all endpoints
  std::size_t endpoints = 0;  // alive: connecting, connected, or closed and not destroyed
};

struct listen_options {
  std::optional<transport::kind> transport;  // empty: every transport of the Context
  // plain: for programs without cordma, and for them only; on the transports that reach such peers.
  transport::peer_kind peers = transport::peer_kind::cordma;
  // "[::]:port" and ":port" take IPv6 only, and leave the port to an IPv4 listener beside. Over verbs; with
  // another transport of the Context in it, not_supported: narrow `transport`.
  bool ipv6_only = false;
};

// Memory to memory on this host. Done when it returns; awaited like everything else, because not
// every engine will be a memcpy. Of nothing it succeeds, and looks at no region. Errors: invalid_value (lengths differ, the two overlap, memory of
// another Context), not_permitted (the target lacks local_write), not_supported (device memory), no_lock.
// REQUIRES that its Worker lives when it is started.
class [[nodiscard]] copy_operation final : public operation<copy_operation, void> {
 public:
  copy_operation(detail::worker_core& worker, const Slice& to, const Slice& from) noexcept;
  copy_operation(copy_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  void do_start() noexcept;
  void do_cancel() noexcept {}
  void take() noexcept {}

  detail::worker_core* worker_;
  Slice to_;
  Slice from_;
};

// Bound to one thread, like the reactor it owns or borrows: the one that made it, or that ran it last.
// run() takes it over while nobody else runs it; only post() and wake() may be called from any thread.
// What returns an error says no_lock where the thread is wrong; what returns none ends the program.
// Endpoints, listeners and requests may outlive it; they are closed then.
class Worker : public user_data_holder {
 public:
  // With a reactor of its own. Throws cordma::error: no_memory, not_supported (a transport that
  // cannot wake a sleeper, in a mode that sleeps).
  explicit Worker(Context& context, const reactor_options& options = {});
  // On a reactor that others use as well; it must outlive the Worker.
  Worker(Context& context, reactor& shared);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  [[nodiscard]] cordma::reactor& loop() noexcept { return *loop_; }

  // Runs this thread's loop until `main` is done; see cordma::run().
  template <class T>
  T run(task<T> main) {
    return cordma::run(*loop_, std::move(main));
  }

  // One pass of this thread's loop by hand, for programs that have a loop of their own. At most
  // `most` requests of this Worker complete in it, not counting those that were complete when they
  // were posted; events of connections, timers and what was ready come on top. Never waits. How many
  // things happened; 0: nothing was there. Errors: bad_state (from inside a coroutine of this loop),
  // no_lock. REQUIRES most > 0.
  [[nodiscard]] result<std::size_t> poll(std::size_t most = 32);

  // "host:port"; see connect_operation. The address is copied.
  connect_operation connect(std::string to, const connect_options& options = {});
  // The same without waiting: an Endpoint that is connecting, and that can be used at once. Two-sided
  // messages, receives and flushes started meanwhile wait, and are carried out in order once it is
  // connected (tagged and active messages and calls likewise, where options.messages are given); where
  // connecting fails, they end as flushed and first_cause() says why. One-sided
  // operations need the transport to be known: until state_changed() they fail with not_connected,
  // and transport(), actual() and the addresses mean nothing. `options.private_data` is copied. The
  // address may be that of a Listener on this very Worker. Errors: no_lock.
  [[nodiscard]] result<Endpoint> endpoint(std::string to, const connect_options& options = {});
  // "host:port", ":0". Errors: invalid_value, in_use (port taken: says by what transport), unreachable (the host
  // is not known, or the address is none of this host's), not_supported (no transport of this Context is, or has,
  // what the options say), not_permitted, no_memory.
  [[nodiscard]] result<Listener> listen(std::string_view where, const listen_options& options = {});

  // For programs that listen by librdmacm themselves: the client of an RDMA_CM_EVENT_CONNECT_REQUEST of
  // theirs, to be accepted or rejected here. Takes the event, which is acknowledged, and its identifier,
  // which leaves the program's event channel; on an error it is rejected. Errors: invalid_value (another
  // event, which stays the program's; another device than this Context's), unsupported_version,
  // connection_aborted (the client does not speak as cordma does), not_supported (the Context has no
  // verbs; the event stays the program's), no_lock (likewise). The same listener may have plain clients
  // too: who they are the program knows, say by what event->param.conn.private_data begins with.
  [[nodiscard]] result<ConnectionRequest> adopt(
      rdma_cm_event* event, transport::peer_kind whom = transport::peer_kind::cordma);

  // An Endpoint that is connected by descriptors, which the program carries: see
  // Endpoint::descriptor(). Empty `over`: the first transport that can. With `messages` it carries tagged and
  // active messages, as by connect_options::messages. Errors: not_supported, invalid_value, no_memory, full.
  [[nodiscard]] result<Endpoint> prepare(const endpoint_options& options = {},
                                         std::optional<transport::kind> over = {},
                                         Messages* messages = nullptr);

  // A port for datagrams; `options.type` is ud whatever it says, `options.qkey` the key that senders
  // must hold. Empty `over`: the first transport that has datagrams. Errors: not_supported (none
  // has), invalid_value, no_memory, full, no_lock.
  [[nodiscard]] result<DatagramEndpoint> datagram(const endpoint_options& options = {},
                                                  std::optional<transport::kind> over = {});

  // Done when everything started on every connected rc endpoint is done and visible at its target;
  // uc endpoints and datagram ports have nobody to ask. Allocates once. Throws the first error after
  // waiting for all.
  [[nodiscard]] task<void> flush();
  copy_operation copy(const Slice& to, const Slice& from) noexcept;

  // From now on connect() and accept() fail with `full` while so many endpoints live; a request that
  // is not accepted for it can be accepted later, and is rejected where it is dropped. 0: no limit of
  // our own.
  void limit_endpoints(std::size_t most) noexcept;

  // Any thread: `work()` runs on this Worker's thread. Allocates; must not throw.
  template <class Work>
  void post(Work work) {
    loop_->post(std::move(work));
  }
  // Any thread, and signal handlers.
  void wake() noexcept { loop_->wake(); }

  // What makes this Worker's wait end while it sleeps; `everything` until told otherwise. With
  // `solicited`: messages that their sender marked (post_operation::solicited()), all that comes by
  // Messages, Requests and Streams, errors, closing and connecting, its own requests, its timers. Other
  // messages are received when it wakes next; while it does not sleep there is no difference. Errors: not_supported (a transport of its Context wakes for
  // every message; nothing has changed then), no_lock.
  result<void> wake_for(wake_reason reason);

  // Writes the report of this Worker to `fd`: every endpoint that waits, and 16 of the others, with its state, its queues
  // and the age of its oldest request; the number of those left out; timers; descriptors; every suspended coroutine with
  // the chain of its callers. At most 200 lines. See reactor::dump(), whose part it is, and install_dump_handler().
  // REQUIRES its thread.
  void dump(int fd = 2) const noexcept { loop_->dump(fd); }

  // See device_event_operation. The last 64 events that nobody asked for are kept.
  device_event_operation next_device_event() noexcept;

  [[nodiscard]] worker_counters counters() const noexcept;

  // For the library.
  [[nodiscard]] detail::worker_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<cordma::reactor> owned_;
  cordma::reactor* loop_;
  std::unique_ptr<detail::worker_core> core_;
};

}  // namespace cordma
