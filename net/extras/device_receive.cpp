#include <cordma/net/extras/device_receive.hpp>

#include <cordma/net/datapath/worker_core.hpp>

#include <string>

namespace cordma::detail {

// ---- the part of an endpoint ----

device_source::~device_source() {
  forget();
  CORDMA_ASSERT(endpoint_ == nullptr || queue_ == nullptr);
  CORDMA_ASSERT(early_.empty() || queue_ == nullptr);
}

result<void> device_source::attach(Endpoint& endpoint) {
  if (endpoint_ != nullptr) return failure{errc::bad_state, "the Endpoint is attached"};
  endpoint_ = &endpoint;
  queue_->on_attached(early_);
  if (last_) on_last();
  return {};
}

void device_source::on_last() noexcept {
  last_ = true;
  if (endpoint_ == nullptr || queue_ == nullptr || end_notice_.linked()) return;
  queue_->on_ended(end_notice_);
}

Arrival device_source::end(const entry& notice) noexcept {
  CORDMA_ASSERT(&notice == &end_notice_ && endpoint_ != nullptr);
  queue_->on_detached();
  return {std::exchange(endpoint_, nullptr), core_->flushed("recv")};
}

void device_source::forget() noexcept {
  end_notice_.unlink();
  if (queue_ == nullptr) return;
  if (std::exchange(endpoint_, nullptr) != nullptr) queue_->on_detached();
  queue_->drop_messages(*this, early_);
}

// ---- the queue ----

device_receive::device_receive(Worker& of, BufferPool& from, const shared_receive_options& options)
    : shared_receive_core(of, from),
      depth_(options.depth),
      low_watermark_(options.low_watermark),
      entries_(std::make_unique<entry[]>(from.count())) {
  for (std::uint32_t i = 0; i < from.count(); ++i) idle_.push_back(entries_[i]);
}

result<void> device_receive::make(adapter_poller& over) {
  result<std::unique_ptr<transport::receive_queue>> made =
      over.adapter().make_receive_queue(depth_, 1);
  if (!made) return made.why();
  CORDMA_ASSERT(device_ == nullptr && joined_ == nullptr);
  device_ = std::move(*made);
  CORDMA_ASSERT_OP(device_->depth(), >, 0U);
  via_ = &over;
  device_->set_user(static_cast<completion_sink*>(this));
  receive_over(over.domain().caps().transport);
  worker()->add(*this);
  joined_ = worker();
  feed();
  return {};
}

device_receive::~device_receive() {
  if (joined_ != nullptr) joined_->enter_to_destroy();
  const failure gone{errc::shutdown, "its SharedReceive is gone"};
  end();
  end_low(gone);
  sources_.for_each([](device_source& s) { s.on_queue_gone(); });
  if (joined_ == nullptr) return;
  joined_->end_users_of(*device_, gone);
  CORDMA_ASSERT(sources_.empty() && low_waiting_.empty());
  via_->drop(device_);
  joined_->remove(*this);
}

void device_receive::on_worker_gone() noexcept {
  joined_ = nullptr;
  forget_buffer();
  if (device_ != nullptr) via_->drop(device_);
  for (std::uint32_t i = 0; i < pool().count(); ++i) {
    if (entries_[i].linked()) continue;
    CORDMA_ASSERT_OP(posted_, >, 0U);
    --posted_;
    to_idle(entries_[i]);
  }
  CORDMA_ASSERT_OP(posted_, ==, 0U);
  end_low({errc::shutdown, "the Worker was destroyed"});
  sources_.for_each([](device_source& source) { source.on_last(); });
}

void device_receive::on_joined(endpoint_core& endpoint) {
  CORDMA_ASSERT(endpoint.shared() == nullptr);
  CORDMA_ASSERT_OP(endpoint.kind(), ==, kind());
  auto source = std::make_unique<device_source>(endpoint, *this);
  sources_.push_back(*source);
  endpoint.share(std::move(source));
}

result<void> device_receive::attach(Endpoint& endpoint) {
  device_source* const source = static_cast<device_source*>(endpoint.core().shared());
  if (source == nullptr || !source->is_of(*this)) {
    return failure{errc::invalid_value,
                   "the Endpoint does not receive from here: connect or accept it with "
                   "endpoint_options::shared = queue()"};
  }
  const result<void> done = source->attach(endpoint);
  if (done) deliver();
  return done;
}

void device_receive::on_attached(list<shared_entry>& early) noexcept {
  ++attached_;
  add(early);
}

void device_receive::on_ended(entry& notice) noexcept {
  add(notice);
  deliver();
}

void device_receive::drop_messages(const device_source& of, list<shared_entry>& early) noexcept {
  while (!early.empty()) to_idle(static_cast<entry&>(early.pop_front()));
  for_each_arrived([this, &of](shared_entry& arrived) {
    auto& e = static_cast<entry&>(arrived);
    if (e.from != &of) return;
    e.unlink();
    to_idle(e);
  });
  feed();
}

void device_receive::to_idle(entry& e) noexcept {
  CORDMA_ASSERT(&e >= entries_.get() && &e < entries_.get() + pool().count());
  e.from = nullptr;
  e.buffer.reset();
  idle_.push_back(e);
}

void device_receive::post(entry& e) noexcept {
  const Slice room = e.buffer.all();
  const transport::segment into{room.data(), static_cast<std::uint32_t>(room.size()),
                                room.region()->keys[kind()].lkey};
  const auto index = static_cast<std::uint32_t>(&e - entries_.get());
  ++posted_;
  device_->post_recv({.id = sink_id(number(), index), .segment_count = 1, .segments = &into});
}

void device_receive::feed() noexcept {
  if (device_ == nullptr || has_ended() || home().inherited()) return;
  while (posted_ < depth_ && !idle_.empty()) {
    result<Buffer> buffer = pool().take();
    if (!buffer) return await_buffer();
    entry& e = idle_.pop_front();
    e.buffer = std::move(*buffer);
    post(e);
  }
}

bool device_receive::on_completion(std::uint32_t index, const transport::completion& c) noexcept {
  if (index >= pool().count()) return false;
  entry& e = entries_[index];
  --posted_;
  auto* const core = c.from != nullptr ? static_cast<endpoint_core*>(c.from->user()) : nullptr;
  if (c.status != transport::wc_status::success || core == nullptr || core->handle_gone()) {
    to_idle(e);
    // If the device refuses receives, the next one is tried at the next event.
    if (c.status != transport::wc_status::general_err) feed();
    return true;
  }
  core->count_received(c.byte_len);
  device_source& source = static_cast<device_source&>(*core->shared());
  e.from = &source;
  if (c.key != 0) [[unlikely]]
    core->invalidated(c.key);
  e.info = to_received(c);
  if (!source.keep_early(e)) add(e);
  feed();
  deliver();
  return true;
}

Arrival device_receive::pop() noexcept {
  auto& e = static_cast<entry&>(take_first());
  device_source& source = *e.from;
  CORDMA_ASSERT(source.is_of(*this));
  if (!e.buffer) return source.end(e);
  Message m(std::move(e.buffer), e.info);
  to_idle(e);
  feed();
  return {source.endpoint(), std::move(m)};
}

// ---- the limit ----

void device_receive::wait_low(low_operation& op) noexcept {
  if (device_ == nullptr) return op.fail({errc::shutdown, "the Worker is gone"});
  if (low_watermark_ == 0) {
    return op.fail({errc::invalid_value,
                    "this SharedReceive was made without shared_receive_options::low_watermark"});
  }
  if (posted_ < low_watermark_) return op.resolve();
  const bool first = low_waiting_.empty();
  op.set_phase(operation_base::phase::queued);
  low_waiting_.push_back(op);
  if (!first) return;
  const result<void> armed = device_->arm_limit(low_watermark_);
  if (!armed) end_low(armed.why());
}

void device_receive::on_low() noexcept {
  while (!low_waiting_.empty()) low_waiting_.pop_front().resolve();
}

void device_receive::end_low(const failure& why) noexcept {
  while (!low_waiting_.empty()) low_waiting_.pop_front().fail(why);
}

}  // namespace cordma::detail
