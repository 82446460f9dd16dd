#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/reporting_adapter.hpp>

#include <utility>

namespace cordma::transport {

cm_event reporting_adapter::next_event() {
  cm_event e = events_.take();
  events_ready_ = !events_.empty();
  return e;
}

result<std::unique_ptr<receive_queue>> reporting_adapter::make_receive_queue(
    std::uint32_t depth, std::uint32_t max_segments) {
  const result<void> fits = check_receive_queue(depth, max_segments, caps_);
  if (!fits) return fits.why();
  return std::unique_ptr<receive_queue>(
      std::make_unique<reporting_receive_queue>(*this, events_, reporting_, depth, max_segments));
}

result<queue_pair_options> reporting_adapter::admit(const queue_pair_options& asked) const {
  result<queue_pair_options> granted = grant(asked, caps_);
  if (!granted) return granted;
  const result<void> ours = check_shared(asked, *this);
  if (!ours) return ours.why();
  return granted;
}

void reporting_adapter::push(cm_event e) {
  events_.push(std::move(e));
  events_ready_ = true;
}

void reporting_adapter::report(cm_event e) noexcept {
  events_.report(std::move(e));
  events_ready_ = true;
}

void reporting_adapter::report(queue_pair& of, cm_event::type what, failure why,
                               std::vector<std::byte> data) noexcept {
  cm_event e;
  e.what = what;
  e.pair = &of;
  e.why = std::move(why);
  e.data = std::move(data);
  report(std::move(e));
}

template <class Predicate>
void reporting_adapter::drop_if(Predicate unwanted) noexcept {
  events_.drop(unwanted);
  events_ready_ = !events_.empty();
}

void reporting_adapter::drop_events(const queue_pair& of) noexcept {
  drop_if([&of](const cm_event& e) { return e.pair == &of; });
}

void reporting_adapter::drop_events(const listener& of) noexcept {
  drop_if([&of](const cm_event& e) { return e.from == &of; });
}

void reporting_adapter::drop_events(const receive_queue& of) noexcept {
  drop_if([&of](const cm_event& e) { return e.queue == &of; });
}

}  // namespace cordma::transport
