#include <cordma/net/worker.hpp>

#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/connecting/wiring.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messaging/message_core.hpp>

#include <cstring>
#include <functional>

namespace cordma {

Worker::Worker(Context& context, const reactor_options& options)
    : owned_(std::make_unique<cordma::reactor>(options)),
      loop_(owned_.get()),
      core_(std::make_unique<detail::worker_core>(context.core(), *loop_)) {}

Worker::Worker(Context& context, reactor& shared)
    : loop_(&shared), core_(std::make_unique<detail::worker_core>(context.core(), shared)) {}

Worker::~Worker() = default;

result<std::size_t> Worker::poll(std::size_t most) {
  CORDMA_REQUIRE_OP(most, >, 0);
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  if (reactor::current() == loop_) {
    return failure{errc::bad_state, "a coroutine cannot poll the loop that runs it: co_await"};
  }
  core_->limit(most);
  result<std::size_t> happened = loop_->poll();
  core_->limit(detail::worker_core::no_limit);
  return happened;
}

connect_operation Worker::connect(std::string to, const connect_options& options) {
  return connect_operation(*core_, std::move(to), options);
}

result<Endpoint> Worker::endpoint(std::string to, const connect_options& options) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  auto e = std::make_unique<detail::endpoint_core>();
  detail::start_wiring(*e, *core_, to, options);
  return Endpoint(std::move(e));
}

result<Listener> Worker::listen(std::string_view where, const listen_options& options) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  const result<transport::address> address = parse_address(where);
  if (!address) return address.why();
  auto core = std::make_unique<detail::listener_core>();
  const result<void> opened = core->open(*core_, *address, options);
  if (!opened) return opened.why();
  return Listener(std::move(core));
}

result<ConnectionRequest> Worker::adopt(rdma_cm_event* event, transport::peer_kind whom) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  for (const auto& via : core_->adapters()) {
    if (!via->domain().caps().has_native_handles) continue;
    result<transport::cm_event> client = via->adapter().adopt(event, whom);
    if (!client) return client.why();
    return ConnectionRequest(
        std::make_shared<detail::pending_request>(core_->anchor(), *via, whom, std::move(*client)));
  }
  return detail::no_native_handles();
}

result<Endpoint> Worker::prepare(const endpoint_options& options,
                                 std::optional<transport::kind> over, Messages* messages) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  if (options.type == transport::service::ud) {
    return failure{errc::invalid_value, "a datagram port is not connected: see Worker::datagram()"};
  }
  for (const auto& via : core_->adapters()) {
    const transport::kind k = via->domain().caps().transport;
    if ((over && *over != k) || !core_->may_share(options, k)) continue;
    endpoint_options asked = options;
    if (messages != nullptr) {
      const result<endpoint_options> framed = messages->core().options_on(*via, options);
      if (framed.code() == errc::not_supported) continue;
      if (!framed) return framed.why();
      asked = *framed;
    }
    result<std::unique_ptr<detail::endpoint_core>> e = core_->create(asked, *via);
    if (e.code() == errc::not_supported) continue;
    if (!e) return e.why();
    (*e)->explain(std::string(transport::name(k)) + ": connected by descriptors");
    return Endpoint(std::move(*e));
  }
  return failure{errc::not_supported,
                 core_->left_out(over) + "no transport of this Worker connects by descriptors"};
}

result<DatagramEndpoint> Worker::datagram(const endpoint_options& options,
                                          std::optional<transport::kind> over) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  return core_->datagram(options, over);
}

task<void> Worker::flush() {
  std::vector<send_operation> flushes = core_->flush_all();
  std::optional<failure> first;
  for (send_operation& op : flushes) {
    const result<void> r = co_await op.result();
    if (!r && !first) first = r.why();
  }
  if (first) throw_error(*first);
}

copy_operation Worker::copy(const Slice& to, const Slice& from) noexcept {
  return copy_operation(*core_, to, from);
}

void Worker::limit_endpoints(std::size_t most) noexcept {
  if (!loop_->enter()) return;
  core_->limit_endpoints(most);
}

result<void> Worker::wake_for(wake_reason reason) {
  if (!loop_->on_owner_thread()) {
    return loop_->wrong_thread("a Worker may only be used on its own thread");
  }
  return core_->wake_for(reason);
}

device_event_operation Worker::next_device_event() noexcept {
  return device_event_operation(*core_);
}

worker_counters Worker::counters() const noexcept { return core_->counters(); }

worker_counters detail::worker_core::counters() noexcept {
  std::size_t inflight = 0;
  const auto count = [&inflight](const endpoint_core& e) { inflight += e.inflight(); };
  endpoints_.for_each(count);
  graveyard_.for_each(count);
  return {.stale_completions = stale_completions_,
          .corrupt_completions = corrupt_completions_,
          .inflight = inflight,
          .endpoints = endpoint_count_};
}

detail::worker_core& detail::core_of(Worker& worker) noexcept { return worker.core(); }

copy_operation::copy_operation(detail::worker_core& worker, const Slice& to,
                               const Slice& from) noexcept
    : operation(&worker.home()), worker_(&worker), to_(to), from_(from) {}

void copy_operation::do_start() noexcept {
  const auto foreign = [this](const Slice& s) {
    return s.size() != 0 &&
           (s.region() == nullptr || s.region()->context != worker_->shared_context());
  };
  const std::less<const std::byte*> before;
  const bool apart = !before(to_.data(), from_.data() + from_.size()) ||
                     !before(from_.data(), to_.data() + to_.size());
  if (!home()->on_owner_thread()) {
    failure_.emplace(home()->wrong_thread("a Worker may only be used on its own thread"));
  } else if (to_.size() != from_.size()) {
    failure_.emplace(errc::invalid_value, "the two slices differ in length");
  } else if (foreign(to_) || foreign(from_)) {
    failure_.emplace(errc::invalid_value,
                     "a slice that belongs to no MemoryRegion of this Context");
  } else if (to_.size() != 0 && !has(to_.region()->range.rights, access::local_write)) {
    failure_.emplace(errc::not_permitted, "the region lacks access::local_write");
  } else if (to_.kind() != memory_kind::host || from_.kind() != memory_kind::host) {
    failure_.emplace(errc::not_supported,
                     "the CPU copies, and cannot touch device memory: read() or write() it over a "
                     "connection to this Context itself");
  } else if (to_.size() != 0 && !apart) {
    failure_.emplace(errc::invalid_value, "the two slices overlap");
  } else if (to_.size() != 0) {
    std::memcpy(to_.data(), from_.data(), to_.size());
  }
  if (failure_) failure_->with_operation("copy");
  finish();
}

}  // namespace cordma
