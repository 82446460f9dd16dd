// A Worker that sleeps through unsolicited messages: its wake-ups are counted.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

endpoint_options patient() {
  endpoint_options o;
  o.send_depth = 128;
  o.recv_depth = 2048;
  o.peer_timeout = std::chrono::minutes(5);  // no timer causes a wake-up meanwhile
  return o;
}

connect_options patiently() {
  connect_options o;
  o.endpoint = patient();
  return o;
}

// Values that a host on a separate thread passes to the other one.
struct meeting {
  std::atomic<int> port{0};
  std::atomic<pid_t> thread{0};
  std::atomic<bool> ready{false};
  std::atomic<int> arms{0};  // since it was ready; two for each sleep
  std::vector<std::byte> blob;

  static void about_to_sleep(void* self) noexcept {
    auto& m = *static_cast<meeting*>(self);
    if (m.ready.load()) ++m.arms;
  }
  void set_ready() {
    ready.store(true);
    ready.notify_all();
  }
  // Waits until it has armed this often, and the kernel reports that its thread sleeps.
  void wait_until_asleep(int armed = 2) const {
    ready.wait(false);
    while (arms.load() < armed || !sleeps()) std::this_thread::yield();
  }
  [[nodiscard]] bool sleeps() const {
    std::ifstream file("/proc/self/task/" + std::to_string(thread.load()) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_ends = line.rfind(") ");
    return name_ends != std::string::npos && line.at(name_ends + 2) == 'S';
  }
  [[nodiscard]] std::string where() const {
    port.wait(0);
    return own_host() + ":" + std::to_string(port.load());
  }
};

// Accepts the one client, with a Worker that wakes for `reason` from the beginning.
task<Endpoint> accept_one(meeting* m, Worker* worker, wake_reason reason,
                          connect_options how = patiently()) {
  worker->wake_for(reason).value();
  Listener listener = worker->listen(own_host() + ":0").value();
  m->port.store(listener.bound().port);
  m->port.notify_all();
  ConnectionRequest request = co_await listener.next();
  Endpoint e = co_await request.accept(how);
  co_return e;
}

task<> until_closed(Endpoint* e) {
  while (e->state() != endpoint_state::closed) co_await e->state_changed();
}

using story = task<> (*)(meeting*, Worker*, Context*, void*);

// Each host has a separate thread: a wake-up of one does not wake the other.
void on_two_threads(story there, story here, void* shared) {
  meeting m;
  std::thread other([&] {
    m.thread.store(::gettid());
    host h(reactor_options{.mode = wait_mode::event,
                           .before_sleep = &meeting::about_to_sleep,
                           .before_sleep_context = &m});
    h.worker.run(there(&m, &h.worker, &h.context, shared));
  });
  host h(wait_mode::event);
  h.worker.run(here(&m, &h.worker, &h.context, shared));
  other.join();
}

struct count {
  wake_reason wakes_for = wake_reason::everything;
  std::size_t messages = 0;
  bool one_by_one = false;    // the sender waits until the receiver sleeps again
  std::uint64_t wakeups = 0;  // between being ready and the last message
  std::size_t in_order = 0;
};

task<> receive_all(meeting* m, Worker* worker, Context* context, void* shared) {
  count& c = *static_cast<count*>(shared);
  Endpoint e = co_await accept_one(m, worker, c.wakes_for);
  MemoryRegion room = context->allocate(8 * c.messages).value();
  std::vector<recv_operation> receives;
  for (std::size_t i = 0; i < c.messages; ++i) {
    receives.push_back(e.recv(room.all().part(8 * i, 8)).start());
  }
  const std::uint64_t before = worker->loop().counters().wakeups;
  m->set_ready();
  recv_operation& last = receives.back();
  co_await last;
  c.wakeups = worker->loop().counters().wakeups - before;
  for (std::size_t i = 0; i < c.messages; ++i) {
    if (receives[i].done() && room.as<std::uint64_t>()[i] == i) ++c.in_order;
  }
  co_await until_closed(&e);
}

// All messages are unsolicited except the last.
task<> send_all(meeting* m, Worker* worker, Context* context, void* shared) {
  const count& c = *static_cast<count*>(shared);
  Endpoint e = co_await worker->connect(m->where(), patiently());
  MemoryRegion memory = context->allocate(8 * c.messages).value();
  for (std::size_t i = 0; i < c.messages; ++i) memory.as<std::uint64_t>()[i] = i;
  m->wait_until_asleep();
  for (std::size_t i = 0; i + 1 < c.messages; ++i) {
    const int armed = m->arms.load();
    co_await e.send(memory.all().part(8 * i, 8));
    if (c.one_by_one) m->wait_until_asleep(armed + 2);
  }
  m->wait_until_asleep();
  co_await e.send(memory.all().part(8 * (c.messages - 1), 8)).solicited();
  co_await e.close();
}

}  // namespace

TEST_CASE(
    "Q12: a thousand plain messages wake nobody who waits for solicited ones; one of those does") {
  count c{.wakes_for = wake_reason::solicited, .messages = 1001};
  on_two_threads(receive_all, send_all, &c);
  CHECK(c.wakeups == 1);
  CHECK(c.in_order == c.messages);
}

TEST_CASE("Q12: who waits for everything is woken by each message that finds it asleep") {
  count c{.messages = 6, .one_by_one = true};
  on_two_threads(receive_all, send_all, &c);
  CHECK(c.wakeups == 6);
  CHECK(c.in_order == c.messages);
}

namespace {

constexpr int rounds = 20;

// Awaits each of its sends before it posts the next receive: then only their own completions can
// wake it.
task<> answer(meeting* m, Worker* worker, Context* context, void*) {
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited);
  MemoryRegion room = context->allocate(8).value();
  m->set_ready();
  for (int i = 0; i < rounds; ++i) {
    co_await e.recv(room);
    co_await e.send(room).solicited();
  }
  co_await until_closed(&e);
}

task<> ask(meeting* m, Worker* worker, Context* context, void*) {
  worker->wake_for(wake_reason::solicited).value();
  Endpoint e = co_await worker->connect(m->where(), patiently());
  MemoryRegion room = context->allocate(8).value();
  for (int i = 0; i < rounds; ++i) {
    m->wait_until_asleep();
    recv_operation answered = e.recv(room).start();
    co_await e.send(room).solicited();
    co_await answered;
  }
  m->wait_until_asleep();
  co_await e.close();
}

task<> wait_for_end(meeting* m, Worker* worker, Context* context, void*) {
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited);
  MemoryRegion room = context->allocate(8).value();
  recv_operation waiting = e.recv(room).start();
  m->set_ready();
  const result<Received> r = co_await waiting.result();
  CHECK_FALSE(r.ok());
  co_await until_closed(&e);
}

task<> abort_it(meeting* m, Worker* worker, Context*, void*) {
  Endpoint e = co_await worker->connect(m->where(), patiently());
  m->wait_until_asleep();
  e.abort();
}

// An unsolicited message that is too long for its receive.
task<> send_too_much(meeting* m, Worker* worker, Context* context, void*) {
  Endpoint e = co_await worker->connect(m->where(), patiently());
  MemoryRegion much = context->allocate(4096).value();
  m->wait_until_asleep();
  const result<void> r = co_await e.send(much).result();
  CHECK(r.code() == errc::truncated);
}

task<> own_counter(meeting* m, Worker* worker, Context* context, void*) {
  SyncEvent event(*context,
                  {.publisher = sync_location::remote, .subscriber = sync_location::remote});
  event.start(*worker).value();
  m->blob = event.export_remote().value();
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited);
  task_context& me = co_await this_task();
  scope listening(me);
  listening.spawn(event.listen(e));
  m->set_ready();
  const std::uint64_t seen = co_await event.wait_gt(4);
  CHECK(seen == 5);
  co_await listening.join();
}

task<> set_counter(meeting* m, Worker* worker, Context* context, void*) {
  Endpoint e = co_await worker->connect(m->where(), patiently());
  RemoteSyncEvent remote = RemoteSyncEvent::import(*context, m->blob).value();
  remote.start(e).value();
  m->wait_until_asleep();
  co_await remote.set(5);
  co_await e.close();
}

}  // namespace

TEST_CASE("Q12: own requests and closing wake a Worker that waits for solicited messages") {
  on_two_threads(answer, ask, nullptr);
}

TEST_CASE(
    "Q12: a peer that aborts, and a message that fails, wake a Worker that waits for solicited "
    "ones") {
  on_two_threads(wait_for_end, abort_it, nullptr);
  on_two_threads(wait_for_end, send_too_much, nullptr);
}

TEST_CASE("Q12: a peer's change of a SyncEvent wakes its owner, who waits for solicited messages") {
  on_two_threads(own_counter, set_counter, nullptr);
}

namespace {

task<> by_descriptors(stage* on) {
  on->client().wake_for(wake_reason::solicited).value();
  on->server().wake_for(wake_reason::solicited).value();
  Endpoint a = on->client().prepare().value();
  Endpoint b = on->server().prepare().value();
  const std::vector<std::byte> of_a = a.descriptor().value();
  a.connect(b.descriptor().value()).value();
  b.connect(of_a).value();
  while (a.state() == endpoint_state::connecting) co_await a.state_changed();
  while (b.state() == endpoint_state::connecting) co_await b.state_changed();
  MemoryRegion local = client_memory(*on, 8);
  MemoryRegion target = server_memory(*on, 8);
  const RemoteMemory remote = exported(target);
  co_await a.write(remote, local);
  co_await a.fetch_add(remote, 1);
  co_await a.flush();
  co_await a.close();
  co_await until_closed(&b);
}

}  // namespace

TEST_CASE(
    "Q12: Workers that wait for solicited messages connect by descriptors, and read and write") {
  stage s({.mode = wait_mode::event});
  s.play([](stage& on) -> task<> { co_await by_descriptors(&on); });
}

TEST_CASE("Q12: told to wake for everything again, it does") {
  stage s({.mode = wait_mode::event});
  s.play([](stage& on) -> task<> {
    on.server().wake_for(wake_reason::solicited).value();
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    on.server().wake_for(wake_reason::everything).value();
    for (int i = 0; i < 3; ++i) {
      recv_operation receiving = w.server.recv(in).start();
      co_await w.client.send(out);
      co_await receiving;
    }
  });
}

// ---- waiting for messages that only net/ interprets: credits, responses, windows ----

namespace {

constexpr std::size_t long_bytes = std::size_t{1} << 20;
constexpr std::uint64_t short_messages = 200;  // more than there are credits for
constexpr std::uint16_t twice_method = 1;

connect_options patiently_with(Messages& messages) {
  connect_options o = patiently();
  o.messages = &messages;
  return o;
}

task<> take_messages(meeting* m, Worker* worker, Context* context, void*) {
  Messages messages(*worker);
  MemoryRegion room = context->allocate(long_bytes).value();
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited, patiently_with(messages));
  m->set_ready();
  for (std::uint64_t i = 0; i < short_messages; ++i) {
    co_await e.tag_recv(i, whole_tag, room);
    CHECK(room.as<std::uint64_t>()[0] == i);
  }
  const TagReceived got = co_await e.tag_recv(short_messages, whole_tag, room);
  CHECK(got.bytes == long_bytes);
  CHECK(filled(room.bytes(), 7));
  co_await until_closed(&e);
}

task<> give_messages(meeting* m, Worker* worker, Context* context, void*) {
  worker->wake_for(wake_reason::solicited).value();
  Messages messages(*worker);
  MemoryRegion memory = context->allocate(long_bytes).value();
  Endpoint e = co_await worker->connect(m->where(), patiently_with(messages));
  for (std::uint64_t i = 0; i < short_messages; ++i) {
    if (i % 50 == 0) m->wait_until_asleep();
    memory.as<std::uint64_t>()[0] = i;
    co_await e.tag_send(i, memory.all().first(64));
  }
  fill(memory.bytes(), 7);
  m->wait_until_asleep();
  co_await e.tag_send(short_messages, memory.all());
  co_await e.close();
}

task<> answer_with(MemoryRegion* room, Request r) {
  const Slice all = room->all().first(r.size());
  if (r.data().size() == r.size()) {
    std::ranges::copy(r.data(), all.data());
  } else {
    co_await r.read(all);
  }
  co_await r.respond(all);
}

task<> answer_calls(meeting* m, Worker* worker, Context* context, void*) {
  Messages messages(*worker);
  Requests requests(messages);
  MemoryRegion room = context->allocate(long_bytes).value();
  MemoryRegion* const place = &room;
  requests.serve(twice_method, [place](Request r) { return answer_with(place, std::move(r)); });
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited, patiently_with(messages));
  m->set_ready();
  co_await until_closed(&e);
}

task<> make_calls(meeting* m, Worker* worker, Context* context, void*) {
  worker->wake_for(wake_reason::solicited).value();
  Messages messages(*worker);
  Requests requests(messages);
  MemoryRegion asked = context->allocate(long_bytes).value();
  MemoryRegion room = context->allocate(long_bytes).value();
  fill(asked.bytes(), 9);
  Endpoint e = co_await worker->connect(m->where(), patiently_with(messages));
  for (const std::size_t bytes : {std::size_t{8}, long_bytes}) {
    m->wait_until_asleep();
    const Response got = co_await requests.call(e, twice_method, asked.all().first(bytes), room);
    CHECK(got.bytes == bytes);
    CHECK(std::ranges::equal(room.bytes().first(bytes), asked.bytes().first(bytes)));
  }
  co_await e.close();
}

task<> read_stream(meeting* m, Worker* worker, Context* context, void*) {
  Endpoint e = co_await accept_one(m, worker, wake_reason::solicited);
  Stream stream = co_await Stream::open(*context, std::move(e));
  std::vector<std::byte> all(long_bytes);
  m->set_ready();
  co_await stream.read(all);
  CHECK(filled(all, 8));
  co_await stream.write(std::span(all).first(8));
  co_await stream.close();
}

task<> write_stream(meeting* m, Worker* worker, Context* context, void*) {
  worker->wake_for(wake_reason::solicited).value();
  Endpoint e = co_await worker->connect(m->where(), patiently());
  Stream stream = co_await Stream::open(*context, std::move(e));
  std::vector<std::byte> all(long_bytes);
  fill(all, 8);
  m->wait_until_asleep();
  co_await stream.write(all);
  co_await stream.read(std::span(all).first(8));
  co_await stream.close();
}

}  // namespace

TEST_CASE(
    "Q12: tagged messages, calls and streams get on between Workers that wait for solicited "
    "messages") {
  on_two_threads(take_messages, give_messages, nullptr);
  on_two_threads(answer_calls, make_calls, nullptr);
  on_two_threads(read_stream, write_stream, nullptr);
}
