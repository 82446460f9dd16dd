#include <cordma/net/device_event.hpp>

#include <cordma/net/datapath/worker_core.hpp>

#include <algorithm>

namespace cordma {

device_event_operation::device_event_operation(detail::worker_core& worker) noexcept
    : operation(&worker.home()), worker_(&worker) {}

void device_event_operation::do_start() noexcept {
  if (!home()->on_owner_thread()) {
    return fail(home()->wrong_thread("a Worker may only be used on its own thread"));
  }
  const auto& via = worker_->adapters();
  const bool any = std::ranges::any_of(
      via, [](const auto& a) { return a->domain().caps().tells_device_events; });
  if (!any) {
    return fail({errc::not_supported,
                 "no transport of this Worker tells of a device's events: that takes "
                 "verbs, on a device that it has opened itself"});
  }
  worker_->device_events().wait(*this);
}

void device_event_operation::do_cancel() noexcept {
  CORDMA_ASSERT(linked());
  unlink();
  fail(errc::canceled);
}

void device_event_operation::resolve(const device_event& e) noexcept {
  event_ = e;
  finish();
}

void device_event_operation::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("device event"));
  finish();
}

void detail::device_event_queue::push(const device_event& e) noexcept {
  CORDMA_ASSERT_OP(count_, <=, most_kept);
  if (!waiting_.empty()) {
    CORDMA_ASSERT_OP(count_, ==, 0U);
    waiting_.pop_front().resolve(e);
    return;
  }
  if (count_ == most_kept) {
    first_ = (first_ + 1) % most_kept;
    --count_;
    ++missed_;
  }
  kept_[(first_ + count_++) % most_kept] = e;
}

void detail::device_event_queue::wait(device_event_operation& op) noexcept {
  if (count_ == 0) {
    op.set_phase(operation_base::phase::queued);
    waiting_.push_back(op);
    return;
  }
  CORDMA_ASSERT(waiting_.empty());
  CORDMA_ASSERT_OP(first_, <, most_kept);
  device_event& next = kept_[first_];
  next.missed = std::exchange(missed_, 0U);
  first_ = (first_ + 1) % most_kept;
  --count_;
  op.resolve(next);
}

void detail::device_event_queue::shut_down(const failure& why) noexcept {
  while (!waiting_.empty()) waiting_.pop_front().fail(why);
}

}  // namespace cordma
