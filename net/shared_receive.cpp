#include <cordma/net/shared_receive.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/extras/device_receive.hpp>
#include <cordma/net/extras/endpoint_receive.hpp>

#include <algorithm>
#include <string>

namespace cordma {
namespace {

constexpr const char* bound_to_its_worker =
    "a SharedReceive may only be used on the thread of its Worker";

}  // namespace

namespace detail {

shared_receive_core::shared_receive_core(Worker& worker, BufferPool& from)
    : home_(&core_of(worker).home()), anchor_(core_of(worker).anchor()), pool_(&from) {}

worker_core* shared_receive_core::worker() const noexcept { return anchor_->worker; }

void shared_receive_core::wait(arrival_operation& op) noexcept {
  feed();
  if (!arrived_.empty() && waiting_.empty()) {
    op.arrival_ = pop();
    op.finish();
    return;
  }
  op.set_phase(operation_base::phase::queued);
  waiting_.push_back(op);
}

void shared_receive_core::deliver() noexcept {
  while (!waiting_.empty() && !arrived_.empty()) {
    arrival_operation& op = waiting_.pop_front();
    CORDMA_ASSERT_OP(op.state(), ==, operation_base::phase::queued);
    op.arrival_ = pop();
    op.finish();
  }
}

void shared_receive_core::await_buffer() noexcept {
  if (hunger_) return;
  hunger_.emplace(pool_->get(*home_));
  hunger_->start();
  hunger_->observe(
      [](operation_base&, void* core) noexcept {
        auto& self = *static_cast<shared_receive_core*>(core);
        if (self.ended_) return;
        // The buffer is back in the pool, unless another operation waits for one.
        self.hunger_.reset();
        self.feed();
      },
      this);
}

void shared_receive_core::end() noexcept {
  ended_ = true;
  while (!waiting_.empty()) {
    arrival_operation& op = waiting_.pop_front();
    op.failure_.emplace(errc::shutdown, "the SharedReceive is gone");
    op.finish();
  }
}

}  // namespace detail

arrival_operation::arrival_operation(detail::shared_receive_core& queue) noexcept
    : operation(&queue.home()), queue_(&queue) {}

void arrival_operation::do_start() noexcept {
  if (!home()->on_owner_thread()) {
    failure_.emplace(home()->wrong_thread(bound_to_its_worker));
    finish();
    return;
  }
  queue_->wait(*this);
}

void arrival_operation::do_cancel() noexcept {
  unlink();
  failure_.emplace(errc::canceled);
  finish();
}

low_operation::low_operation(detail::shared_receive_core& queue) noexcept
    : operation(&queue.home()), queue_(&queue) {}

void low_operation::do_start() noexcept {
  if (!home()->on_owner_thread()) return fail(home()->wrong_thread(bound_to_its_worker));
  queue_->wait_low(*this);
}

void low_operation::do_cancel() noexcept {
  unlink();
  fail(errc::canceled);
}

void low_operation::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("low watermark"));
  finish();
}

SharedReceive::SharedReceive(Worker& worker, BufferPool& pool, std::uint32_t per_endpoint)
    : core_(std::make_unique<detail::endpoint_receive>(worker, pool, per_endpoint)) {
  if (per_endpoint == 0) {
    throw_error({errc::invalid_value, "a SharedReceive needs a receive per endpoint"});
  }
}

SharedReceive::SharedReceive(std::unique_ptr<detail::shared_receive_core> core) noexcept
    : core_(std::move(core)) {}

result<SharedReceive> SharedReceive::on_device(Worker& worker, BufferPool& pool,
                                               const shared_receive_options& options) {
  detail::worker_core& at = detail::core_of(worker);
  if (!at.home().on_owner_thread()) return at.home().wrong_thread(bound_to_its_worker);
  const auto has_them = [&options](const auto& a) {
    const transport::capabilities& caps = a->domain().caps();
    return caps.shared_receive_queues &&
           options.transport.value_or(caps.transport) == caps.transport;
  };
  const auto of_device = [&](const auto& a) {
    return has_them(a) && a->domain().caps().has_native_handles;
  };
  auto via = std::ranges::find_if(at.adapters(), of_device);
  if (via == at.adapters().end()) via = std::ranges::find_if(at.adapters(), has_them);
  if (via == at.adapters().end()) {
    return failure{
        errc::not_supported,
        "no transport of this Worker, or not the one that is asked for, has shared receive "
        "queues; SharedReceive(worker, pool, per_endpoint) works everywhere"};
  }
  if (options.low_watermark > options.depth) {
    return failure{errc::invalid_value, "low_watermark " + std::to_string(options.low_watermark) +
                                            " is more than depth " + std::to_string(options.depth)};
  }
  if (pool.region().all().region()->context != at.shared_context()) {
    return failure{errc::invalid_value, "the BufferPool belongs to another Context"};
  }
  auto core = std::make_unique<detail::device_receive>(worker, pool, options);
  const result<void> made = core->make(**via);
  if (!made) return made.why();
  return SharedReceive(std::move(core));
}

SharedReceive::SharedReceive(SharedReceive&&) noexcept = default;
SharedReceive& SharedReceive::operator=(SharedReceive&&) noexcept = default;
SharedReceive::~SharedReceive() = default;

result<void> SharedReceive::attach(Endpoint& endpoint) {
  if (core_->worker() == nullptr) {
    return failure{errc::invalid_value, "the Worker of this SharedReceive is gone"};
  }
  if (!core_->home().on_owner_thread()) return core_->home().wrong_thread(bound_to_its_worker);
  return core_->attach(endpoint);
}

std::size_t SharedReceive::attached() const noexcept { return core_->attached(); }
transport::receive_queue* SharedReceive::queue() const noexcept { return core_->queue(); }
arrival_operation SharedReceive::next() noexcept { return arrival_operation(*core_); }
low_operation SharedReceive::low_watermark() noexcept { return low_operation(*core_); }

}  // namespace cordma
