// Tagged messages (K6): matching, eager and rendezvous messages, waiting, and endings.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using sizes = std::initializer_list<std::size_t>;

// Both sides have Messages, and a connection carries them. The limit between eager and rendezvous
// messages is the same on every transport.
constexpr message_options usual{.eager_bytes = 8192};

struct post_office : two_messages {
  explicit post_office(stage& on, message_options of_server = usual,
                       message_options of_client = usual)
      : two_messages(on, of_client, of_server) {}
  std::deque<wire> wires;  // addresses are stable
};

task<wire*> join(stage& on, post_office& p, connect_options to = {}, connect_options from = {}) {
  wire w = co_await connect_messages(on, p.client, p.server, to, from);
  p.wires.push_back(std::move(w));
  co_return &p.wires.back();
}

constexpr std::size_t room_bytes = std::size_t{1} << 20;

// The transfer of a rendezvous message depends on the peer's rights on the memory of either side.
struct way {
  const char* name;
  cordma::access from;
  cordma::access into;
};
constexpr way ways[] = {
    {"it is read", access::local_write | access::remote_read, access::local_write},
    {"it is written", access::local_write, access::local_write | access::remote_write},
    {"it is sent by parts", access::local_write, access::local_write},
};

}  // namespace

TEST_CASE("K6: messages of every size reach the receive of their tag, posted before or after") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, room_bytes);
        const MemoryRegion into = server_memory(s, room_bytes);
        for (const std::size_t bytes :
             sizes{0, 1, 8, 48, 496, 497, 4000, 8176, 8177, 65'536, room_bytes}) {
          for (const bool early : {true, false}) {
            CAPTURE(bytes);
            CAPTURE(early);
            const std::uint64_t tag = bytes * 2 + (early ? 1 : 0);
            fill(from.bytes().first(bytes), tag);
            std::ranges::fill(into.bytes(), std::byte{0});
            std::optional<tag_recv_operation> posted;
            if (early) posted.emplace(w.server.tag_recv(tag, into.all().first(bytes)).start());
            message_send_operation sent = w.client.tag_send(tag, from.all().first(bytes)).start();
            if (!early) {
              while (!office->server.tag_probe(tag)) co_await moment(s);
              CHECK(office->server.tag_probe(tag)->bytes == bytes);
              posted.emplace(office->server.tag_recv(tag, into.all().first(bytes)).start());
            }
            tag_recv_operation& receiving = *posted;
            const TagReceived got = co_await receiving;
            co_await sent;
            CHECK(got.bytes == bytes);
            CHECK(got.tag == tag);
            CHECK(got.from == &w.server);
            CHECK(filled(into.bytes().first(bytes), tag));
            CHECK(all_zero(into.bytes().subspan(bytes)));
          }
        }
      },
      &p);
}

TEST_CASE(
    "K8: up to the transport's own threshold a message is sent at once, and from there on read") {
  constexpr std::size_t frame = 16;  // bytes in front of an eager message
  stage on;
  post_office p(on, {}, {});
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const std::size_t longest = s.caps().eager_bytes - frame;
        const std::size_t inlined =
            std::max<std::size_t>(w.client.inline_limit(), frame + 1) - frame;
        const MemoryRegion from =
            s.client_context()
                .allocate(longest + 2, access::local_write | access::remote_read)
                .value();
        const MemoryRegion into = server_memory(s, longest + 2);
        for (const std::size_t bytes : sizes{inlined - 1, inlined, inlined + 1, longest - 1,
                                             longest, longest + 1, longest + 2}) {
          CAPTURE(bytes);
          fill(from.bytes().first(bytes), bytes);
          std::ranges::fill(into.bytes(), std::byte{0});
          const std::uint64_t before = w.client.counters().bytes_sent;
          tag_recv_operation receiving = w.server.tag_recv(1, into.all()).start();
          co_await w.client.tag_send(1, from.all().first(bytes));
          const TagReceived got = co_await receiving;
          CHECK(got.bytes == bytes);
          CHECK(filled(into.bytes().first(bytes), bytes));
          CHECK(all_zero(into.bytes().subspan(bytes)));
          const bool came_at_once = w.client.counters().bytes_sent - before >= bytes;
          CHECK(came_at_once == (bytes <= longest));
        }
      },
      &p);
}

TEST_CASE("an empty message is sent by an operation that was moved") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        const MemoryRegion into = server_memory(s, 8);
        alignas(message_send_operation) std::byte place[sizeof(message_send_operation)];
        std::memset(place, 0xA5, sizeof place);
        message_send_operation made = joined->client.tag_send(7, Slice());
        auto* const moved =
            ::new (static_cast<void*>(place)) message_send_operation(std::move(made));
        moved->start();
        const TagReceived got = co_await office->server.tag_recv(7, into.all());
        CHECK(got.bytes == 0);
        const result<void> sent = co_await moved->result();
        CHECK(sent.ok());
        moved->~message_send_operation();
      },
      &p);
}

TEST_CASE("K6: the first receive posted that accepts it; the first message that it accepts") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const first = co_await join(s, *office);
        wire& a = *first;
        wire* const second = co_await join(s, *office);
        wire& b = *second;
        const MemoryRegion from = client_memory(s, 64);
        const MemoryRegion into = server_memory(s, 64);
        const auto number = [&](std::uint64_t n) {
          std::memcpy(from.data() + 8 * n, &n, 8);
          return from.all().part(8 * n, 8);
        };
        const auto value = [&](std::uint64_t place) { return into.as<std::uint64_t>()[place]; };
        // 0x1? from any peer before 0x12 from b before 0x12.
        tag_recv_operation masked =
            office->server.tag_recv(0x10, into.all().part(0, 8), ~std::uint64_t{0xF}).start();
        tag_recv_operation from_b = b.server.tag_recv(0x12, into.all().part(8, 8)).start();
        tag_recv_operation any = office->server.tag_recv(0x12, into.all().part(16, 8)).start();
        co_await a.client.tag_send(0x12, number(1));
        const auto got_first = co_await masked;
        CHECK(got_first.from == &a.server);
        co_await a.client.tag_send(0x12, number(2));
        const auto got_second = co_await any;
        CHECK(got_second.from == &a.server);
        co_await b.client.tag_send(0x12, number(3));
        const auto got_third = co_await from_b;
        CHECK(got_third.from == &b.server);
        CHECK(value(0) == 1);
        CHECK(value(2) == 2);
        CHECK(value(1) == 3);
        // Unexpected messages of one tag are received in order, with others between them.
        co_await a.client.tag_send(9, number(4));
        co_await a.client.tag_send(7, number(5));
        co_await a.client.tag_send(9, number(6));
        while (!office->server.tag_probe(7)) co_await moment(s);
        while (office->server.tag_probe(9)->bytes != 8) co_await moment(s);
        co_await office->server.tag_recv(9, into.all().part(24, 8));
        co_await office->server.tag_recv(9, into.all().part(32, 8));
        co_await office->server.tag_recv(0, into.all().part(40, 8), 0);
        CHECK(value(3) == 4);
        CHECK(value(4) == 6);
        CHECK(value(5) == 5);
        CHECK_FALSE(office->server.tag_probe(0, 0));
      },
      &p);
}

TEST_CASE("K6: long messages come over whatever the peer may do with their memory") {
  for (const way& how : ways) {
    CAPTURE(how.name);
    stage on;
    post_office p(on);
    on.play(
        [](stage& s, post_office* office, const way* as) -> task<> {
          wire* const joined = co_await join(s, *office);
          wire& w = *joined;
          const MemoryRegion from = client_memory(s, room_bytes, as->from);
          const MemoryRegion into = server_memory(s, room_bytes, as->into);
          for (const std::size_t bytes : sizes{8177, 16'352, 16'353, 200'000, room_bytes}) {
            CAPTURE(bytes);
            fill(from.bytes().first(bytes), bytes);
            std::ranges::fill(into.bytes(), std::byte{0});
            // Three slices and an empty one; the second begins in the middle of a frame.
            const std::vector<Slice> gathered{
                from.all().first(5), from.all().part(5, bytes / 2), from.all().first(0),
                from.all().part(5 + bytes / 2, bytes - 5 - bytes / 2)};
            const std::uint64_t before = w.client.counters().bytes_sent;
            message_send_operation sent = w.client.tag_send(1, gathered).start();
            const TagReceived got = co_await w.server.tag_recv(1, into.all());
            co_await sent;
            CHECK(got.bytes == bytes);
            CHECK(filled(into.bytes().first(bytes), bytes));
            CHECK(all_zero(into.bytes().subspan(bytes)));
            const bool in_frames = w.client.counters().bytes_sent - before >= bytes;
            const bool shared = w.client.transport() == transport::kind::shm;
            CHECK(in_frames == (as == &ways[2] || (shared && as == &ways[1])));
          }
        },
        &p, &how);
  }
}

TEST_CASE("K6: many long messages at a time, in both directions, none in the way of another") {
  for (const way& how : ways) {
    CAPTURE(how.name);
    stage on;
    post_office p(on, {.eager_bytes = 1024, .credits = 8}, {.eager_bytes = 2048, .credits = 4});
    on.play(
        [](stage& s, post_office* office, const way* as) -> task<> {
          constexpr std::size_t each = 50'000;
          constexpr std::size_t many = 20;
          wire* const joined = co_await join(s, *office);
          wire& w = *joined;
          const MemoryRegion there = client_memory(s, many * each, as->from);
          const MemoryRegion here = server_memory(s, many * each, as->from);
          const MemoryRegion to_there = client_memory(s, many * each, as->into);
          const MemoryRegion to_here = server_memory(s, many * each, as->into);
          std::deque<message_send_operation> sends;
          std::deque<tag_recv_operation> receives;
          for (std::size_t n = 0; n < many; ++n) {
            fill(there.bytes().subspan(n * each, each), n);
            fill(here.bytes().subspan(n * each, each), n + many);
            sends.push_back(w.client.tag_send(n, there.all().part(n * each, each)).start());
            sends.push_back(w.server.tag_send(n, here.all().part(n * each, each)).start());
          }
          for (std::size_t n = many; n-- > 0;) {
            receives.push_back(w.server.tag_recv(n, to_here.all().part(n * each, each)).start());
            receives.push_back(w.client.tag_recv(n, to_there.all().part(n * each, each)).start());
          }
          for (tag_recv_operation& op : receives) co_await op;
          for (message_send_operation& op : sends) co_await op;
          for (std::size_t n = 0; n < many; ++n) {
            CHECK(filled(to_here.bytes().subspan(n * each, each), n));
            CHECK(filled(to_there.bytes().subspan(n * each, each), n + many));
          }
        },
        &p, &how);
  }
}

TEST_CASE("a long message whose sender, receive or connection goes meanwhile") {
  for (const way& how : ways) {
    CAPTURE(how.name);
    stage on;
    post_office p(on);
    on.play(
        [](stage& s, post_office* office, const way* as) -> task<> {
          wire* const joined = co_await join(s, *office);
          wire& w = *joined;
          std::optional<MemoryRegion> from(client_memory(s, room_bytes, as->from));
          const MemoryRegion into = server_memory(s, room_bytes, as->into);
          fill(from->bytes(), 3);
          // The send is abandoned: its message arrives all the same, from memory that is kept until
          // then.
          {
            message_send_operation left = w.client.tag_send(1, from->all()).start();
            while (!office->server.tag_probe(1)) co_await moment(s);
          }
          from.reset();
          const auto whole = co_await w.server.tag_recv(1, into.all());
          CHECK(whole.bytes == room_bytes);
          CHECK(filled(into.bytes(), 3));
          // The receive was destroyed: its message is consumed, and the next one goes to the next
          // receive.
          const MemoryRegion again = client_memory(s, room_bytes, as->from);
          fill(again.bytes(), 4);
          message_send_operation taken = w.client.tag_send(2, again.all()).start();
          while (!office->server.tag_probe(2)) co_await moment(s);
          { tag_recv_operation gone = w.server.tag_recv(2, into.all()).start(); }
          co_await taken;
          co_await w.client.tag_send(2, again.all().first(8));
          const auto short_one = co_await w.server.tag_recv(2, into.all().first(8));
          CHECK(short_one.bytes == 8);
          // The connection breaks during the transfer: the operation of each side ends once.
          message_send_operation cut = w.client.tag_send(3, again.all()).start();
          while (!office->server.tag_probe(3)) co_await moment(s);
          tag_recv_operation cut_too = w.server.tag_recv(3, into.all()).start();
          co_await moment(s);
          w.server.abort();
          const result<TagReceived> received = co_await cut_too.result();
          CHECK((received.ok() || received.code() == errc::flushed));
          const result<void> sent = co_await cut.result();
          CHECK((sent.ok() || sent.code() == errc::flushed));
        },
        &p, &how);
  }
}

TEST_CASE("K6: a receive that is too short fails, and the connection stays") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 200'000);
        const MemoryRegion into = server_memory(s, 200'000);
        const MemoryRegion hidden = client_memory(s, 200'000, access::local_write);
        bool hide = false;
        for (const std::size_t bytes : sizes{100, 6000, 200'000, 199'999, 200'000}) {
          CAPTURE(bytes);
          hide = bytes == 199'999 || hide;
          fill(from.bytes().first(bytes), bytes);
          fill(hidden.bytes().first(bytes), bytes);
          const std::size_t fits = hide ? 20'000 : 50;
          std::ranges::fill(into.bytes(), std::byte{0});
          message_send_operation sent =
              w.client.tag_send(1, (hide ? hidden : from).all().first(bytes)).start();
          const result<TagReceived> got =
              co_await w.server.tag_recv(1, into.all().first(fits)).result();
          CHECK(got.code() == errc::truncated);
          CHECK(got.why().message().find(std::to_string(bytes)) != std::string::npos);
          CHECK(filled(into.bytes().first(fits), bytes));
          CHECK(all_zero(into.bytes().subspan(fits)));
          const result<void> end = co_await sent.result();
          CHECK(end.code() == (bytes > 8176 ? errc::truncated : errc::ok));
        }
        co_await w.client.tag_send(2, from.all().first(8));
        const auto got_first = co_await w.server.tag_recv(2, into.all());
        CHECK(got_first.bytes == 8);
      },
      &p);
}

TEST_CASE(
    "K6: a message that is claimed is nobody else's, and is read where there is room for it") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 50'000);
        for (const std::size_t bytes : sizes{0, 100, 50'000}) {
          CAPTURE(bytes);
          fill(from.bytes().first(bytes), bytes);
          CHECK_FALSE(office->server.tag_claim(3));
          message_send_operation sent = w.client.tag_send(3, from.all().first(bytes)).start();
          while (!office->server.tag_probe(3)) co_await moment(s);
          std::optional<TaggedMessage> claimed = office->server.tag_claim(3);
          REQUIRE(claimed);
          CHECK_FALSE(office->server.tag_probe(3));
          CHECK(claimed->tag() == 3);
          CHECK(claimed->size() == bytes);
          CHECK(claimed->from() == &w.server);
          const MemoryRegion into = server_memory(s, claimed->size() + 1);
          const TagReceived got = co_await claimed->read(into.all());
          CHECK(got.bytes == bytes);
          CHECK(filled(into.bytes().first(bytes), bytes));
          co_await sent;
          claimed.reset();
        }
        // A rendezvous message that is dropped unread is rejected.
        message_send_operation unwanted = w.client.tag_send(4, from.all()).start();
        while (!office->server.tag_claim(4)) co_await moment(s);
        const result<void> end = co_await unwanted.result();
        CHECK(end.code() == errc::rejected);
        // Its connection ends before it is read.
        message_send_operation cut = w.client.tag_send(5, from.all()).start();
        std::optional<TaggedMessage> kept;
        while (!kept) {
          std::optional<TaggedMessage> found = office->server.tag_claim(5);
          if (found) kept.emplace(std::move(*found));
          co_await moment(s);
        }
        office->wires.clear();
        const MemoryRegion into = server_memory(s, 50'000);
        const result<TagReceived> gone = co_await kept->read(into.all()).result();
        CHECK(gone.code() == errc::flushed);
        const result<void> flushed = co_await cut.result();
        CHECK(flushed.code() == errc::flushed);
      },
      &p);
}

TEST_CASE("K6: an endpoint probes and claims what came from it alone") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const first = co_await join(s, *office);
        wire* const second = co_await join(s, *office);
        const MemoryRegion from = client_memory(s, 50'000);
        const MemoryRegion into = server_memory(s, 50'000);
        message_send_operation long_one = second->client.tag_send(7, from.all()).start();
        while (!second->server.tag_probe(7)) co_await moment(s);
        CHECK(second->server.tag_probe(7)->bytes == 50'000);
        CHECK(second->server.tag_probe(7)->from == &second->server);
        CHECK_FALSE(first->server.tag_probe(7));
        CHECK_FALSE(first->server.tag_claim(7));
        CHECK_FALSE(second->server.tag_probe(6));
        CHECK(second->server.tag_probe(6, 6));
        co_await first->client.tag_send(7, from.all().first(8));
        while (!first->server.tag_probe(7)) co_await moment(s);
        CHECK(office->server.tag_probe(7)->bytes == 50'000);
        std::optional<TaggedMessage> claimed = first->server.tag_claim(7);
        REQUIRE(claimed);
        CHECK(claimed->size() == 8);
        CHECK_FALSE(first->server.tag_probe(7));
        std::optional<TaggedMessage> other = second->server.tag_claim(7, 3);
        REQUIRE(other);
        const TagReceived got = co_await other->read(into.all());
        CHECK(got.bytes == 50'000);
        co_await long_one;
        CHECK_FALSE(office->server.tag_probe(0, 0));
        claimed.reset();
        other.reset();
        // An endpoint for plain messages has no tagged ones.
        wire plain = co_await connect(s);
        CHECK_FALSE(plain.server.tag_probe(0, 0));
        CHECK_FALSE(plain.server.tag_claim(0, 0));
      },
      &p);
}

TEST_CASE("a flood that nobody receives waits at its sender, and nothing of it is lost") {
  stage on;
  post_office p(on, {.eager_bytes = 1024, .credits = 8});
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        constexpr std::uint64_t flood = 400;
        const MemoryRegion from = client_memory(s, flood * 8);
        const MemoryRegion into = server_memory(s, 8);
        std::deque<message_send_operation> sends;
        for (std::uint64_t n = 0; n < flood; ++n) {
          from.as<std::uint64_t>()[n] = n;
          sends.push_back(w.client.tag_send(n, from.all().part(8 * n, 8)).start());
        }
        for (int i = 0; i < 2000; ++i) co_await moment(s);
        const auto done = std::ranges::count_if(sends, [](const auto& op) { return op.done(); });
        CHECK(done >= 8);
        CHECK(done <= 8);
        // Another connection is not affected.
        wire* const another = co_await join(s, *office);
        wire& other = *another;
        co_await other.client.tag_send(flood, from.all().first(8));
        co_await office->server.tag_recv(flood, into.all());
        for (std::uint64_t n = 0; n < flood; ++n) {
          const auto got_first = co_await office->server.tag_recv(0, into.all(), 0);
          CHECK(got_first.tag == n);
          CHECK(into.as<std::uint64_t>()[0] == n);
        }
        for (message_send_operation& op : sends) co_await op;
      },
      &p);
}

TEST_CASE("a receive that is canceled gets nothing, one that is destroyed neither") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 200'000);
        const MemoryRegion into = server_memory(s, 400'000);
        std::ranges::fill(into.bytes(), std::byte{0});
        tag_recv_operation canceled = office->server.tag_recv(1, into.all().first(200'000)).start();
        { tag_recv_operation destroyed = w.server.tag_recv(1, into.all().first(200'000)).start(); }
        canceled.cancel();
        CHECK(canceled.take_result().code() == errc::canceled);
        for (const std::size_t bytes : sizes{8, 200'000}) {
          fill(from.bytes().first(bytes), bytes);
          message_send_operation sent = w.client.tag_send(1, from.all().first(bytes)).start();
          while (!office->server.tag_probe(1)) co_await moment(s);
          CHECK(all_zero(into.bytes()));
          co_await w.server.tag_recv(1, into.all().part(200'000, bytes));
          co_await sent;
          CHECK(filled(into.bytes().subspan(200'000, bytes), bytes));
          std::ranges::fill(into.bytes(), std::byte{0});
        }
        // Destroyed during the read: the read completes, and the next message goes to the next
        // receive.
        message_send_operation sent = w.client.tag_send(1, from.all()).start();
        while (!office->server.tag_probe(1)) co_await moment(s);
        { tag_recv_operation destroyed = w.server.tag_recv(1, into.all().first(200'000)).start(); }
        const auto got_first = co_await sent.result();
        CHECK(got_first.ok());
        co_await w.client.tag_send(2, from.all().first(8));
        const auto got_second = co_await w.server.tag_recv(2, into.all().first(8));
        CHECK(got_second.bytes == 8);
      },
      &p);
}

TEST_CASE("what waits when a connection ends learns of it; what is here can be received") {
  stage on;
  post_office p(on, {.credits = 1});
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        wire* const another = co_await join(s, *office);
        wire& other = *another;
        const MemoryRegion from = client_memory(s, 200'000);
        const MemoryRegion into = server_memory(s, 200'000);
        fill(from.bytes().first(8), 5);
        co_await w.client.tag_send(5, from.all().first(8));
        message_send_operation queued = w.client.tag_send(6, from.all().first(8)).start();
        while (!office->server.tag_probe(5)) co_await moment(s);
        tag_recv_operation of_it = w.server.tag_recv(7, into.all()).start();
        tag_recv_operation of_all = office->server.tag_recv(7, into.all().first(8)).start();
        w.client.abort();
        const auto got_first = co_await queued.result();
        CHECK(got_first.code() == errc::flushed);
        const auto got_second = co_await of_it.result();
        CHECK(got_second.code() == errc::flushed);
        const auto got_third = co_await w.client.tag_send(6, from.all().first(8)).result();
        CHECK(got_third.code() == errc::not_connected);
        const auto got_fourth = co_await office->server.tag_recv(5, into.all());
        CHECK(got_fourth.bytes == 8);
        CHECK(filled(into.bytes().first(8), 5));
        co_await other.client.tag_send(7, from.all().first(8));
        const auto got_fifth = co_await of_all;
        CHECK(got_fifth.from == &other.server);
        // Announced by an offer, and never matched.
        message_send_operation offered = other.client.tag_send(8, from.all()).start();
        while (!office->server.tag_probe(8)) co_await moment(s);
        other.server.abort();
        const auto got_sixth = co_await offered.result();
        CHECK(got_sixth.code() == errc::flushed);
        CHECK_FALSE(office->server.tag_probe(8));
      },
      &p);
}

TEST_CASE("closing waits until what was started is carried out") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 200'000);
        const MemoryRegion into = server_memory(s, 200'000);
        fill(from.bytes(), 9);
        message_send_operation sent = w.client.tag_send(9, from.all()).start();
        state_operation closed = w.client.close().start();
        for (int i = 0; i < 1000; ++i) co_await moment(s);
        CHECK_FALSE(closed.done());
        co_await w.server.tag_recv(9, into.all());
        co_await sent;
        co_await closed;
        CHECK(filled(into.bytes(), 9));
      },
      &p);
}

TEST_CASE("what such an endpoint cannot do is refused, and says why") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire* const joined = co_await join(s, *office);
        wire& w = *joined;
        wire plain = co_await connect(s);
        const MemoryRegion from = client_memory(s, 64);
        const MemoryRegion elsewhere = server_memory(s, 64);
        const auto got_first = co_await w.client.send(from.all().first(8)).result();
        CHECK(got_first.code() == errc::bad_state);
        const auto got_second = co_await w.client.recv(from.all().first(8)).result();
        CHECK(got_second.code() == errc::bad_state);
        const auto got_third = co_await plain.client.tag_send(1, from.all().first(8)).result();
        CHECK(got_third.code() == errc::not_supported);
        const auto got_fourth = co_await plain.client.tag_recv(1, from.all().first(8)).result();
        CHECK(got_fourth.code() == errc::not_supported);
        const auto got_fifth = co_await w.client.tag_send(1, elsewhere.all()).result();
        CHECK(got_fifth.code() == errc::invalid_value);
        const auto got_sixth = co_await w.client.tag_recv(1, elsewhere.all()).result();
        CHECK(got_sixth.code() == errc::invalid_value);
        CHECK_THROWS_AS(Messages(s.client(), {.eager_bytes = 100}), error);
        CHECK_THROWS_AS(Messages(s.client(), {.credits = 0}), error);
        CHECK_THROWS_AS(Messages(s.client(), {.hello_timeout = duration::zero()}), error);
        // One-sided operations work beside the messages.
        co_await w.client.write(exported(elsewhere).all(), from.all().first(64));
        co_await w.client.flush();
      },
      &p);
}

TEST_CASE("Messages go while long messages come and go") {
  for (const way& how : ways) {
    CAPTURE(how.name);
    stage on;
    auto p = std::make_unique<post_office>(on);
    on.play(
        [](stage& s, std::unique_ptr<post_office>* office, const way* as) -> task<> {
          wire* const joined = co_await join(s, **office);
          wire mine = std::move(*joined);
          const MemoryRegion from = client_memory(s, 4 * room_bytes, as->from);
          const MemoryRegion into = server_memory(s, 4 * room_bytes, as->into);
          std::deque<message_send_operation> sends;
          std::deque<tag_recv_operation> receives;
          for (std::size_t n = 0; n < 4; ++n) {
            const std::size_t at = n * room_bytes;
            sends.push_back(mine.client.tag_send(n, from.all().part(at, room_bytes)).start());
            receives.push_back(mine.server.tag_recv(n, into.all().part(at, room_bytes)).start());
          }
          while (mine.server.counters().sends == 0) co_await moment(s);
          for (int i = 0; i < 5; ++i) co_await moment(s);
          office->reset();
          for (tag_recv_operation& op : receives) {
            const result<TagReceived> end = co_await op.result();
            const bool known =
                end.ok() || end.code() == errc::flushed || end.code() == errc::shutdown;
            CHECK(known);
          }
          for (message_send_operation& op : sends) {
            const result<void> end = co_await op.result();
            CHECK((end.ok() || end.code() == errc::flushed));
          }
        },
        &p, &how);
  }
}

TEST_CASE("Messages that go take their connections and those who wait along") {
  stage on;
  auto p = std::make_unique<post_office>(on);
  on.play(
      [](stage& s, std::unique_ptr<post_office>* office) -> task<> {
        wire* const joined = co_await join(s, **office);
        wire& w = *joined;
        const MemoryRegion into = client_memory(s, 64);
        wire mine = std::move(w);
        auto gone = std::make_unique<Messages>(s.client());
        tag_recv_operation waits = gone->tag_recv(1, into.all()).start();
        gone.reset();
        const auto got_first = co_await waits.result();
        CHECK(got_first.code() == errc::shutdown);
        office->reset();
        CHECK(mine.client.state() == endpoint_state::closed);
        const auto got_second = co_await mine.client.tag_send(1, into.all()).result();
        CHECK(got_second.code() == errc::flushed);
        const auto got_third = co_await mine.client.tag_recv(1, into.all()).result();
        CHECK(got_third.code() == errc::shutdown);
      },
      &p);
}
