// Memory that the CPU cannot touch, over verbs: an RDMA device emulated in this process moves the
// bytes through an alias. The memory itself is mapped without access rights, so that a touch ends
// the program by a signal.
#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/sync_event.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/when_all.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "../../bench/verbs_stand_in/device.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t room_bytes = std::size_t{1} << 18;
constexpr memory_place on_device{.kind = memory_kind::device, .device = 3};
// Around the limits of inline data (64), of data copied behind a head (512), and of eager_bytes
// (8192).
constexpr std::array<std::size_t, 14> sizes{1,   8,    63,   64,   65,   480,    496,
                                            497, 4096, 8176, 8177, 8192, 20'000, 200'000};

// One or more pages: the address for devices, and their contents.
class device_memory {
 public:
  explicit device_memory(std::size_t bytes) : bytes_(bytes) {
    const int fd = ::memfd_create("device-memory", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    seen_ = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    alias_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(seen_ != MAP_FAILED);
    REQUIRE(alias_ != MAP_FAILED);
    ::close(fd);
    stand_in::add_alias(seen(), content().data());
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() {
    stand_in::remove_alias(seen());
    ::munmap(seen_, bytes_);
    ::munmap(alias_, bytes_);
  }
  [[nodiscard]] std::span<std::byte> seen() const noexcept {
    return {static_cast<std::byte*>(seen_), bytes_};
  }
  [[nodiscard]] std::span<std::byte> content() const noexcept {
    return {static_cast<std::byte*>(alias_), bytes_};
  }

 private:
  std::size_t bytes_;
  void* seen_ = nullptr;
  void* alias_ = nullptr;
};

context_options with_stand_in() {
  context_options options;
  options.transports = {transport::kind::verbs};
  options.verbs.pd = stand_in::make_device(stand_in::payload::moved);
  options.verbs.calls = transport::verbs_calls::plain;
  return options;
}

// Two sides of one Worker, each with memory of both kinds.
struct ground {
  explicit ground(cordma::access rights = every_right)
      : context(with_stand_in()),
        worker(context, reactor_options{.mode = wait_mode::polling}),
        near_device(context.register_memory(near_bytes.seen(), rights, on_device).value()),
        far_device(context.register_memory(far_bytes.seen(), rights, on_device).value()),
        near_host(context.allocate(room_bytes, every_right).value()),
        far_host(context.allocate(room_bytes, every_right).value()) {}

  device_memory near_bytes{room_bytes};
  device_memory far_bytes{room_bytes};
  Context context;
  Worker worker;
  MemoryRegion near_device;
  MemoryRegion far_device;
  MemoryRegion near_host;
  MemoryRegion far_host;
  Endpoint near;
  Endpoint far;

  void play(task<> (*test)(ground&)) { worker.run(run(this, test)); }

 private:
  static task<> run(ground* g, task<> (*test)(ground&)) {
    co_await meet(g, nullptr, nullptr);
    co_await test(*g);
    if (g->near) g->near.abort();
    if (g->far) g->far.abort();
  }

 public:
  static task<> meet(ground* g, Messages* near_messages, Messages* far_messages) {
    g->near = g->worker.prepare({}, {}, near_messages).value();
    g->far = g->worker.prepare({}, {}, far_messages).value();
    const std::vector<std::byte> of_near = g->near.descriptor().value();
    const std::vector<std::byte> of_far = g->far.descriptor().value();
    g->near.connect(of_far).value();
    g->far.connect(of_near).value();
    while (g->near.state() == endpoint_state::connecting) co_await g->near.state_changed();
    while (g->far.state() == endpoint_state::connecting) co_await g->far.state_changed();
  }
};

// The same, with Messages on both sides.
struct frames {
  explicit frames(cordma::access rights = every_right)
      : on(rights), near(on.worker), far(on.worker) {}
  ground on;
  Messages near;
  Messages far;

  void play(task<> (*test)(frames&)) { on.worker.run(run(this, test)); }

 private:
  static task<> run(frames* f, task<> (*test)(frames&)) {
    co_await ground::meet(&f->on, &f->near, &f->far);
    co_await test(*f);
    f->on.near.abort();
    f->on.far.abort();
  }
};

task<> arrived(Messages* at, std::uint64_t tag) {
  while (!at->tag_probe(tag)) co_await yield();
}

template <class T>
bool refused(const result<T>& r, const char* words) {
  const bool told = r.why().message().find(words) != std::string::npos;
  CAPTURE(r.why().message());
  CHECK(told);
  return r.code() == errc::not_supported && told;
}

}  // namespace

TEST_CASE("device memory knows its kind and device, and gives its address without a touch") {
  ground g;
  const MemoryRegion& region = g.near_device;
  CHECK(region.kind() == memory_kind::device);
  CHECK(region.device() == 3);
  CHECK(region.data() == g.near_bytes.seen().data());
  CHECK(region.size() == room_bytes);
  CHECK(region.all().part(8, 8).kind() == memory_kind::device);
  CHECK(region.all().data() == region.data());
  CHECK(g.near_host.kind() == memory_kind::host);
  CHECK(g.near_host.device() == 0);
  CHECK(Slice().kind() == memory_kind::host);
  CHECK(Slice().bytes().empty());
}

TEST_CASE("bytes() and as() of device memory end the program, with the kinds printed") {
  const auto ends = [](void (*touch)(const MemoryRegion&)) {
    child_process doing([touch](wire_to_peer&) {
      std::signal(SIGABRT, SIG_DFL);  // ends this process only, without a failed test
      const ground g;
      touch(g.near_device);
      return 0;
    });
    return doing.join() == 128 + SIGABRT;
  };
  CHECK(ends([](const MemoryRegion& r) { static_cast<void>(r.bytes()); }));
  CHECK(ends([](const MemoryRegion& r) { static_cast<void>(r.as<std::uint64_t>()); }));
  CHECK(ends([](const MemoryRegion& r) { static_cast<void>(r.all().bytes()); }));
  CHECK(ends([](const MemoryRegion& r) { static_cast<void>(r.all().part(0, 0).bytes()); }));
}

TEST_CASE("memory without access rights is no host memory, and host memory has no device") {
  Context context(with_stand_in());
  const device_memory bytes(4096);
  const result<MemoryRegion> as_host = context.register_memory(bytes.seen(), every_right);
  CHECK(as_host.code() == errc::not_permitted);
  CHECK(as_host.why().message().find("memory_kind::device") != std::string::npos);
  const result<MemoryRegion> numbered =
      context.register_memory(bytes.content(), every_right, {.device = 1});
  CHECK(numbered.code() == errc::invalid_value);
  const auto no_kind = static_cast<memory_kind>(200);
  const result<MemoryRegion> unknown =
      context.register_memory(bytes.content(), every_right, {.kind = no_kind});
  CHECK(unknown.code() == errc::invalid_value);
}

TEST_CASE("device memory is sent from and received into, inline sizes too [14 sizes]") {
  ground g;
  g.play([](ground& on) -> task<> {
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      fill(on.near_bytes.content().first(size), size);
      recv_operation receiving = on.far.recv(on.far_device.all().first(size)).start();
      co_await on.near.send(on.near_device.all().first(size));
      const Received got = co_await receiving;
      CHECK(got.bytes == size);
      CHECK(filled(on.far_bytes.content().first(size), size));
      recv_operation immediate = on.far.recv(on.far_device.all().first(size)).start();
      fill(on.near_bytes.content().first(size), size + 1);
      co_await on.near.send_imm(on.near_device.all().first(size), 7).solicited();
      const Received with_imm = co_await immediate;
      CHECK(with_imm.imm == 7);
      CHECK(filled(on.far_bytes.content().first(size), size + 1));
    }
  });
}

TEST_CASE("gathered, batched and renewed requests leave device memory to the device") {
  ground g;
  g.play([](ground& on) -> task<> {
    // Host and device memory in one message, short enough for inline data.
    fill(on.near_host.bytes().first(8), 1);
    fill(on.near_bytes.content().first(8), 2);
    const std::array<Slice, 2> gathered{on.near_host.all().first(8), on.near_device.all().first(8)};
    const std::array<Slice, 2> scattered{on.far_device.all().first(8), on.far_host.all().first(8)};
    recv_operation receiving = on.far.recv(scattered).start();
    co_await on.near.send(gathered);
    co_await receiving;
    CHECK(filled(on.far_bytes.content().first(8), 1));
    CHECK(filled(on.far_host.bytes().first(8), 2));

    recv_operation first = on.far.recv(on.far_device.all().first(8)).start();
    recv_operation second = on.far.recv(on.far_host.all().first(8)).start();
    std::optional<send_operation> a;
    std::optional<send_operation> b;
    {
      const Endpoint::Batch batch = on.near.batch();
      a.emplace(on.near.send(on.near_device.all().first(8)));
      b.emplace(on.near.send(on.near_host.all().first(8)));
      a->start();
      b->start();
    }
    send_operation& from_device = *a;
    send_operation& from_host = *b;
    co_await from_device;
    co_await from_host;
    co_await first;
    co_await second;
    CHECK(filled(on.far_bytes.content().first(8), 2));
    CHECK(filled(on.far_host.bytes().first(8), 1));

    // The same object from host memory, from device memory and back.
    send_operation kept = on.near.send(on.near_host.all().first(8));
    recv_operation kept_receive = on.far.recv(on.far_host.all().first(8));
    for (const bool by_device : {false, true, true, false}) {
      CAPTURE(by_device);
      const Slice from = by_device ? on.near_device.all().first(8) : on.near_host.all().first(8);
      const Slice into = by_device ? on.far_host.all().first(8) : on.far_device.all().first(8);
      if (kept.done()) {
        kept.again(from);
        kept_receive.again(into);
      }
      kept_receive.start();
      co_await kept;
      co_await kept_receive;
    }
    CHECK(filled(on.far_host.bytes().first(8), 2));
    CHECK(filled(on.far_bytes.content().first(8), 1));
  });
}

TEST_CASE("device memory is written, read and added to on both sides [14 sizes]") {
  ground g;
  g.play([](ground& on) -> task<> {
    const RemoteMemory remote = exported(on.far_device);
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      const RemoteSlice there = remote.slice(8, size).value();
      fill(on.near_bytes.content().first(size), size);
      co_await on.near.write(there, on.near_device.all().first(size));
      co_await on.near.flush();
      CHECK(filled(on.far_bytes.content().subspan(8, size), size));
      std::ranges::fill(on.near_bytes.content().first(size), std::byte{0});
      co_await on.near.read(there, on.near_device.all().first(size));
      CHECK(filled(on.near_bytes.content().first(size), size));
      recv_operation told = on.far.recv(on.far_host.all().first(8)).start();
      fill(on.near_bytes.content().first(size), size + 1);
      co_await on.near.write_imm(there, on.near_device.all().first(size), 5);
      const Received got = co_await told;
      CHECK(got.imm == 5);
      CHECK(filled(on.far_bytes.content().subspan(8, size), size + 1));
    }
    const RemoteSlice word = remote.slice(0, 8).value();
    std::uint64_t value = 40;
    std::memcpy(on.far_bytes.content().data(), &value, sizeof value);
    const std::uint64_t before_add = co_await on.near.fetch_add(word, 2);
    const std::uint64_t before_swap = co_await on.near.compare_swap(word, 42, 50);
    CHECK(before_add == 40);
    CHECK(before_swap == 42);
    std::memcpy(&value, on.far_bytes.content().data(), sizeof value);
    CHECK(value == 50);
  });
}

TEST_CASE("a datagram port sends and receives device memory") {
  ground g;
  g.play([](ground& on) -> task<> {
    DatagramEndpoint from = on.worker.datagram().value();
    DatagramEndpoint to = on.worker.datagram().value();
    const datagram_peer there = to.self().value();
    for (const std::size_t size : {std::size_t{1}, std::size_t{64}, std::size_t{1000}}) {
      CAPTURE(size);
      fill(on.near_bytes.content().first(size), size);
      datagram_recv_operation receiving = to.recv_from(on.far_device.all().first(size)).start();
      co_await from.send_to(there, on.near_device.all().first(size));
      const Datagram got = co_await receiving;
      CHECK(got.bytes == size);
      CHECK(filled(on.far_bytes.content().first(size), size));
    }
  });
}

TEST_CASE("a tagged message from device memory is read by its receiver, of any kind [14 sizes]") {
  frames f;
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      fill(on.near_bytes.content().first(size), size);
      const Slice from = on.near_device.all().first(size);
      const Slice into_device = on.far_device.all().first(size);
      const Slice into_host = on.far_host.all().first(size);
      tag_recv_operation waits = m.far.tag_recv(1, into_device).start();
      co_await on.near.tag_send(1, from);
      const TagReceived got = co_await waits;
      CHECK(got.bytes == size);
      CHECK(filled(on.far_bytes.content().first(size), size));

      // The message arrives before its receive.
      std::ranges::fill(on.far_bytes.content(), std::byte{0});
      message_send_operation early = on.near.tag_send(2, from).start();
      co_await arrived(&m.far, 2);
      CHECK_FALSE(early.done());
      co_await m.far.tag_recv(2, into_device);
      co_await early;
      CHECK(filled(on.far_bytes.content().first(size), size));

      std::ranges::fill(on.far_host.bytes(), std::byte{0});
      tag_recv_operation by_host = m.far.tag_recv(3, into_host).start();
      co_await on.near.tag_send(3, from);
      co_await by_host;
      CHECK(filled(on.far_host.bytes().first(size), size));
    }
    // Host and device memory in one message, and a receive that is too short.
    fill(on.near_host.bytes().first(8), 1);
    fill(on.near_bytes.content().first(8), 2);
    const std::array<Slice, 2> gathered{on.near_host.all().first(8), on.near_device.all().first(8)};
    tag_recv_operation too_short = m.far.tag_recv(4, on.far_device.all().first(12)).start();
    const result<void> sent = co_await on.near.tag_send(4, gathered).result();
    const result<TagReceived> cut = co_await too_short.result();
    CHECK(sent.code() == errc::truncated);
    CHECK(cut.code() == errc::truncated);
    CHECK(filled(on.far_bytes.content().first(8), 1));
    CHECK(filled(on.far_bytes.content().subspan(8, 4), 2));
  });
}

TEST_CASE("a message that lies in host memory is not received into device memory, and waits") {
  frames f;
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    constexpr const char* why = "no RDMA device can bring it";
    for (const std::size_t size : {std::size_t{1}, std::size_t{8}, std::size_t{497}}) {
      CAPTURE(size);
      fill(on.near_host.bytes().first(size), size);
      const Slice from = on.near_host.all().first(size);
      const Slice into_device = on.far_device.all().first(size);
      const Slice into_host = on.far_host.all().first(size);
      // Three receives wait: the first two fail, the third gets the message.
      tag_recv_operation first = m.far.tag_recv(1, into_device).start();
      tag_recv_operation second = on.far.tag_recv(1, into_device).start();
      tag_recv_operation third = m.far.tag_recv(1, into_host).start();
      co_await on.near.tag_send(1, from);
      const TagReceived got = co_await third;
      const result<TagReceived> refused_first = co_await first.result();
      const result<TagReceived> refused_second = co_await second.result();
      CHECK(got.bytes == size);
      CHECK(filled(on.far_host.bytes().first(size), size));
      CHECK(refused(refused_first, why));
      CHECK(refused(refused_second, why));

      // No receive waits behind the failing one: the message is kept.
      std::ranges::fill(on.far_host.bytes(), std::byte{0});
      tag_recv_operation alone = m.far.tag_recv(2, into_device).start();
      co_await on.near.tag_send(2, from);
      const result<TagReceived> refused_alone = co_await alone.result();
      CHECK(refused(refused_alone, why));
      REQUIRE(m.far.tag_probe(2));
      const result<TagReceived> refused_late = co_await m.far.tag_recv(2, into_device).result();
      CHECK(refused(refused_late, why));
      co_await m.far.tag_recv(2, into_host);
      CHECK(filled(on.far_host.bytes().first(size), size));

      // A claimed message can still be read.
      co_await on.near.tag_send(3, from);
      co_await arrived(&m.far, 3);
      std::optional<TaggedMessage> claimed = m.far.tag_claim(3);
      REQUIRE(claimed);
      const result<TagReceived> refused_read = co_await claimed->read(into_device).result();
      CHECK(refused(refused_read, why));
      const TagReceived read = co_await claimed->read(into_host);
      CHECK(read.bytes == size);
    }
    // An empty message needs no copy.
    co_await on.near.tag_send(4, Slice());
    const TagReceived nothing = co_await m.far.tag_recv(4, on.far_device);
    CHECK(nothing.bytes == 0);
  });
}

TEST_CASE("a long message from host memory comes into device memory, if a device can bring it") {
  frames f;
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    constexpr std::size_t size = 100'000;
    const MemoryRegion unread = on.context.allocate(size).value();
    const MemoryRegion unwritten =
        on.context.register_memory(on.far_bytes.seen(), access::local_write, on_device).value();
    fill(on.near_host.bytes().first(size), 1);
    fill(unread.bytes(), 2);
    // Read by the receiver.
    tag_recv_operation reads = m.far.tag_recv(1, unwritten.all().first(size)).start();
    co_await on.near.tag_send(1, on.near_host.all().first(size));
    co_await reads;
    CHECK(filled(on.far_bytes.content().first(size), 1));
    // Written by the sender.
    tag_recv_operation written = m.far.tag_recv(2, on.far_device.all().first(size)).start();
    co_await on.near.tag_send(2, unread);
    co_await written;
    CHECK(filled(on.far_bytes.content().first(size), 2));
    // Possible only in pieces, by the CPU.
    message_send_operation sending = on.near.tag_send(3, unread).start();
    co_await arrived(&m.far, 3);
    const result<TagReceived> refused_late =
        co_await m.far.tag_recv(3, unwritten.all().first(size)).result();
    CHECK(refused(refused_late, "no RDMA device can bring it"));
    co_await m.far.tag_recv(3, on.far_host);
    co_await sending;
    CHECK(filled(on.far_host.bytes().first(size), 2));
  });
}

TEST_CASE("device memory that the peer may not read is not sent from as a message") {
  frames f(access::local_write);
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    constexpr std::span<const std::byte> no_header;
    for (const std::size_t size : {std::size_t{8}, std::size_t{20'000}}) {
      CAPTURE(size);
      const Slice from = on.near_device.all().first(size);
      const result<void> tagged = co_await on.near.tag_send(1, from).result();
      const result<void> active = co_await on.near.am_send(1, no_header, from).result();
      CHECK(refused(tagged, "access::remote_read"));
      CHECK(refused(active, "access::remote_read"));
    }
    CHECK(on.near.state() == endpoint_state::connected);
  });
}

namespace {

struct handled {
  Slice into;
  std::vector<std::size_t> along;  // bytes that arrived with each message
  int count = 0;
};

task<> take_into(handled* h, ActiveMessage message) {
  h->along.push_back(message.data().size());
  co_await message.read(h->into.first(message.size()));
  ++h->count;
}

}  // namespace

TEST_CASE(
    "an active message from device memory is read by its handler, into any memory [14 sizes]") {
  frames f;
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    constexpr std::span<const std::byte> no_header;
    const std::array<std::byte, 5> header{std::byte{1}, std::byte{2}};
    handled by_device{.into = on.far_device, .along = {}};
    handled by_host{.into = on.far_host, .along = {}};
    m.far.on(1, [&by_device](ActiveMessage a) { return take_into(&by_device, std::move(a)); });
    m.far.on(2, [&by_host](ActiveMessage a) { return take_into(&by_host, std::move(a)); });
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      fill(on.near_bytes.content().first(size), size);
      const Slice from = on.near_device.all().first(size);
      co_await on.near.am_send(1, header, from);
      CHECK(filled(on.far_bytes.content().first(size), size));
      co_await on.near.am_send(2, no_header, from);
      CHECK(filled(on.far_host.bytes().first(size), size));
    }
    CHECK(std::ranges::count(by_device.along, 0U) == std::ssize(sizes));
    // A short message from host memory arrived eagerly, and only the CPU could copy it.
    fill(on.near_host.bytes().first(8), 9);
    co_await on.near.am_send(1, no_header, on.near_host.all().first(8));
    co_await on.near.am_send(2, no_header, on.near_host.all().first(8));
    while (by_host.count != static_cast<int>(sizes.size()) + 1) co_await yield();
    CHECK(by_device.count == static_cast<int>(sizes.size()));
    CHECK(m.far.handler_failures() == 1);
    CHECK(filled(on.far_host.bytes().first(8), 9));
  });
}

TEST_CASE("messages that wait for credits leave device memory to the device") {
  frames f;
  f.play([](frames& m) -> task<> {
    ground& on = m.on;
    constexpr std::size_t size = 8;
    fill(on.near_bytes.content().first(size), 1);
    std::vector<message_send_operation> waiting;
    constexpr std::uint64_t count = 200;
    waiting.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      waiting.push_back(on.near.tag_send(i, on.near_device.all().first(size)));
      waiting.back().start();
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      std::ranges::fill(on.far_bytes.content().first(size), std::byte{0});
      co_await m.far.tag_recv(i, on.far_device.all().first(size));
      CHECK(filled(on.far_bytes.content().first(size), 1));
    }
    for (message_send_operation& one : waiting) co_await one;
  });
}

namespace {

task<> open_stream(Context context, Endpoint* e, Stream* place) {
  Endpoint connected = std::move(*e);
  *place = co_await Stream::open(std::move(context), std::move(connected));
}

}  // namespace

TEST_CASE("a Stream writes from device memory, and to mapped device memory, without a touch") {
  ground g;
  g.play([](ground& on) -> task<> {
    Stream near;
    Stream far;
    co_await when_all(open_stream(on.context, &on.near, &near),
                      open_stream(on.context, &on.far, &far));
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      fill(on.near_bytes.content().first(size), size);
      stream_write_operation writing = near.write(on.near_device.all().first(size)).start();
      co_await far.read(on.far_host.bytes().first(size));
      const std::size_t written = co_await writing;
      CHECK(written == size);
      CHECK(filled(on.far_host.bytes().first(size), size));
    }
    const std::uint32_t number = far.map(on.far_device).value();
    const std::array<std::byte, 1> one{};
    std::array<std::byte, 1> told{};
    co_await far.write(one);
    co_await near.read(told);
    co_await near.write_at(number, 16, on.near_device.all().first(64));
    co_await near.write(one);
    co_await far.read(told);
    CHECK(std::ranges::equal(on.far_bytes.content().subspan(16, 64),
                             on.near_bytes.content().first(64)));
  });
}

TEST_CASE("what the CPU would do with device memory is not supported, and says what is") {
  ground g;
  g.play([](ground& on) -> task<> {
    const Slice device = on.near_device.all().first(64);
    const Slice host = on.near_host.all().first(64);
    const Slice other = on.far_device.all().first(64);
    const result<void> to_device = co_await on.worker.copy(device, host).result();
    const result<void> from_device = co_await on.worker.copy(host, device).result();
    const result<void> within = co_await on.worker.copy(other, device).result();
    for (const result<void>& copied : {to_device, from_device, within}) {
      CHECK(refused(copied, "cannot touch device memory"));
    }
    CHECK(refused(on.near.publish_receives(on.near_device), "publish it in host memory"));
    SyncEvent counter(on.context, {.publisher = sync_location::cpu,
                                   .subscriber = sync_location::remote,
                                   .backing = device.first(8)});
    CHECK(refused(counter.start(on.worker), "back it with host memory"));
    CHECK(refused(counter.start_blocking(), "back it with host memory"));
  });
}

namespace {

struct service : frames {
  Requests asks{near};
  Requests answers{far};
  result<void> from_device;  // result of a response from there
};

task<> answer(service* s, Request r) {
  respond_operation first = r.respond(s->on.far_device.all().first(8));
  s->from_device = co_await first.result();
  co_await r.respond(s->on.far_host.all().first(8));
}

task<> ask(service* s) {
  ground& on = s->on;
  co_await ground::meet(&on, &s->near, &s->far);
  const Slice device = on.near_device.all().first(8);
  const Slice host = on.near_host.all().first(8);
  const result<Response> from_device = co_await s->asks.call(on.near, 1, device, host).result();
  const result<Response> into_device = co_await s->asks.call(on.near, 1, host, device).result();
  const result<void> word = co_await s->asks.notify(on.near, 1, device).result();
  CHECK(refused(from_device, "lie in host memory"));
  CHECK(refused(into_device, "lie in host memory"));
  CHECK(refused(word, "lie in host memory"));
  const Response fine = co_await s->asks.call(on.near, 1, host, host);
  CHECK(fine.bytes == 8);
  CHECK(refused(s->from_device, "lie in host memory"));
  on.near.abort();
  on.far.abort();
}

}  // namespace

TEST_CASE("requests, their rooms and their responses lie in host memory") {
  service s;
  s.answers.serve(1, [&s](Request r) { return answer(&s, std::move(r)); });
  s.on.worker.run(ask(&s));
}
