#include <cordma/net/worker.hpp>

#include <cordma/net/detail/listener_core.hpp>
#include <cordma/net/detail/worker_core.hpp>

namespace cordma {

Worker::Worker(Context& context, const reactor_options& options)
    : owned_(std::make_unique<cordma::reactor>(options)),
      loop_(owned_.get()),
      core_(std::make_unique<detail::worker_core>(context.core(), *loop_)) {}

Worker::Worker(Context& context, reactor& shared)
    : loop_(&shared), core_(std::make_unique<detail::worker_core>(context.core(), shared)) {}

Worker::~Worker() = default;

connect_operation Worker::connect(std::string to, const connect_options& options) {
  return connect_operation(*core_, std::move(to), options);
}

result<Listener> Worker::listen(std::string_view where, const listen_options& options) {
  if (!loop_->on_owner_thread()) {
    return failure{errc::no_lock, "a Worker may only be used on its own thread"};
  }
  const result<transport::address> address = parse_address(where);
  if (!address) return address.why();
  auto core = std::make_unique<detail::listener_core>();
  const result<void> opened = core->open(*core_, *address, options.transport);
  if (!opened) return opened.why();
  return Listener(std::move(core));
}

worker_counters Worker::counters() const noexcept {
  return {.stale_completions = core_->stale_completions, .inflight = core_->in_flight};
}

}  // namespace cordma
