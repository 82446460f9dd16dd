// File operations and time: waking of waiting tasks, and cancelled or destroyed operations.
#include <support/applies.hpp>
#include <support/fd_count.hpp>

#include <atomic>
#include <optional>
#include <thread>

#include "../runtime/virtual_loop.hpp"
#include "ring_ground.hpp"

using namespace copy;
using namespace copy::test;
using namespace cordma::test;
using cordma::errc;
using cordma::task;
using cordma::unique_fd;

namespace {

task<void> one(file_operation operation, cordma::result<int>* outcome) {
  const cordma::result<int> r = co_await operation.result();
  *outcome = r;
}

// State shared by a task that reads, and may fall asleep, and a thread that writes.
struct sleepy {
  static void about_to_sleep(void* self) noexcept {
    auto& s = *static_cast<sleepy*>(self);
    s.steps.fetch_add(1);
    s.steps.notify_one();
  }
  std::atomic<int> steps{0};   // towards sleep: before arming, and once it is armed
  std::atomic<int> before{0};  // the value of `steps` when the byte was requested
  std::atomic<int> wanted{0};
};

constexpr int rounds = 500;

task<void> read_all(ground* g, int fd, sleepy* s) {
  std::array<std::byte, 1> memory{};
  for (int i = 0; i < rounds; ++i) {
    s->before.store(s->steps.load());
    s->wanted.store(i + 1);
    s->wanted.notify_one();
    const int got = co_await g->ring.read(fd, memory, 0);
    CHECK(got == 1);
    CHECK(std::to_integer<int>(memory[0]) == i % 128);
  }
}

// The writing thread writes at once, when nothing is armed yet, or when everything is armed.
void write_all(const pipe_ends& ends, sleepy& s) {
  for (int i = 0; i < rounds; ++i) {
    while (s.wanted.load() <= i) s.wanted.wait(i);
    const int from = s.before.load() + i % 3;
    for (int now = s.steps.load(); now < from; now = s.steps.load()) s.steps.wait(now);
    const auto byte = static_cast<char>(i % 128);
    ends.put({&byte, 1});
  }
}

constexpr int syncs = 100;

task<void> sync_often(ground* g, int fd) {
  for (int i = 0; i < syncs; ++i) {
    co_await g->ring.write(fd, bytes_of("x"), 0);
    co_await g->ring.sync_data(fd);
  }
}

}  // namespace

TEST_CASE("a pipe's other end wakes who sleeps" * applies(has_io_uring(), no_io_uring)) {
  for (const cordma::wait_mode mode : {cordma::wait_mode::event, cordma::wait_mode::adaptive}) {
    CAPTURE(name(mode));
    sleepy s;
    ground g({},
             {.mode = mode, .before_sleep = &sleepy::about_to_sleep, .before_sleep_context = &s});
    const pipe_ends ends;
    std::thread writer([&ends, &s] { write_all(ends, s); });
    cordma::run(g.loop, read_all(&g, ends.out.get(), &s));
    writer.join();
    CHECK(g.loop.counters().sleeps > 0);
    if (mode == cordma::wait_mode::event) CHECK(g.loop.counters().turns <= 20 * rounds);
  }
}

TEST_CASE("a worker of the kernel wakes who sleeps, and lets sleep again" *
          applies(has_io_uring(), no_io_uring)) {
  ground g;
  const unique_fd file = g.files.make("a");
  cordma::run(g.loop, sync_often(&g, file.get()));
  CHECK(g.loop.counters().turns <= 20 * syncs);
}

TEST_CASE("a canceled operation goes on" * applies(has_io_uring(), no_io_uring)) {
  ground g({.depth = 1});
  const pipe_ends ends;
  std::array<std::byte, 8> memory{};
  cordma::cancel_source cancel;
  cordma::result<int> first(errc::unknown);
  cordma::result<int> second(errc::unknown);
  driven<void> in_kernel(
      g.loop, one(g.ring.read(ends.out.get(), std::span(memory).first(2), 0), &first), &cancel);
  driven<void> waits(g.loop, one(g.ring.read(ends.out.get(), memory, 0), &second), &cancel);
  g.settle();
  cancel.request();
  g.settle();
  CHECK_FALSE(in_kernel.ended());
  CHECK_FALSE(waits.ended());
  ends.put("abc");
  while (!in_kernel.ended() || !waits.ended()) g.loop.turn();
  CHECK(first.value() == 2);
  CHECK(second.value() == 1);
}

TEST_CASE("one that would have to wait its turn may rather not" *
          applies(has_io_uring(), no_io_uring)) {
  ground g({.depth = 1});
  const pipe_ends ends;
  const unique_fd file = g.files.make("a");
  std::array<std::byte, 8> memory{};
  std::optional<file_operation> reading(g.ring.read(ends.out.get(), memory, 0).or_again().start());
  g.settle();
  CHECK_FALSE(reading->done());
  file_operation late = g.ring.write(file.get(), bytes_of("x"), 0).or_again().start();
  CHECK(late.done());
  CHECK(late.take_result().code() == errc::again);
  reading.reset();
  file_operation in_time = g.ring.write(file.get(), bytes_of("x"), 0).or_again().start();
  while (!in_time.done()) g.loop.turn();
  CHECK(in_time.take_result().value() == 1);
}

TEST_CASE("one that is destroyed takes nothing from its pipe any more" *
          applies(has_io_uring(), no_io_uring)) {
  ground g({.depth = 2});
  const pipe_ends ends;
  std::array<std::byte, 8> memory{};
  cordma::result<int> outcome(errc::unknown);
  {
    const file_operation in_kernel = g.ring.read(ends.out.get(), memory, 0).start();
    driven<void> awaited(g.loop, one(g.ring.read(ends.out.get(), memory, 0), &outcome));
    g.settle();
    const file_operation queued = g.ring.read(ends.out.get(), memory, 0).start();
    driven<void> queued_too(g.loop, one(g.ring.read(ends.out.get(), memory, 0), &outcome));
    g.settle();
    CHECK_FALSE(awaited.ended());
    CHECK(queued.state() == cordma::operation_base::phase::queued);
  }
  {
    const file_operation not_yet = g.ring.read(ends.out.get(), memory, 0).start();
    const file_operation never = g.ring.read(ends.out.get(), memory, 0);
  }
  ends.put("abc");
  g.settle();
  CHECK(outcome.code() == errc::unknown);
  cordma::run(g.loop, one(g.ring.read(ends.out.get(), memory, 0), &outcome));
  CHECK(outcome.value() == 3);
  CHECK(text_of(std::span(memory).first(3)) == "abc");
}

TEST_CASE("a whole ring of reads that wait is destroyed one by one" *
          applies(has_io_uring(), no_io_uring)) {
  ground g({.depth = 64});
  const pipe_ends ends;
  std::array<std::byte, 8> memory{};
  for (int round = 0; round < 10; ++round) {
    std::vector<file_operation> all;
    for (int i = 0; i < 64; ++i) all.push_back(g.ring.read(ends.out.get(), memory, 0).start());
    if (round % 2 == 0) g.settle();
  }
  g.settle();
}

TEST_CASE("no descriptor is lost with its operation") {
  constexpr open_how how{.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .mode = 0, .resolve = 0};
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    ground g({.depth = 1, .kernel_ring = kernel_ring});
    const std::size_t before = open_descriptors();
    for (const bool handed_over : {false, true}) {
      CAPTURE(handed_over);
      {
        const file_operation never_started = g.ring.close(unique_fd(::dup(g.files.get())));
        file_operation opening = g.ring.open(g.files.get(), ".", how).start();
        if (handed_over) g.loop.turn();
        const file_operation elsewhere = std::move(opening);
        const file_operation closing = g.ring.close(unique_fd(::dup(g.files.get()))).start();
        const file_operation waits = g.ring.close(unique_fd(::dup(g.files.get()))).start();
      }
      CHECK(open_descriptors() == before);
      {
        const file_operation closing = g.ring.close(unique_fd(::dup(g.files.get()))).start();
        if (handed_over) g.loop.turn();
      }
      CHECK(open_descriptors() == before);
    }
    file_operation opened = g.ring.open(g.files.get(), ".", how).start();
    while (!opened.done()) g.loop.turn();
    const unique_fd taken(opened.take_result().value());
    CHECK(open_descriptors() == before + 1);
  }
}

TEST_CASE("one that outlives its ring without having begun says so") {
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    cordma::reactor loop({.mode = cordma::wait_mode::event});
    const folder files;
    const std::size_t before = open_descriptors();
    std::optional<file_ring> ring(std::in_place, loop,
                                  file_ring_options{.kernel_ring = kernel_ring});
    {
      file_operation syncing = ring->sync_data(files.get());
      file_operation closing = ring->close(unique_fd(::dup(files.get())));
      ring.reset();
      cordma::result<int> outcome(errc::unknown);
      cordma::run(loop, one(std::move(syncing), &outcome));
      CHECK(outcome.code() == errc::shutdown);
      closing.start();
      CHECK(closing.take_result().code() == errc::shutdown);
    }
    CHECK(open_descriptors() == before);
  }
}
