// Worker: a reactor with the completion queues of every transport; where endpoints live.
#pragma once

#include <cordma/net/connect.hpp>
#include <cordma/net/context.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/listener.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>

#include <memory>
#include <string>

namespace cordma {

struct worker_counters {
  std::uint64_t stale_completions = 0;  // of requests nobody waits for any more; dropped
  std::size_t inflight = 0;             // requests posted and not complete, over all endpoints
};

struct listen_options {
  std::optional<transport::kind> transport;  // empty: every transport of the Context
};

// Bound to one thread, like the reactor it owns or borrows: only post() and wake() may be called from
// others. Endpoints, listeners and requests may outlive it; they are closed then.
class Worker {
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

  // "host:port"; see connect_operation. The address is copied.
  connect_operation connect(std::string to, const connect_options& options = {});
  // "host:port", ":0". Errors: invalid_value, in_use (port taken: says by what transport),
  // not_permitted, no_memory.
  [[nodiscard]] result<Listener> listen(std::string_view where, const listen_options& options = {});

  // Any thread: `work()` runs on this Worker's thread. Allocates; must not throw.
  template <class Work>
  void post(Work work) {
    loop_->post(std::move(work));
  }
  // Any thread, and signal handlers.
  void wake() noexcept { loop_->wake(); }

  [[nodiscard]] worker_counters counters() const noexcept;

 private:
  std::unique_ptr<cordma::reactor> owned_;
  cordma::reactor* loop_;
  std::unique_ptr<detail::worker_core> core_;
};

}  // namespace cordma
