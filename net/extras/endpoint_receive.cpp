#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/extras/endpoint_receive.hpp>

namespace cordma::detail {

result<void> endpoint_receive::attach(Endpoint& endpoint) {
  const state_operation probe = endpoint.state_changed();  // never started: it provides the loop
  if (probe.home() != &home()) {
    return failure{errc::invalid_value, "the Endpoint is not of this SharedReceive's loop"};
  }
  auto s = std::make_unique<source>();
  s->queue = this;
  s->endpoint = &endpoint;
  s->end_notice.from = s.get();
  s->entries = std::make_unique<entry[]>(per_endpoint_);
  sources_.push_back(std::move(s));
  source& placed = *sources_.back();
  for (std::uint32_t i = 0; i < per_endpoint_; ++i) {
    placed.entries[i].from = &placed;
    post(placed.entries[i]);
  }
  return {};
}

void endpoint_receive::wait_low(low_operation& op) noexcept {
  op.fail({errc::not_supported,
           "this SharedReceive has no queue of a transport, and so no limit: see on_device()"});
}

void endpoint_receive::post(entry& e) noexcept {
  source& s = *e.from;
  CORDMA_ASSERT(!e.op && !e.message && !e.linked());
  CORDMA_ASSERT_OP(s.posted, <, per_endpoint_);
  if (s.ended) return;
  if (pool().available() == 0) {
    starve(e);
    return;
  }
  e.op.emplace(s.endpoint->recv(pool()));
  e.op->start();
  ++s.posted;
  e.op->observe(
      [](operation_base&, void* context) noexcept {
        auto& done = *static_cast<entry*>(context);
        done.from->queue->on_done(done);
      },
      &e);
}

void endpoint_receive::starve(entry& e) noexcept {
  starved_.push_back(e);
  await_buffer();
}

void endpoint_receive::feed() noexcept {
  while (!starved_.empty() && pool().available() != 0) post(starved_.pop_front());
  if (!starved_.empty()) await_buffer();
}

void endpoint_receive::on_done(entry& e) noexcept {
  if (has_ended()) return;
  source& s = *e.from;
  CORDMA_ASSERT_OP(s.posted, >, 0U);
  --s.posted;
  result<Message> got = e.op->take_result();
  e.op.reset();
  if (got.ok()) {
    e.message.emplace(std::move(*got));
    add(e);
  } else if (!s.ended) {
    s.ended = got.why();
    for (std::uint32_t i = 0; i < per_endpoint_; ++i) {
      if (!s.entries[i].message) s.entries[i].unlink();  // no longer starved
    }
  }
  // The notification of the end is the last arrival of an endpoint.
  if (s.ended && s.posted == 0 && !s.end_notice.linked()) add(s.end_notice);
  deliver();
}

Arrival endpoint_receive::pop() noexcept {
  auto& e = static_cast<entry&>(take_first());
  source& s = *e.from;
  Endpoint* const from = s.endpoint;
  if (!e.message) {
    CORDMA_ASSERT(&e == &s.end_notice && s.ended);
    CORDMA_ASSERT_OP(s.posted, ==, 0U);
    failure why = std::move(*s.ended);
    std::erase_if(sources_, [&s](const auto& each) { return each.get() == &s; });
    return {from, std::move(why)};
  }
  Message m = std::move(*e.message);
  e.message.reset();
  post(e);
  return {from, std::move(m)};
}

endpoint_receive::~endpoint_receive() {
  if (worker() != nullptr) worker()->enter_to_destroy();
  end();
  for (const auto& s : sources_) {
    for (std::uint32_t i = 0; i < per_endpoint_; ++i) {
      if (s->entries[i].op) s->entries[i].op->cancel();
    }
  }
}

}  // namespace cordma::detail
