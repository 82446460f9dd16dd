// Events of objects that the program made on cordma's device: reported, acknowledged, and without
// side effects.
#include "raw_loop.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

using namespace cordma;
using namespace cordma::test;
using transport::kind;

namespace {

constexpr std::uint32_t limit = 4;
constexpr std::uint32_t size = 64;  // bytes of a message

void post_shared(ibv_srq* srq, std::byte* at, std::uint32_t lkey) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), size, lkey};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

// A shared receive queue with more receives than its limit, and a queue pair that uses them up.
class shared_queue {
 public:
  explicit shared_queue(Context& context)
      : memory_(context.allocate(2 * size, every_right).value()) {
    ibv_pd* const pd = context.native_pd().value();
    ibv_srq_init_attr init{};
    init.attr.max_wr = 64;
    init.attr.max_sge = 1;
    srq_ = ibv_create_srq(pd, &init);
    REQUIRE(srq_ != nullptr);
    for (std::uint32_t i = 0; i < 2 * limit; ++i) {
      post_shared(srq_, memory_.data() + size, memory_.lkey(kind::verbs));
    }
    arm();
    loop_.emplace(pd, srq_);
  }
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;
  ~shared_queue() {
    loop_.reset();
    CHECK(ibv_destroy_srq(srq_) == 0);
  }
  [[nodiscard]] const ibv_srq* get() const noexcept { return srq_; }
  // Reports once: it has to be armed again for the next event.
  void arm() {
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    REQUIRE(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT) == 0);
  }
  // Receives `messages` messages.
  void use_up(std::uint32_t messages) {
    for (std::uint32_t i = 0; i < messages; ++i) {
      loop_->post_send(memory_.data(), size, memory_.lkey(kind::verbs));
      CHECK(loop_->next() == IBV_WC_SUCCESS);
      CHECK(loop_->next() == IBV_WC_SUCCESS);
    }
  }

 private:
  MemoryRegion memory_;
  ibv_srq* srq_ = nullptr;
  std::optional<raw_loop> loop_;
};

void is_low(const device_event& e, const shared_queue& q) {
  CHECK(name(e.what) == "foreign");
  CHECK(e.native == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(e.element == q.get());
  CHECK(e.missed == 0);
}

}  // namespace

TEST_CASE(
    "Q9: the limit event of a shared receive queue on our domain reaches whoever waits, once") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event, wait_mode::adaptive}) {
    CAPTURE(name(mode));
    host h(mode);
    shared_queue q(h.context);
    h.worker.run([](Worker* worker, shared_queue* queue) -> task<> {
      device_event_operation low = worker->next_device_event().start();
      queue->use_up(limit);
      for (int i = 0; i < 100; ++i) static_cast<void>(co_await yield());
      CHECK_FALSE(low.done());
      queue->use_up(1);
      const device_event e = co_await low;
      is_low(e, *queue);
    }(&h.worker, &q));
  }
}

TEST_CASE(
    "Q9: an event that nobody waits for is kept, and every Worker of the Context has its own") {
  host h;
  Worker second(h.context, h.worker.loop());
  shared_queue q(h.context);
  q.use_up(limit + 1);
  h.worker.run([](Worker* one, Worker* two, shared_queue* queue) -> task<> {
    const device_event first = co_await one->next_device_event();
    is_low(first, *queue);
    const device_event other = co_await two->next_device_event();
    is_low(other, *queue);
  }(&h.worker, &second, &q));
}

TEST_CASE("Q9: what has an event pending, read or not, is destroyed without waiting") {
  for (const bool read : {false, true}) {
    CAPTURE(read);
    host h;
    {
      shared_queue q(h.context);
      q.use_up(limit + 1);
      for (int i = 0; read && i < 200; ++i) static_cast<void>(h.worker.poll());
    }
    // The Worker and the Context are destroyed with unread events.
    shared_queue late(h.context);
    late.use_up(limit + 1);
  }
}

TEST_CASE("Q9: waiting for an event is withdrawn by cancellation, and ends with the Worker") {
  host h;
  std::optional<Worker> second;
  second.emplace(h.context, h.worker.loop());
  device_event_operation canceled = h.worker.next_device_event().start();
  canceled.cancel();
  REQUIRE(canceled.done());
  CHECK(canceled.take_result().code() == errc::canceled);
  device_event_operation left = second->next_device_event().start();
  CHECK_FALSE(left.done());
  second.reset();
  REQUIRE(left.done());
  CHECK(left.take_result().code() == errc::shutdown);
}
