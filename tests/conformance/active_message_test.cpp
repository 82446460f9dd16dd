// Active messages: handlers, headers, eager and pulled data, and errors in handlers.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/runtime/event.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using sizes = std::initializer_list<std::size_t>;

struct switchboard : two_messages {
  explicit switchboard(stage& on, message_options of_server = {.eager_bytes = 8192})
      : two_messages(on, {}, of_server) {}
  std::deque<wire> wires;
  std::vector<std::byte> header;
  std::vector<std::byte> data;
  Endpoint* from = nullptr;
  int calls = 0;
  MemoryRegion room;
};

task<wire*> join(stage& on, switchboard& p) {
  wire w = co_await connect_messages(on, p.client, p.server);
  p.wires.push_back(std::move(w));
  co_return &p.wires.back();
}

constexpr std::span<const std::byte> no_header;

// Records the message, for data in the receive buffer and for data that has to be pulled.
task<> note(switchboard* p, ActiveMessage m) {
  p->header.assign(m.header().begin(), m.header().end());
  p->from = m.from();
  if (m.data().size() == m.size()) {
    p->data.assign(m.data().begin(), m.data().end());
  } else {
    const TagReceived got = co_await m.read(p->room.all());
    p->data.assign(p->room.bytes().begin(), p->room.bytes().begin() + static_cast<long>(got.bytes));
  }
  ++p->calls;
}

task<> hold(event* until, int* count, ActiveMessage held) {
  ++*count;
  co_await until->wait();
  CHECK(held.size() == 8);
}

task<> keep(std::optional<ActiveMessage>* place, ActiveMessage m) {
  place->emplace(std::move(m));
  co_return;
}

}  // namespace

TEST_CASE("header and data of every size reach the handler of their id") {
  stage on;
  switchboard p(on);
  p.room = server_memory(on, 300'000);
  p.server.on(7, [&p](ActiveMessage m) { return note(&p, std::move(m)); });
  on.play(
      [](stage& s, switchboard* board) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 300'000);
        std::array<std::byte, most_am_header> header;
        fill(header, 3);
        for (const std::size_t head : sizes{0, 1, 256}) {
          for (const std::size_t bytes : sizes{0, 8, 250, 5000, 8176, 300'000}) {
            CAPTURE(head);
            CAPTURE(bytes);
            fill(from.bytes().first(bytes), bytes);
            const int before = board->calls;
            co_await w.client.am_send(7, std::span(header).first(head), from.all().first(bytes));
            while (board->calls == before) co_await moment(s);
            CHECK(board->from == &w.server);
            CHECK(board->header.size() == head);
            CHECK(filled(board->header, 3));
            CHECK(board->data.size() == bytes);
            CHECK(filled(board->data, bytes));
          }
        }
        CHECK(board->server.handler_failures() == 0);
        CHECK(board->server.dropped() == 0);
      },
      &p);
}

TEST_CASE("a handler that throws, one that reads nothing, an id that nobody handles") {
  stage on;
  switchboard p(on, {.credits = 2});
  p.server.on(1, [](ActiveMessage) -> task<> {
    throw std::runtime_error("no");
    co_return;
  });
  p.server.on(2, [](ActiveMessage) -> task<> { co_return; });
  on.play(
      [](stage& s, switchboard* board) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 200'000);
        for (std::uint64_t n = 1; n <= 20; ++n) {
          for (const std::uint16_t id : std::initializer_list<std::uint16_t>{1, 2, 3}) {
            const auto got_first =
                co_await w.client.am_send(id, no_header, from.all().first(8)).result();
            CHECK(got_first.ok());
            const auto got_second = co_await w.client.am_send(id, no_header, from.all()).result();
            CHECK(got_second.code() == errc::rejected);
          }
          while (board->server.dropped() < 2 * n) co_await moment(s);
        }
        CHECK(board->server.handler_failures() == 40);
        CHECK(w.client.state() == endpoint_state::connected);
        std::array<std::byte, most_am_header + 1> too_long{};
        const auto got_third = co_await w.client.am_send(2, too_long, from.all().first(8)).result();
        CHECK(got_third.code() == errc::invalid_value);
      },
      &p);
}

TEST_CASE("handlers run side by side, and hold the credits of their messages as long") {
  stage on;
  switchboard p(on, {.credits = 4});
  event gate;
  int running = 0;
  p.server.on(1, [&](ActiveMessage m) { return hold(&gate, &running, std::move(m)); });
  on.play(
      [](stage& s, switchboard* board, event* open, int* count) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 8);
        std::deque<message_send_operation> sends;
        for (int n = 0; n < 10; ++n)
          sends.push_back(w.client.am_send(1, no_header, from.all()).start());
        while (*count < 4) co_await moment(s);
        for (int i = 0; i < 1000; ++i) co_await moment(s);
        CHECK(*count == 4);
        open->set();
        while (*count < 10) co_await moment(s);
        for (message_send_operation& op : sends) co_await op;
      },
      &p, &gate, &running);
}

TEST_CASE("a message that its handler keeps outlives the connection") {
  stage on;
  switchboard p(on);
  std::optional<ActiveMessage> kept;
  p.server.on(1, [&kept](ActiveMessage m) { return keep(&kept, std::move(m)); });
  on.play(
      [](stage& s, switchboard* board, std::optional<ActiveMessage>* held) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 200'000);
        const MemoryRegion into = server_memory(s, 200'000);
        fill(from.bytes().first(100), 4);
        co_await w.client.am_send(1, no_header, from.all().first(100));
        while (!*held) co_await moment(s);
        ActiveMessage short_one = std::move(**held);
        held->reset();
        message_send_operation sent = w.client.am_send(1, no_header, from.all()).start();
        while (!*held) co_await moment(s);
        w.server.abort();
        const auto got_first = co_await sent.result();
        CHECK(got_first.code() == errc::flushed);
        const auto got_second = co_await (*held)->read(into.all()).result();
        CHECK(got_second.code() == errc::flushed);
        CHECK(filled(short_one.data(), 4));
        const auto got_third = co_await short_one.read(into.all());
        CHECK(got_third.bytes == 100);
        const auto got_fourth = co_await short_one.read(into.all()).result();
        CHECK(got_fourth.code() == errc::bad_state);
        held->reset();
        board->wires.clear();
        CHECK(short_one.from() == nullptr);
        CHECK(filled(short_one.data(), 4));
      },
      &p, &kept);
}

TEST_CASE(
    "an id that is the library's own is refused to whoever sends, and the connection goes on") {
  stage on;
  switchboard p(on);
  p.room = server_memory(on, 8);
  p.server.on(7, [&p](ActiveMessage m) { return note(&p, std::move(m)); });
  on.play(
      [](stage& s, switchboard* board) -> task<> {
        wire* const w = co_await join(s, *board);
        const MemoryRegion from = client_memory(s, 8);
        for (const std::uint16_t id : {std::uint16_t{0xFF00}, std::uint16_t{0xFFFF}}) {
          const result<void> refused = co_await w->client.am_send(id, no_header, from).result();
          CHECK(refused.code() == errc::invalid_value);
        }
        co_await w->client.am_send(0xFEFF, no_header, from);
        co_await w->client.am_send(7, no_header, from);
        while (board->calls == 0) co_await moment(s);
        CHECK(board->server.dropped() == 1);
      },
      &p);
}

TEST_CASE("a send queue of one place is no queue for messages; of two and more they come and go") {
  for (const std::uint32_t depth : {1U, 2U, 3U, 4U}) {
    CAPTURE(depth);
    stage on;
    switchboard p(on);
    on.play(
        [](stage& s, switchboard* board, std::uint32_t places) -> task<> {
          connect_options narrow = with(board->client);
          narrow.endpoint.send_depth = places;
          Listener listener = s.server().listen(s.server_address()).value();
          connect_operation connecting = s.client().connect(s.reach(listener), narrow).start();
          if (places == 1) {
            const result<Endpoint> refused = co_await connecting.result();
            CHECK(refused.code() == errc::invalid_value);
            const auto prepared = s.client().prepare(narrow.endpoint, s.over(), &board->client);
            CHECK(prepared.code() == errc::invalid_value);
            co_return;
          }
          ConnectionRequest request = co_await listener.next();
          narrow.messages = &board->server;
          Endpoint server = co_await request.accept(narrow);
          Endpoint client = co_await connecting;
          const MemoryRegion from = client_memory(s, 20'000);
          const MemoryRegion into = server_memory(s, 20'000);
          for (const std::size_t bytes : sizes{0, 8, 20'000}) {
            CAPTURE(bytes);
            message_send_operation there = client.tag_send(1, from.all().first(bytes)).start();
            const TagReceived got = co_await server.tag_recv(1, into);
            CHECK(got.bytes == bytes);
            co_await there;
            message_send_operation back = server.tag_send(2, into.all().first(bytes)).start();
            co_await client.tag_recv(2, from);
            co_await back;
          }
        },
        &p, depth);
  }
}

// ---- plain handlers ----

namespace {

struct plain_one {
  int calls = 0;
  std::vector<std::byte> header;
  std::vector<std::byte> data;
  Endpoint* from = nullptr;
  void note(const ShortMessage& m) {
    ++calls;
    header.assign(m.header.begin(), m.header.end());
    data.assign(m.data.begin(), m.data.end());
    from = m.from;
  }
};

}  // namespace

TEST_CASE(
    "a plain handler gets header and data of every size that comes at once; long ones are "
    "refused") {
  stage on;
  switchboard p(on);
  plain_one one;
  p.server.on(7, [&one](const ShortMessage& m) { one.note(m); });
  on.play(
      [](stage& s, switchboard* board, plain_one* to) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 300'000);
        std::array<std::byte, most_am_header> header;
        fill(header, 3);
        for (const std::size_t head : sizes{0, 1, 256}) {
          for (const std::size_t bytes : sizes{0, 8, 250, 256, 257, 5000, 7920}) {
            CAPTURE(head);
            CAPTURE(bytes);
            fill(from.bytes().first(bytes), bytes);
            const int before = to->calls;
            co_await w.client.am_send(7, std::span(header).first(head), from.all().first(bytes));
            while (to->calls == before) co_await moment(s);
            CHECK(to->from == &w.server);
            CHECK(to->header.size() == head);
            CHECK(filled(to->header, 3));
            CHECK(to->data.size() == bytes);
            CHECK(filled(to->data, bytes));
          }
          const int before = to->calls;
          const auto long_one =
              co_await w.client.am_send(7, std::span(header).first(head), from.all()).result();
          CHECK(long_one.code() == errc::rejected);
          CHECK(to->calls == before);
        }
        CHECK(board->server.handler_failures() == 0);
        CHECK(board->server.dropped() == 0);
      },
      &p, &one);
}

TEST_CASE("a handler of tasks replaces itself twice while it is called") {
  stage on;
  switchboard p(on);
  int first = 0;
  int last = 0;
  p.server.on(3, [&](ActiveMessage m) -> task<void> {
    for (int i = 0; i < 2; ++i) {
      p.server.on(3, [&last](const ShortMessage&) { ++last; });
    }
    ++first;  // the captures of the replaced handler still exist
    return note(&p, std::move(m));
  });
  on.play(
      [](stage& s, switchboard* board, int* of_first, int* of_last) -> task<> {
        wire* const joined = co_await join(s, *board);
        const MemoryRegion from = client_memory(s, 8);
        for (int n = 0; n < 2; ++n) {
          co_await joined->client.am_send(3, no_header, from.all());
        }
        while (*of_last == 0 || board->calls == 0) co_await moment(s);
        CHECK(*of_first == 1);
        CHECK(*of_last == 1);
      },
      &p, &first, &last);
}

TEST_CASE("a plain handler that throws, one that sends, and one that sets itself anew") {
  stage on;
  switchboard p(on, {.eager_bytes = 8192, .credits = 2});
  int answers = 0;
  int first = 0;
  int second = 0;
  p.client.on(9, [&answers](const ShortMessage& m) { answers += static_cast<int>(m.data.size()); });
  p.server.on(1, [](const ShortMessage&) { throw std::runtime_error("no"); });
  MemoryRegion out = server_memory(on, 8);
  // A send that does not complete at once is kept until it is done.
  std::deque<message_send_operation> sent;
  p.server.on(2, [&sent, &out](const ShortMessage& m) {
    while (!sent.empty() && sent.front().done()) sent.pop_front();
    sent.push_back(m.from->am_send(9, no_header, out.all()));
    sent.back().start();
  });
  p.server.on(3, [&](const ShortMessage&) {
    p.server.on(3, [&second](const ShortMessage&) { ++second; });
    ++first;  // the captures of the replaced handler still exist
  });
  on.play(
      [](stage& s, switchboard* board, int* heard, int* of_first, int* of_second) -> task<> {
        wire* const joined = co_await join(s, *board);
        wire& w = *joined;
        const MemoryRegion from = client_memory(s, 8);
        constexpr int each = 50;
        for (int n = 0; n < each; ++n) {
          for (const std::uint16_t id : std::initializer_list<std::uint16_t>{1, 2, 3}) {
            co_await w.client.am_send(id, no_header, from.all());
          }
        }
        while (*heard < each * 8 || *of_second < each - 1) co_await moment(s);
        CHECK(*heard == each * 8);
        CHECK(*of_first == 1);
        CHECK(*of_second == each - 1);
        CHECK(board->server.handler_failures() == each);
      },
      &p, &answers, &first, &second);
}

TEST_CASE(
    "a plain handler destroys the Endpoint of its message, and what came behind it is dropped") {
  stage on;
  switchboard p(on);
  int calls = 0;
  int others = 0;
  p.server.on(1, [&](const ShortMessage& m) {
    ++calls;
    const std::vector<std::byte> before(m.data.begin(), m.data.end());
    const Endpoint gone = std::move(p.wires.front().server);
    CHECK(std::ranges::equal(before, m.data));
  });
  p.server.on(2, [&others](const ShortMessage&) { ++others; });
  on.play(
      [](stage& s, switchboard* board, int* count, int* of_other) -> task<> {
        static_cast<void>(co_await join(s, *board));
        static_cast<void>(co_await join(s, *board));
        wire& ended = board->wires[0];
        wire& lives = board->wires[1];
        const MemoryRegion from = client_memory(s, 8);
        std::vector<message_send_operation> sent;
        for (int n = 0; n < 8; ++n) {
          sent.push_back(ended.client.am_send(1, no_header, from.all()));
          sent.push_back(lives.client.am_send(2, no_header, from.all()));
        }
        for (message_send_operation& one : sent) one.start();
        for (message_send_operation& one : sent) static_cast<void>(co_await one.result());
        while (*of_other < 8) co_await moment(s);
        while (ended.client.state() != endpoint_state::closed) co_await moment(s);
        CHECK(*count == 1);
        CHECK(lives.client.state() == endpoint_state::connected);
        CHECK(board->server.handler_failures() == 0);
      },
      &p, &calls, &others);
}
