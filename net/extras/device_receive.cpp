#include <cordma/net/extras/device_receive.hpp>

#include <cordma/net/datapath/worker_core.hpp>

#include <string>

namespace cordma::detail {

// ---- what it knows of an endpoint ----

device_source::device_source(endpoint_core& of, device_receive& from) : queue(&from), core(&of) {
  end_notice.from = this;
  from.sources.push_back(*this);
}

device_source::~device_source() {
  forget();
  CORDMA_ASSERT(endpoint == nullptr || queue == nullptr);
  CORDMA_ASSERT(early.empty() || queue == nullptr);
}

void device_source::on_last() noexcept {
  last = true;
  if (endpoint == nullptr || queue == nullptr || end_notice.linked()) return;
  queue->arrived.push_back(end_notice);
  queue->deliver();
}

void device_source::forget() noexcept {
  end_notice.unlink();
  if (queue == nullptr) return;
  if (endpoint != nullptr) {
    CORDMA_ASSERT_OP(queue->attached_count, >, 0U);
    --queue->attached_count;
  }
  endpoint = nullptr;
  while (!early.empty()) queue->to_idle(static_cast<entry&>(early.pop_front()));
  queue->arrived.for_each([this](shared_entry& arrived) {
    auto& e = static_cast<entry&>(arrived);
    if (e.from != this) return;
    e.unlink();
    queue->to_idle(e);
  });
  queue->feed();
}

// ---- the queue ----

device_receive::device_receive(Worker& of, BufferPool& from, const shared_receive_options& options)
    : shared_receive_core(of, from),
      depth(options.depth),
      low_watermark(options.low_watermark),
      entries(std::make_unique<entry[]>(from.count())) {
  for (std::uint32_t i = 0; i < from.count(); ++i) idle.push_back(entries[i]);
}

result<void> device_receive::make(adapter_poller& over) {
  result<std::unique_ptr<transport::receive_queue>> made =
      over.adapter().make_receive_queue(depth, 1);
  if (!made) return made.why();
  CORDMA_ASSERT(device == nullptr && worker == nullptr);
  device = std::move(*made);
  CORDMA_ASSERT_OP(device->depth(), >, 0U);
  via = &over;
  device->user = static_cast<completion_sink*>(this);
  kind = static_cast<std::size_t>(over.domain().caps().transport);
  anchor->worker->add(*this);
  worker = anchor->worker;
  feed();
  return {};
}

device_receive::~device_receive() {
  if (worker != nullptr) worker->enter_to_destroy();
  const failure gone{errc::shutdown, "its SharedReceive is gone"};
  end_waiting();
  end_low(gone);
  ending = true;
  sources.for_each([](device_source& s) {
    s.queue = nullptr;
    s.unlink();
  });
  if (worker == nullptr) return;
  worker->end_users_of(*device, gone);
  CORDMA_ASSERT(sources.empty() && waiting.empty() && low_waiting.empty());
  via->drop(device);
  worker->remove(*this);
}

void device_receive::on_worker_gone() noexcept {
  worker = nullptr;
  hunger.reset();
  if (device != nullptr) via->drop(device);
  for (std::uint32_t i = 0; i < pool->count(); ++i) {
    if (entries[i].linked()) continue;
    CORDMA_ASSERT_OP(posted, >, 0U);
    --posted;
    to_idle(entries[i]);
  }
  CORDMA_ASSERT_OP(posted, ==, 0U);
  end_low({errc::shutdown, "the Worker was destroyed"});
  sources.for_each([](device_source& source) { source.on_last(); });
}

void device_receive::on_joined(endpoint_core& endpoint) {
  CORDMA_ASSERT(endpoint.shared == nullptr);
  CORDMA_ASSERT_OP(endpoint.kind, ==, kind);
  endpoint.shared = std::make_unique<device_source>(endpoint, *this);
}

result<void> device_receive::attach(Endpoint& endpoint) {
  device_source* const source = static_cast<device_source*>(endpoint.core().shared.get());
  if (source == nullptr || source->queue != this) {
    return failure{errc::invalid_value,
                   "the Endpoint does not receive from here: connect or accept it with "
                   "endpoint_options::shared = queue()"};
  }
  if (source->endpoint != nullptr) return failure{errc::bad_state, "the Endpoint is attached"};
  source->endpoint = &endpoint;
  ++attached_count;
  arrived.splice_back(source->early);
  if (source->last) source->on_last();
  deliver();
  return {};
}

void device_receive::to_idle(entry& e) noexcept {
  CORDMA_ASSERT(&e >= entries.get() && &e < entries.get() + pool->count());
  e.from = nullptr;
  e.buffer.reset();
  idle.push_back(e);
}

void device_receive::post(entry& e) noexcept {
  const Slice room = e.buffer.all();
  const transport::segment into{room.data(), static_cast<std::uint32_t>(room.size()),
                                room.region()->keys[kind].lkey};
  const auto index = static_cast<std::uint32_t>(&e - entries.get());
  ++posted;
  device->post_recv({.id = sink_id(sink_number, index), .segment_count = 1, .segments = &into});
}

void device_receive::feed() noexcept {
  if (device == nullptr || ending || home->inherited()) return;
  while (posted < depth && !idle.empty()) {
    result<Buffer> buffer = pool->take();
    if (!buffer) return await_buffer();
    entry& e = idle.pop_front();
    e.buffer = std::move(*buffer);
    post(e);
  }
}

bool device_receive::on_completion(std::uint32_t index, const transport::completion& c) noexcept {
  if (index >= pool->count()) return false;
  entry& e = entries[index];
  --posted;
  auto* const core = c.from != nullptr ? static_cast<endpoint_core*>(c.from->user) : nullptr;
  if (c.status != transport::wc_status::success || core == nullptr || core->handle_gone) {
    to_idle(e);
    // Where the device refuses receives, the next one is tried when something else happens.
    if (c.status != transport::wc_status::general_err) feed();
    return true;
  }
  ++core->counters.recvs;
  core->counters.bytes_received += c.byte_len;
  device_source& source = static_cast<device_source&>(*core->shared);
  e.from = &source;
  if (c.key != 0) [[unlikely]]
    core->invalidated(c.key);
  e.info = to_received(c);
  (source.endpoint != nullptr ? arrived : source.early).push_back(e);
  feed();
  deliver();
  return true;
}

Arrival device_receive::pop() noexcept {
  CORDMA_ASSERT(!arrived.empty());
  auto& e = static_cast<entry&>(arrived.pop_front());
  device_source& source = *e.from;
  CORDMA_ASSERT(source.queue == this);
  if (!e.buffer) {
    CORDMA_ASSERT(&e == &source.end_notice && source.endpoint != nullptr);
    CORDMA_ASSERT_OP(attached_count, >, 0U);
    --attached_count;
    return {std::exchange(source.endpoint, nullptr), source.core->flushed("recv")};
  }
  Message m(std::move(e.buffer), e.info);
  to_idle(e);
  feed();
  return {source.endpoint, std::move(m)};
}

// ---- the limit ----

void device_receive::wait_low(low_operation& op) noexcept {
  if (device == nullptr) return op.fail({errc::shutdown, "the Worker is gone"});
  if (low_watermark == 0) {
    return op.fail({errc::invalid_value,
                    "this SharedReceive was made without shared_receive_options::low_watermark"});
  }
  if (posted < low_watermark) return op.resolve();
  const bool first = low_waiting.empty();
  op.set_phase(operation_base::phase::queued);
  low_waiting.push_back(op);
  if (!first) return;
  const result<void> armed = device->arm_limit(low_watermark);
  if (!armed) end_low(armed.why());
}

void device_receive::on_low() noexcept {
  while (!low_waiting.empty()) low_waiting.pop_front().resolve();
}

void device_receive::end_low(const failure& why) noexcept {
  while (!low_waiting.empty()) low_waiting.pop_front().fail(why);
}

}  // namespace cordma::detail
