// SyncEvent in one process: creation and start, its counters, and waits and wake-ups.
#include <doctest/doctest.h>
#include <support/paper_domain.hpp>
#include <support/stage.hpp>

#include <cordma/net/memory/blob.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};
constexpr std::array<sync_location, 2> usable{sync_location::cpu, sync_location::remote};

constexpr sync_event_options between(sync_location publisher, sync_location subscriber) {
  return {.publisher = publisher, .subscriber = subscriber};
}
constexpr sync_event_options here = between(sync_location::cpu, sync_location::cpu);

// One SyncEvent, awaited on a separate Worker. Time is virtual, so that timeouts take none.
struct rig {
  explicit rig(const sync_event_options& o = here) : event(h.context, o) {
    event.start(h.worker).value();
  }
  template <class Story>
  void play(Story story) {
    h.worker.run(story(*this));
  }
  virtual_clock time;
  host h{reactor_options{.mode = wait_mode::polling, .time = &time}};
  SyncEvent event;
};

task<> note(SyncEvent* event, sync_condition until, std::vector<std::uint64_t>* order) {
  co_await event->wait(until);
  order->push_back(until.value);
}

sync_condition greater(std::uint64_t value) { return {.value = value}; }

task<> turns(int n) {
  for (int i = 0; i < n; ++i) co_await yield();
}

}  // namespace

TEST_CASE("E1: a SyncEvent starts with every pair of locations, and with neither left out") {
  host h;
  for (const sync_location publisher : usable) {
    for (const sync_location subscriber : usable) {
      SyncEvent event(h.context, between(publisher, subscriber));
      CHECK(event.start(h.worker).ok());
      const bool remote = publisher == sync_location::remote || subscriber == sync_location::remote;
      CHECK(event.export_remote().code() == (remote ? errc::ok : errc::not_permitted));
    }
  }
  for (const bool publisher : {true, false}) {
    sync_event_options half;
    (publisher ? half.publisher : half.subscriber) = sync_location::cpu;
    SyncEvent event(h.context, half);
    CHECK(event.start(h.worker).code() == errc::bad_state);
    CHECK(event.start_blocking().why().message().find("publisher") != std::string::npos);
  }
}

TEST_CASE("E1: locations on a GPU or a DPA are refused with a sentence") {
  host h;
  for (const sync_location where : {sync_location::gpu, sync_location::dpa}) {
    for (const auto& o : {between(where, sync_location::cpu), between(sync_location::cpu, where)}) {
      SyncEvent event(h.context, o);
      const result<void> r = event.start(h.worker);
      CHECK(r.code() == errc::not_supported);
      CHECK(r.why().message().find(name(where)) != std::string::npos);
    }
  }
}

TEST_CASE("E1: a Worker of another Context, and another thread, cannot have it") {
  host h;
  host other;
  SyncEvent event(h.context, here);
  CHECK(event.start(other.worker).code() == errc::invalid_value);
  errc there = errc::ok;
  std::thread([&] { there = event.start(h.worker).code(); }).join();
  CHECK(there == errc::no_lock);
  CHECK(event.start(h.worker).ok());
  std::array<errc, 3> from{};
  std::thread([&] {
    reactor_options polling{.mode = wait_mode::polling};
    reactor loop(polling);
    run(loop, [](SyncEvent* e, std::array<errc, 3>* codes) -> task<> {
      const result<void> set = co_await e->set(1).result();
      const result<std::uint64_t> waited = co_await e->wait_gt(7).result();
      *codes = {set.code(), waited.code(), e->stop().code()};
    }(&event, &from));
  }).join();
  for (const errc code : from) CHECK(code == errc::no_lock);
}

TEST_CASE("E2: the counter lies in the program's own word, and begins as what is there") {
  host h;
  alignas(8) std::uint64_t word = 40;
  MemoryRegion region =
      h.context.register_memory(std::as_writable_bytes(std::span(&word, 1)), every_right).value();
  {
    SyncEvent event(h.context, {.publisher = sync_location::remote,
                                .subscriber = sync_location::remote,
                                .backing = region});
    event.start_blocking().value();
    CHECK(event.blocking_get().value() == 40);
    event.blocking_set(42).value();
    CHECK(word == 42);
    word = 7;
    CHECK(event.blocking_get().value() == 7);
    CHECK(region.deregister().code() == errc::in_use);
    const std::vector<std::byte> blob = event.export_remote().value();
    CHECK(detail::decode_sync(blob)->word.addr == reinterpret_cast<std::uintptr_t>(&word));
  }
  CHECK(region.deregister().ok());
  CHECK(word == 7);
}

TEST_CASE(
    "E2: a backing that is misaligned, of another size, foreign or without rights is refused") {
  host h;
  host other;
  MemoryRegion region = h.context.allocate(64, every_right).value();
  MemoryRegion foreign = other.context.allocate(8, every_right).value();
  const auto start = [&h](const Slice& backing) {
    SyncEvent event(h.context, {.publisher = sync_location::remote,
                                .subscriber = sync_location::remote,
                                .backing = backing});
    return event.start_blocking().code();
  };
  CHECK(start(region.slice(8, 8).value()) == errc::ok);
  CHECK(start(region.slice(4, 8).value()) == errc::invalid_value);
  CHECK(start(region.slice(8, 16).value()) == errc::invalid_value);
  CHECK(start(region.slice(8, 4).value()) == errc::invalid_value);
  CHECK(start(region.slice(8, 0).value()) == errc::invalid_value);
  CHECK(start(foreign) == errc::invalid_value);
  for (const cordma::access lacking :
       {cordma::access::remote_atomic, cordma::access::remote_read, cordma::access::remote_write}) {
    const auto left = static_cast<std::uint8_t>(every_right) &
                      static_cast<std::uint8_t>(~static_cast<unsigned>(lacking));
    MemoryRegion weak = h.context.allocate(8, static_cast<cordma::access>(left)).value();
    CHECK(start(weak) == errc::not_permitted);
  }
}

TEST_CASE("E3: what blocks is refused where calls are awaited, and the other way round") {
  host h;
  SyncEvent awaited(h.context, here);
  SyncEvent blocks(h.context, here);
  CHECK(awaited.blocking_get().code() == errc::bad_state);  // not started
  CHECK(awaited.stop().code() == errc::bad_state);
  awaited.start(h.worker).value();
  blocks.start_blocking().value();
  CHECK(awaited.blocking_set(1).code() == errc::bad_state);
  CHECK(awaited.blocking_add(1).code() == errc::bad_state);
  CHECK(awaited.blocking_get().code() == errc::bad_state);
  CHECK(awaited.blocking_wait(greater(0), sync_wait::spin).code() == errc::bad_state);
  CHECK(blocks.blocking_set(5).ok());
  h.worker.run([](SyncEvent* a, SyncEvent* b) -> task<> {
    co_await a->set(3);
    const std::uint64_t now = co_await a->get();
    CHECK(now == 3);
    const result<void> set = co_await b->set(1).result();
    const result<std::uint64_t> added = co_await b->add(1).result();
    const result<std::uint64_t> got = co_await b->get().result();
    const result<std::uint64_t> waited = co_await b->wait_gt(0).result();
    for (const errc code : {set.code(), added.code(), got.code(), waited.code()}) {
      CHECK(code == errc::bad_state);
    }
    // Also, no blocking call is allowed on a thread that runs a reactor.
    CHECK(b->blocking_set(1).code() == errc::bad_state);
    CHECK(b->blocking_get().why().message().find("reactor") != std::string::npos);
    CHECK(b->blocking_wait(greater(0), sync_wait::yield).code() == errc::bad_state);
  }(&awaited, &blocks));
  CHECK(blocks.blocking_get().value() == 5);
}

TEST_CASE("E3, E11: the mode is fixed by the start, and nothing starts it again after stop()") {
  host h;
  for (const bool blocking : {true, false}) {
    SyncEvent event(h.context, here);
    CHECK((blocking ? event.start_blocking() : event.start(h.worker)).ok());
    CHECK(event.start(h.worker).code() == errc::bad_state);
    CHECK(event.start_blocking().code() == errc::bad_state);
    CHECK(event.stop().ok());
    CHECK(event.stop().ok());
    CHECK(event.start(h.worker).code() == errc::bad_state);
    CHECK(event.start_blocking().code() == errc::bad_state);
    CHECK(event.blocking_get().code() == errc::bad_state);
    CHECK(event.export_remote().code() == errc::bad_state);
    h.worker.run([](SyncEvent* e) -> task<> {
      const result<std::uint64_t> got = co_await e->get().result();
      CHECK(got.code() == errc::bad_state);
    }(&event));
  }
}

TEST_CASE("E4, E5: set and get all 64 bits; add returns what was there, and wraps") {
  rig r;
  r.play([](rig& on) -> task<> {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 32, most}) {
      co_await on.event.set(value);
      const std::uint64_t got = co_await on.event.get();
      CHECK(got == value);
    }
    const std::uint64_t last = co_await on.event.add(3);
    CHECK(last == most);
    const std::uint64_t wrapped = co_await on.event.get();
    CHECK(wrapped == 2);
  });
}

TEST_CASE("E5: blocking adds of four threads lose nothing, and no two fetch the same") {
  host h;
  SyncEvent event(h.context, here);
  event.start_blocking().value();
  constexpr std::uint64_t each = 20'000;
  std::array<std::vector<std::uint64_t>, 4> fetched;
  {
    std::vector<std::jthread> threads;
    for (std::vector<std::uint64_t>& mine : fetched) {
      threads.emplace_back([&event, &mine] {
        for (std::uint64_t i = 0; i < each; ++i) mine.push_back(event.blocking_add(1).value());
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : fetched) {
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  bool permutation = true;
  for (std::uint64_t i = 0; i < all.size(); ++i) permutation = permutation && all[i] == i;
  CHECK(permutation);
  CHECK(event.blocking_get().value() == 4 * each);
}

TEST_CASE("E7: greater is strict, up to the last value, which nothing is greater than") {
  rig r;
  r.play([](rig& on) -> task<> {
    co_await on.event.set(10);
    const std::uint64_t at_once = co_await on.event.wait_gt(9);
    CHECK(at_once == 10);
    std::vector<std::uint64_t> order;
    task_context& me = co_await this_task();
    scope waiting(me);
    waiting.spawn(note(&on.event, greater(10), &order));
    co_await turns(3);
    co_await on.event.set(10);
    co_await turns(3);
    CHECK(order.empty());
    co_await on.event.set(11);
    co_await waiting.join();
    CHECK(order.size() == 1);
    co_await on.event.set(most);
    const std::uint64_t beyond = co_await on.event.wait_gt(most - 1);
    CHECK(beyond == most);
    bool timed_out = false;
    try {
      co_await with_timeout(1s, on.event.wait_gt(most));
    } catch (const error& e) {
      timed_out = e.condition() == errc::timed_out;
    }
    CHECK(timed_out);
  });
}

TEST_CASE("E7: equal, not equal and masks decide who is woken, in the order of coming") {
  using is = sync_condition::is;
  rig r;
  r.play([](rig& on) -> task<> {
    co_await on.event.set(0x1122);
    std::vector<std::uint64_t> order;
    task_context& me = co_await this_task();
    scope waiting(me);
    const sync_condition low{.comparison = is::equal, .value = 0x33, .mask = 0xFF};
    const sync_condition high{.comparison = is::greater, .value = 0x1100, .mask = 0xFFFF00};
    const sync_condition other{.comparison = is::not_equal, .value = 0x1122};
    waiting.spawn(note(&on.event, low, &order));
    waiting.spawn(note(&on.event, high, &order));
    waiting.spawn(note(&on.event, other, &order));
    co_await turns(3);
    CHECK(on.event.waiting() == 3);
    co_await on.event.set(0x1133);
    co_await turns(3);
    CHECK(order == std::vector<std::uint64_t>{0x33, 0x1122});
    co_await on.event.set(0x1200);
    co_await waiting.join();
    CHECK(order.back() == 0x1100);
    const std::uint64_t nothing = co_await on.event.wait_eq(0, 0);
    CHECK(nothing == 0x1200);  // a mask of 0 leaves 0
  });
}

TEST_CASE(
    "E7: awaited masks are whole bytes, one, two, four or eight together; a thread takes any") {
  rig r;
  r.play([](rig& on) -> task<> {
    co_await on.event.set(most);
    for (const std::uint64_t good :
         {std::uint64_t{0xFF}, std::uint64_t{0xFF00}, std::uint64_t{0xFFFF} << 40,
          std::uint64_t{0xFFFFFFFF} << 32, std::uint64_t{0xFF} << 56, most}) {
      CAPTURE(good);
      const std::uint64_t met = co_await on.event.wait_eq(good, good);
      CHECK(met == most);
    }
    for (const std::uint64_t bad :
         {std::uint64_t{1}, std::uint64_t{0x7F}, std::uint64_t{0xFF0}, std::uint64_t{0xFFFFFF},
          std::uint64_t{0xFF00FF}, most >> 8, most >> 1, std::uint64_t{1} << 63}) {
      CAPTURE(bad);
      const result<std::uint64_t> refused = co_await on.event.wait_eq(bad, bad).result();
      CHECK(refused.code() == errc::invalid_value);
    }
  });
  SyncEvent blocks(r.h.context, here);
  blocks.start_blocking().value();
  blocks.blocking_set(6).value();
  const sync_condition one_bit{.comparison = sync_condition::is::equal, .value = 2, .mask = 2};
  CHECK(blocks.blocking_wait(one_bit, sync_wait::spin).value() == 6);
}

TEST_CASE(
    "E7: a blocked thread is let go by a change, a time-out or stop() [spin, yield, suspend]") {
  host h;
  for (const sync_wait how : {sync_wait::spin, sync_wait::yield, sync_wait::suspend}) {
    CAPTURE(static_cast<int>(how));
    SyncEvent event(h.context, here);
    event.start_blocking().value();
    CHECK(event.blocking_wait(greater(0), how, 2ms).code() == errc::timed_out);
    result<std::uint64_t> seen = errc::unknown;
    result<std::uint64_t> stopped = errc::unknown;
    std::jthread waiter([&] {
      seen = event.blocking_wait(greater(0), how);
      event.blocking_set(0).value();
      stopped = event.blocking_wait(greater(0), how);
    });
    event.blocking_set(3).value();
    CHECK(event.blocking_wait({.comparison = sync_condition::is::equal}, how).ok());
    event.stop().value();
    waiter.join();
    CHECK(seen.value() == 3);
    // bad_state: it was stopped before the thread had begun to wait.
    CHECK((stopped.code() == errc::shutdown || stopped.code() == errc::bad_state));
  }
}

namespace {

// Times of this thread so far: running, waiting to run, and the number of sleeps.
struct processor_time {
  duration used{};
  duration denied{};
  long sleeps = 0;
};

processor_time processor_time_now() {
  timespec ran{};
  REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran) == 0);
  rusage counted{};
  REQUIRE(::getrusage(RUSAGE_THREAD, &counted) == 0);
  std::int64_t used = 0;
  std::int64_t denied = 0;  // 0 if the kernel does not report it
  std::ifstream("/proc/thread-self/schedstat") >> used >> denied;
  return {.used = std::chrono::seconds(ran.tv_sec) + std::chrono::nanoseconds(ran.tv_nsec),
          .denied = std::chrono::nanoseconds(denied),
          .sleeps = counted.ru_nvcsw};
}

}  // namespace

TEST_CASE("E7: who spins or yields wants a processor all the time, who is suspended sleeps") {
  host h;
  SyncEvent event(h.context, here);
  event.start_blocking().value();
  constexpr duration waited = 200ms;  // at least
  for (const sync_wait how : {sync_wait::spin, sync_wait::yield, sync_wait::suspend}) {
    CAPTURE(static_cast<int>(how));
    const processor_time before = processor_time_now();
    CHECK(event.blocking_wait(greater(0), how, waited).code() == errc::timed_out);
    const processor_time after = processor_time_now();
    const duration used = after.used - before.used;
    const duration wanted = used + (after.denied - before.denied);
    CAPTURE(used.count());
    CAPTURE(wanted.count());
    if (how == sync_wait::suspend) {
      CHECK(after.sleeps - before.sleeps >= 10);
      CHECK(used <= waited / 2);
    } else {
      CHECK(used > duration{});
      CHECK(wanted >= waited / 2);
    }
  }
}

TEST_CASE("E7: a thread that yields lets one that shares its core publish") {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  host h;
  SyncEvent event(h.context, here);
  event.start_blocking().value();
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  {
    // Back and forth: each step needs the other thread to run on the one core.
    constexpr std::uint64_t steps = 2000;
    std::jthread publisher([&event] {
      for (std::uint64_t i = 0; i < steps; i += 2) {
        event.blocking_wait({.comparison = sync_condition::is::equal, .value = i}, sync_wait::yield)
            .value();
        event.blocking_add(1).value();
      }
    });
    for (std::uint64_t i = 1; i < steps; i += 2) {
      event.blocking_wait({.comparison = sync_condition::is::equal, .value = i}, sync_wait::yield)
          .value();
      event.blocking_add(1).value();
    }
    CHECK(event.blocking_get().value() == steps);
  }
  ::sched_setaffinity(0, sizeof all, &all);
}

TEST_CASE("E8: a thousand waiters resume in the order of their thresholds, equals as they came") {
  rig r;
  r.play([](rig& on) -> task<> {
    constexpr std::uint64_t waiters = 1000;
    std::vector<std::uint64_t> order;
    task_context& me = co_await this_task();
    scope waiting(me);
    // 7 and 1000 have no common factor: every threshold occurs once, well mixed.
    for (std::uint64_t i = 0; i < waiters; ++i) {
      waiting.spawn(note(&on.event, greater(i * 7 % waiters), &order));
    }
    co_await turns(2);
    CHECK(on.event.waiting() == waiters);
    co_await on.event.set(300);
    co_await turns(2);
    CHECK(order.size() == 300);
    for (std::uint64_t i = 0; i < 200; ++i) co_await on.event.add(1);
    co_await turns(2);
    CHECK(order.size() == 500);
    co_await on.event.set(most);
    co_await waiting.join();
    CHECK(order.size() == waiters);
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK(on.event.waiting() == 0);
  });
}

TEST_CASE("E8: who waits too long, is canceled or destroyed is not known any more") {
  rig r;
  r.play([](rig& on) -> task<> {
    errc ended = errc::ok;
    try {
      co_await with_timeout(5ms, on.event.wait_gt(0));
    } catch (const error& e) {
      ended = e.condition();
    }
    CHECK(ended == errc::timed_out);
    CHECK(on.event.waiting() == 0);
    std::vector<std::uint64_t> order;
    task_context& me = co_await this_task();
    scope canceled(me);
    canceled.spawn(note(&on.event, greater(1), &order));
    co_await turns(2);
    CHECK(on.event.waiting() == 1);
    canceled.cancel();
    co_await canceled.join();
    CHECK(on.event.waiting() == 0);
    {
      scope destroyed(me);
      destroyed.spawn(note(&on.event, greater(2), &order));
      co_await turns(2);
      CHECK(on.event.waiting() == 1);
    }
    CHECK(on.event.waiting() == 0);
    co_await on.event.set(100);
    co_await turns(3);
    CHECK(order.empty());
  });
}

TEST_CASE("E8, E11: who waits when it is stopped, or destroyed, learns of it") {
  for (const bool destroyed : {true, false}) {
    rig r;
    auto event = std::make_unique<SyncEvent>(r.h.context, here);
    event->start(r.h.worker).value();
    r.h.worker.run([](std::unique_ptr<SyncEvent>* of, bool destroy) -> task<> {
      using waits = sync_operation<std::uint64_t>;
      waits first = (*of)->wait_gt(5).start();
      waits second = (*of)->wait_eq(5).start();
      if (destroy) of->reset();
      if (!destroy) (*of)->stop().value();
      const result<std::uint64_t> a = co_await first.result();
      const result<std::uint64_t> b = co_await second.result();
      CHECK(a.code() == errc::shutdown);
      CHECK(b.code() == errc::shutdown);
    }(&event, destroyed));
  }
}

namespace {

std::shared_ptr<transport::domain> context_domain(std::uint32_t rc_operations) {
  transport::capabilities caps;
  caps.transport = transport::kind::verbs;
  caps.operations[0] = rc_operations;
  caps.ordered_path = true;
  return std::make_shared<paper_domain>(caps);
}

Context context_with(std::uint32_t rc_operations) {
  context_options o;
  o.domains.push_back(context_domain(rc_operations));
  return Context(o);
}

constexpr std::uint32_t adds = 1U << static_cast<unsigned>(transport::opcode::fetch_add);

}  // namespace

TEST_CASE(
    "E5: where a device's atomics and the CPU's do not see each other, local adds are refused") {
  const Context context = context_with(adds);
  for (const sync_location publisher : usable) {
    SyncEvent event(context, between(publisher, sync_location::remote));
    event.start_blocking().value();
    const result<std::uint64_t> added = event.blocking_add(1);
    CHECK(added.code() == (publisher == sync_location::remote ? errc::not_supported : errc::ok));
    if (!added) CHECK(added.why().message().find("verbs") != std::string::npos);
    CHECK(event.blocking_set(4).ok());
    CHECK(event.blocking_get().value() == 4);
  }
}

TEST_CASE("E9: a device without atomics neither exports for publishers nor imports as one") {
  const Context able = context_with(adds);
  const Context unable = context_with(0);
  for (const sync_location publisher : usable) {
    SyncEvent there(unable, between(publisher, sync_location::remote));
    there.start_blocking().value();
    const bool publishes = publisher == sync_location::remote;
    CHECK(there.export_remote().code() == (publishes ? errc::not_supported : errc::ok));
    SyncEvent event(able, between(publisher, sync_location::remote));
    event.start_blocking().value();
    const std::vector<std::byte> blob = event.export_remote().value();
    CHECK(RemoteSyncEvent::import(able, blob).ok());
    const result<RemoteSyncEvent> imported = RemoteSyncEvent::import(unable, blob);
    CHECK(imported.code() == (publishes ? errc::not_supported : errc::ok));
    if (!imported) CHECK(imported.why().message().find("atomics") != std::string::npos);
  }
}

TEST_CASE("E9: a blob that is cut, changed anywhere, or of something else is refused") {
  host h;
  SyncEvent event(h.context, between(sync_location::remote, sync_location::remote));
  event.start(h.worker).value();
  const std::vector<std::byte> blob = event.export_remote().value();
  CHECK(blob.size() == detail::sync_blob::bytes);
  CHECK(RemoteSyncEvent::import(h.context, blob).ok());
  for (std::size_t n = 0; n < blob.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(RemoteSyncEvent::import(h.context, std::span(blob).first(n)).ok());
    std::vector<std::byte> changed = blob;
    changed[n] ^= std::byte{0x10};
    const result<RemoteSyncEvent> r = RemoteSyncEvent::import(h.context, changed);
    const bool version = n == 4 || n == 5;
    CHECK(r.code() == (version ? errc::unsupported_version : errc::invalid_value));
  }
  MemoryRegion region = h.context.allocate(8, every_right).value();
  CHECK(RemoteSyncEvent::import(h.context, region.export_blob().value()).code() ==
        errc::invalid_value);
  CHECK(RemoteMemory::import(blob).code() == errc::invalid_value);
}

namespace {

// The blob of a SyncEvent, with correct checksums of itself and of the memory in it.
std::vector<std::byte> sealed(std::vector<std::byte> blob) {
  const auto seal = [](std::span<std::byte> of, std::size_t crc_at) {
    std::ranges::fill(of.subspan(crc_at, 4), std::byte{0});
    const std::uint32_t sum = detail::crc32c(of);
    for (std::size_t i = 0; i < 4; ++i) of[crc_at + i] = static_cast<std::byte>(sum >> (8 * i));
  };
  seal(std::span(blob).subspan(detail::sync_blob::word_at), detail::blob::crc_at);
  seal(blob, detail::sync_blob::crc_at);
  return blob;
}

std::vector<std::byte> exported_event(Context& context, std::size_t at, unsigned value) {
  SyncEvent event(context, between(sync_location::remote, sync_location::remote));
  event.start_blocking().value();
  std::vector<std::byte> blob = event.export_remote().value();
  blob[at] = static_cast<std::byte>(value);
  return sealed(std::move(blob));
}

}  // namespace

TEST_CASE("E9: a blob of another version is unsupported_version, naming theirs and ours") {
  Context context = context_with(adds);
  for (const std::size_t at : {std::size_t{4}, detail::sync_blob::word_at + 4}) {
    for (const unsigned version : {0U, 1U, 3U}) {
      CAPTURE(at);
      CAPTURE(version);
      const result<RemoteSyncEvent> r =
          RemoteSyncEvent::import(context, exported_event(context, at, version));
      REQUIRE(r.code() == errc::unsupported_version);
      CHECK(r.why().message().find("version " + std::to_string(version)) != std::string::npos);
      CHECK(r.why().message().find("version 2") != std::string::npos);
    }
  }
}

TEST_CASE("E9: a blob without a key is invalid_value, one of an unknown transport not_supported") {
  Context context = context_with(adds);
  constexpr std::size_t count_at = detail::sync_blob::word_at + detail::blob::count_at;
  for (const unsigned count : {0U, 4U, 255U}) {
    CAPTURE(count);
    const result<RemoteSyncEvent> r =
        RemoteSyncEvent::import(context, exported_event(context, count_at, count));
    CHECK(r.code() == errc::invalid_value);
  }
  constexpr std::size_t kind_at = detail::sync_blob::word_at + detail::blob::keys_at;
  const result<RemoteSyncEvent> r =
      RemoteSyncEvent::import(context, exported_event(context, kind_at, 200));
  REQUIRE(r.code() == errc::not_supported);
  CHECK(r.why().message().find("keys for 200") != std::string::npos);
}

TEST_CASE("E9: keys of unknown transports are skipped and counted") {
  transport::capabilities other;
  other.transport = transport::kind::test;
  context_options two;
  two.domains = {context_domain(adds), std::make_shared<paper_domain>(other)};
  Context context(two);
  constexpr std::size_t second_at =
      detail::sync_blob::word_at + detail::blob::keys_at + detail::blob::key_bytes;
  const std::vector<std::byte> blob = exported_event(context, second_at, 77);
  CHECK(RemoteSyncEvent::import(context, blob).value().skipped() == 1);
}

TEST_CASE("E9: a transport that does not keep the order of a path is not used") {
  Context able = context_with(adds);
  transport::capabilities caps = able.transports()[0];
  caps.ordered_path = false;
  context_options o;
  o.domains.push_back(std::make_shared<paper_domain>(caps));
  const result<RemoteSyncEvent> r =
      RemoteSyncEvent::import(Context(o), exported_event(able, 16, 0));
  REQUIRE(r.code() == errc::not_supported);
  CHECK(r.why().message().find("could overtake") != std::string::npos);
}
