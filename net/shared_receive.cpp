#include <cordma/net/shared_receive.hpp>

#include <cordma/net/detail/worker_core.hpp>
#include <cordma/net/worker.hpp>

#include <new>
#include <vector>

namespace cordma {
namespace detail {

struct shared_source;

// One receive: posted, or arrived and not yet taken, or waiting for a buffer.
struct shared_entry : list_node {
  shared_source* source = nullptr;
  std::optional<message_operation> op;
  std::optional<Message> message;
};

struct shared_source {
  shared_receive_core* queue = nullptr;
  Endpoint* endpoint = nullptr;
  std::unique_ptr<shared_entry[]> entries;
  shared_entry end_notice;
  std::optional<failure> ended;
  std::uint32_t posted = 0;
};

struct shared_receive_core {
  reactor* home = nullptr;
  std::shared_ptr<worker_anchor> anchor;
  BufferPool* pool = nullptr;
  std::uint32_t per_endpoint = 0;
  std::vector<std::unique_ptr<shared_source>> sources;
  list<shared_entry> arrived;
  list<shared_entry> starved;  // for want of a buffer
  list<arrival_operation> waiting;
  // Of the pool, while receives are starved.
  std::optional<buffer_operation> hunger;
  bool ending = false;

  void post(shared_entry& e) noexcept;
  void starve(shared_entry& e) noexcept;
  void feed_starved() noexcept;
  void on_done(shared_entry& e) noexcept;
  void deliver() noexcept;
  [[nodiscard]] Arrival pop() noexcept;
  ~shared_receive_core();
};

void shared_receive_core::post(shared_entry& e) noexcept {
  shared_source& s = *e.source;
  if (s.ended) return;
  if (pool->available() == 0) {
    starve(e);
    return;
  }
  e.op.emplace(s.endpoint->recv(*pool));
  e.op->start();
  ++s.posted;
  e.op->observe(
      [](operation_base&, void* entry) noexcept {
        auto& done = *static_cast<shared_entry*>(entry);
        done.source->queue->on_done(done);
      },
      &e);
}

void shared_receive_core::starve(shared_entry& e) noexcept {
  starved.push_back(e);
  if (hunger) return;
  hunger.emplace(pool->get(*home));
  hunger->start();
  hunger->observe(
      [](operation_base&, void* core) noexcept {
        auto& self = *static_cast<shared_receive_core*>(core);
        if (self.ending) return;
        self.hunger.reset();  // the buffer is back in the pool, unless somebody else waits for one
        self.feed_starved();
      },
      this);
}

void shared_receive_core::feed_starved() noexcept {
  while (!starved.empty() && pool->available() != 0) post(starved.pop_front());
  if (!starved.empty() && !hunger) starve(starved.pop_front());
}

void shared_receive_core::on_done(shared_entry& e) noexcept {
  if (ending) return;
  shared_source& s = *e.source;
  --s.posted;
  result<Message> got = e.op->take_result();
  e.op.reset();
  if (got.ok()) {
    e.message.emplace(std::move(*got));
    arrived.push_back(e);
  } else if (!s.ended) {
    s.ended = got.why();
    for (std::uint32_t i = 0; i < per_endpoint; ++i) {
      if (!s.entries[i].message) s.entries[i].unlink();  // no longer starved
    }
  }
  // Word of the end is the last that comes from an endpoint.
  if (s.ended && s.posted == 0 && !s.end_notice.linked()) arrived.push_back(s.end_notice);
  deliver();
}

Arrival shared_receive_core::pop() noexcept {
  shared_entry& e = arrived.pop_front();
  shared_source& s = *e.source;
  Endpoint* const from = s.endpoint;
  if (!e.message) {
    failure why = std::move(*s.ended);
    std::erase_if(sources, [&s](const auto& each) { return each.get() == &s; });
    return {from, std::move(why)};
  }
  Message m = std::move(*e.message);
  e.message.reset();
  post(e);
  return {from, std::move(m)};
}

void shared_receive_core::deliver() noexcept {
  while (!waiting.empty() && !arrived.empty()) {
    arrival_operation& op = waiting.pop_front();
    op.arrival_ = pop();
    op.finish();
  }
}

shared_receive_core::~shared_receive_core() {
  while (!waiting.empty()) {
    arrival_operation& op = waiting.pop_front();
    op.failure_.emplace(errc::shutdown, "the SharedReceive is gone");
    op.finish();
  }
  ending = true;
  for (const auto& s : sources) {
    for (std::uint32_t i = 0; i < per_endpoint; ++i) {
      if (s->entries[i].op) s->entries[i].op->cancel();
    }
  }
}

}  // namespace detail

arrival_operation::arrival_operation(detail::shared_receive_core& queue) noexcept
    : operation(queue.home), queue_(&queue) {}

void arrival_operation::do_start() noexcept {
  if (!home()->on_owner_thread()) {
    failure_.emplace(errc::no_lock, "a SharedReceive may only be used on the thread of its Worker");
    finish();
    return;
  }
  queue_->feed_starved();
  if (!queue_->arrived.empty() && queue_->waiting.empty()) {
    arrival_ = queue_->pop();
    finish();
    return;
  }
  set_phase(phase::queued);
  queue_->waiting.push_back(*this);
}

void arrival_operation::do_cancel() noexcept {
  unlink();
  failure_.emplace(errc::canceled);
  finish();
}

SharedReceive::SharedReceive(Worker& worker, BufferPool& pool, std::uint32_t per_endpoint)
    : core_(std::make_unique<detail::shared_receive_core>()) {
  if (per_endpoint == 0) {
    throw_error({errc::invalid_value, "a SharedReceive needs a receive per endpoint"});
  }
  core_->home = &worker.loop();
  core_->anchor = worker.core().anchor();
  core_->pool = &pool;
  core_->per_endpoint = per_endpoint;
}

SharedReceive::SharedReceive(SharedReceive&&) noexcept = default;
SharedReceive& SharedReceive::operator=(SharedReceive&&) noexcept = default;
SharedReceive::~SharedReceive() = default;

result<void> SharedReceive::attach(Endpoint& endpoint) {
  if (core_->anchor->worker == nullptr) {
    return failure{errc::invalid_value, "the Worker of this SharedReceive is gone"};
  }
  if (!core_->home->on_owner_thread()) {
    return failure{errc::no_lock, "a SharedReceive may only be used on the thread of its Worker"};
  }
  const state_operation probe = endpoint.state_changed();  // never started: it tells the loop
  if (probe.home() != core_->home) {
    return failure{errc::invalid_value, "the Endpoint is not of this SharedReceive's loop"};
  }
  auto s = std::make_unique<detail::shared_source>();
  s->queue = core_.get();
  s->endpoint = &endpoint;
  s->end_notice.source = s.get();
  s->entries = std::make_unique<detail::shared_entry[]>(core_->per_endpoint);
  core_->sources.push_back(std::move(s));
  detail::shared_source& placed = *core_->sources.back();
  for (std::uint32_t i = 0; i < core_->per_endpoint; ++i) {
    placed.entries[i].source = &placed;
    core_->post(placed.entries[i]);
  }
  return {};
}

std::size_t SharedReceive::attached() const noexcept { return core_->sources.size(); }

arrival_operation SharedReceive::next() noexcept { return arrival_operation(*core_); }

}  // namespace cordma
