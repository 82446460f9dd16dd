// Worker: a reactor with the completion queues of every transport, to which endpoints belong.
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
  std::uint64_t stale_completions = 0;  // of requests that were abandoned; dropped
  // Completions of requests that never existed. They resume no operation: all connections of that
  // transport end, everything in flight on them is flushed once, and this Worker makes no new ones
  // with it.
  std::uint64_t corrupt_completions = 0;
  std::size_t inflight = 0;   // requests posted and not complete, over all endpoints
  std::size_t endpoints = 0;  // alive: connecting, connected, or closed and not destroyed
};

struct listen_options {
  std::optional<transport::kind> transport;  // empty: every transport of the Context
  // plain: only for programs without cordma; on the transports that reach such peers.
  transport::peer_kind peers = transport::peer_kind::cordma;
  // "[::]:port" and ":port" accept IPv6 only, and leave the port free for a separate IPv4 listener.
  // Requires verbs; not_supported if another transport of the Context is included: narrow
  // `transport`.
  bool ipv6_only = false;
};

// Copies memory to memory on this host. Done when it returns; it is awaited like other operations,
// because not every engine will be a memcpy. An empty copy succeeds without a check of the regions.
// Errors: invalid_value (lengths differ, the two overlap, memory of another Context), not_permitted
// (the target lacks local_write), not_supported (device memory), no_lock. REQUIRES that its Worker
// lives when it is started.
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

// Bound to one thread, like the reactor it owns or borrows: the thread that created it, or that ran
// it last. run() moves it to the calling thread if no other thread runs it. Only post() and wake()
// may be called from any thread. On a wrong thread, calls that return an error return no_lock;
// other calls end the program. Endpoints, listeners and requests may outlive it; they are closed
// then.
class Worker : public user_data_holder {
 public:
  // With a separate reactor. Throws cordma::error: no_memory, not_supported (a transport that
  // cannot wake a sleeper, in a mode that sleeps).
  explicit Worker(Context& context, const reactor_options& options = {});
  // On a reactor that is shared with other users; it must outlive the Worker.
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

  // Runs one pass of this thread's loop, for programs that have a separate loop. At most `most`
  // requests of this Worker complete in it, not counting those that completed in their post call;
  // connection events, timers and ready tasks are not limited. Never waits. Returns the number of
  // events processed; 0: none. Errors: bad_state (from inside a coroutine of this loop), no_lock.
  // REQUIRES most > 0.
  [[nodiscard]] result<std::size_t> poll(std::size_t most = 32);

  // "host:port"; see connect_operation. The address is copied.
  connect_operation connect(std::string to, const connect_options& options = {});
  // The same without waiting: returns an Endpoint that is connecting, and that can be used at once.
  // Two-sided messages, receives and flushes started meanwhile wait, and are executed in order once
  // it is connected (also tagged and active messages and calls, if options.messages are set). If
  // connecting fails, they end as flushed and first_cause() returns the reason. One-sided
  // operations need a known transport: until state_changed() they fail with not_connected, and
  // transport(), actual() and the addresses have no meaning. `options.private_data` is copied. The
  // address may be that of a Listener on this very Worker. Errors: no_lock.
  [[nodiscard]] result<Endpoint> endpoint(std::string to, const connect_options& options = {});
  // "host:port", ":0". Errors: invalid_value, in_use (port in use; the message names the
  // transport), unreachable (the host is unknown, or the address is not one of this host),
  // not_supported (no transport of this Context matches or supports the options), not_permitted,
  // no_memory.
  [[nodiscard]] result<Listener> listen(std::string_view where, const listen_options& options = {});

  // For programs that listen with librdmacm: returns the client of an RDMA_CM_EVENT_CONNECT_REQUEST
  // of the program, to be accepted or rejected here. Takes the event, which is acknowledged, and
  // its identifier, which leaves the program's event channel; on an error the client is rejected.
  // Errors: invalid_value (another event, which stays the program's; another device than this
  // Context's), unsupported_version, connection_aborted (the client does not use the protocol of
  // cordma), not_supported (the Context has no verbs; the event stays the program's), no_lock
  // (likewise). The same listener may also have plain clients: the program has to identify them,
  // for example by the start of event->param.conn.private_data.
  [[nodiscard]] result<ConnectionRequest> adopt(
      rdma_cm_event* event, transport::peer_kind whom = transport::peer_kind::cordma);

  // Returns an Endpoint that is connected by descriptors, which the program transfers: see
  // Endpoint::descriptor(). Empty `over`: the first transport that supports this. With `messages`
  // it carries tagged and active messages, as by connect_options::messages. Errors: not_supported,
  // invalid_value, no_memory, full.
  [[nodiscard]] result<Endpoint> prepare(const endpoint_options& options = {},
                                         std::optional<transport::kind> over = {},
                                         Messages* messages = nullptr);

  // Returns a port for datagrams. `options.type` is ignored and treated as ud; `options.qkey` is
  // the key that senders must have. Empty `over`: the first transport that has datagrams. Errors:
  // not_supported (no transport has them), invalid_value, no_memory, full, no_lock.
  [[nodiscard]] result<DatagramEndpoint> datagram(const endpoint_options& options = {},
                                                  std::optional<transport::kind> over = {});

  // Done when everything started on every connected rc endpoint is done and visible at its target;
  // uc endpoints and datagram ports have no acknowledgement and are skipped. Allocates once. Throws
  // the first error after waiting for all.
  [[nodiscard]] task<void> flush();
  copy_operation copy(const Slice& to, const Slice& from) noexcept;

  // Limits the endpoints of this Worker: connect() and accept() fail with `full` while `most`
  // endpoints live. A request that was not accepted because of this can be accepted later, and is
  // rejected if it is dropped. 0: no limit of this Worker.
  void limit_endpoints(std::size_t most) noexcept;

  // Any thread: `work()` runs on this Worker's thread. Allocates; must not throw.
  template <class Work>
  void post(Work work) {
    loop_->post(std::move(work));
  }
  // Any thread, and signal handlers.
  void wake() noexcept { loop_->wake(); }

  // Sets which events end this Worker's wait while it sleeps; the default is `everything`. With
  // `solicited`: messages that their sender marked (post_operation::solicited()), all messages of
  // Messages, Requests and Streams, errors, closing and connecting, its own requests, its timers.
  // Other messages are received at the next wakeup; there is no difference while it does not sleep.
  // Errors: not_supported (a transport of its Context wakes for every message; nothing has changed
  // then), no_lock.
  result<void> wake_for(wake_reason reason);

  // Writes the report of this Worker to `fd`: every endpoint that waits, and 16 of the others, with
  // its state, its queues and the age of its oldest request; the number of those left out; timers;
  // descriptors; every suspended coroutine with the chain of its callers. At most 200 lines. It is
  // a part of reactor::dump(); see there, and install_dump_handler(). REQUIRES its thread.
  void dump(int fd = 2) const noexcept { loop_->dump(fd); }

  // See device_event_operation. The last 64 events that no operation waited for are kept.
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
