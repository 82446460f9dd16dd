// More peers than connections: a borrowed peer is connected to, and an idle one is disconnected.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>

#include <cordma/net/endpoint_pool.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

struct word {
  std::uint64_t peer;
  std::uint64_t turn;
};

// Receives the words of every connection, checks their order, and echoes them if `answers`.
struct peer_side {
  peer_side(stage& s, std::uint64_t n) : on(s), number(n), memory(server_memory(s, sizeof(word))) {}

  task<void> serve_one(std::shared_ptr<Endpoint> e, MemoryRegion in, bool answers) {
    for (;;) {
      const result<Received> got = co_await e->recv(in).result();
      if (!got) break;
      const word w = in.as<word>()[0];
      if (w.peer != number || w.turn != next) ++wrong;
      ++next;
      if (!answers) continue;
      const result<void> sent = co_await e->send(in).result();
      if (!sent) break;
    }
    --connections;
  }

  task<void> serve(scope& tasks, bool answers) {
    for (;;) {
      result<ConnectionRequest> request = co_await listener.next().result();
      if (!request) co_return;
      Endpoint accepted_one = co_await request->accept();
      auto e = std::make_shared<Endpoint>(std::move(accepted_one));
      ++accepted;
      ++connections;
      tasks.spawn(serve_one(std::move(e), server_memory(on, sizeof(word)), answers));
    }
  }

  stage& on;
  std::uint64_t number;
  MemoryRegion memory;
  Listener listener = {};
  std::uint64_t next = 0;
  std::uint64_t wrong = 0;
  std::uint64_t accepted = 0;
  std::uint64_t connections = 0;
};

struct crowd {
  crowd(stage& on, std::size_t count, bool answers) : tasks(on.loop()) {
    for (std::size_t i = 0; i < count; ++i) {
      peer_side& p = peers.emplace_back(on, i);
      p.listener = on.server().listen(on.server_address()).value();
      addresses.push_back(on.reach(p.listener));
      tasks.spawn(p.serve(tasks, answers));
    }
  }
  std::deque<peer_side> peers;
  std::vector<std::string> addresses;
  scope tasks;
};

// Calls peers chosen by chance. Each caller has a separate set of peers, so their words stay in
// order.
task<void> ask_by_chance(stage& on, EndpointPool& pool, crowd& all, std::size_t me, std::size_t of,
                         std::uint64_t rounds, std::vector<std::uint64_t>& said) {
  MemoryRegion out = client_memory(on, sizeof(word));
  MemoryRegion in = client_memory(on, sizeof(word));
  std::mt19937 chance(static_cast<std::uint32_t>(me));
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::size_t n = chance() % (all.peers.size() / of) * of + me;
    EndpointPool::Loan loan = co_await pool.borrow(all.addresses[n]);
    out.as<word>()[0] = {.peer = n, .turn = said[n]++};
    recv_operation answer = loan->recv(in).start();
    co_await loan->send(out);
    co_await answer;
    CHECK(in.as<word>()[0].turn == said[n] - 1);
    CHECK(on.client().counters().endpoints <= 16);
  }
}

// True if no loan is available within 20 ms.
task<bool> gives_up(EndpointPool& from, std::string to) {
  try {
    const EndpointPool::Loan got =
        co_await with_timeout(std::chrono::milliseconds(20), from.borrow(std::move(to)));
  } catch (const error& e) {
    co_return e.why().code() == errc::timed_out;
  }
  co_return false;
}

}  // namespace

TEST_CASE("K11: 200 peers over 16 connections: all is answered, in order, by who was asked") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t askers = 20;
    const std::uint64_t rounds = std::max<std::uint64_t>(rounds_under_test(30), 8);
    crowd all(on, 200, true);
    std::vector<std::uint64_t> said(all.peers.size());
    EndpointPool pool(on.client());
    scope asking(on.loop());
    for (std::size_t i = 0; i < askers; ++i) {
      asking.spawn(ask_by_chance(on, pool, all, i, askers, rounds, said));
    }
    co_await asking.join();
    CHECK(pool.size() <= 16);
    const endpoint_pool_counters n = pool.counters();
    CHECK(n.connects + n.reused >= askers * rounds);
    CHECK(n.failures == 0);
    CHECK(n.aborts == 0);
    CHECK(n.evictions >= n.connects - 16);
    CHECK(n.evictions > 100);
    std::uint64_t accepted = 0;
    std::uint64_t heard = 0;
    for (const peer_side& p : all.peers) {
      CHECK(p.wrong == 0);
      accepted += p.accepted;
      heard += p.next;
    }
    CHECK(accepted == n.connects);
    CHECK(heard == askers * rounds);
    co_await pool.close();
    CHECK(pool.size() == 0);
    CHECK(on.client().counters().endpoints == 0);
  });
}

TEST_CASE("K11: what was started on a connection is carried out before it makes room") {
  stage s;
  s.play([](stage& on) -> task<> {
    crowd all(on, 9, false);
    EndpointPool pool(on.client(), {.most = 2});
    MemoryRegion out = client_memory(on, sizeof(word) * 40 * 9);
    std::vector<send_operation> sends;
    for (std::uint64_t turn = 0; turn < 40; ++turn) {
      for (std::uint64_t n = 0; n < 9; ++n) {
        EndpointPool::Loan loan = co_await pool.borrow(all.addresses[n]);
        const std::size_t at = turn * 9 + n;
        out.as<word>()[at] = {.peer = n, .turn = turn};
        sends.push_back(loan->send(out.all().part(at * sizeof(word), sizeof(word))).start());
      }
    }
    co_await pool.close();
    for (send_operation& op : sends) co_await op;
    for (peer_side& p : all.peers) {
      while (p.connections != 0) co_await moment(on);
      CHECK(p.next == 40);
      CHECK(p.wrong == 0);
    }
    CHECK(pool.counters().evictions == 360);
  });
}

TEST_CASE("K11: the least recently used goes, and the one on loan never") {
  stage s;
  s.play([](stage& on) -> task<> {
    crowd all(on, 4, true);
    EndpointPool pool(on.client(), {.most = 2});
    CHECK_FALSE(pool.try_borrow(all.addresses[0]).has_value());
    {
      EndpointPool::Loan zero = co_await pool.borrow(all.addresses[0]);
      EndpointPool::Loan again = co_await pool.borrow(all.addresses[0]);
      CHECK(&*zero == &*again);
    }
    { EndpointPool::Loan one = co_await pool.borrow(all.addresses[1]); }
    { EndpointPool::Loan zero = co_await pool.borrow(all.addresses[0]); }
    EndpointPool::Loan two = co_await pool.borrow(all.addresses[2]);
    CHECK(pool.try_borrow(all.addresses[0]).has_value());
    CHECK_FALSE(pool.try_borrow(all.addresses[1]).has_value());
    EndpointPool::Loan zero = co_await pool.borrow(all.addresses[0]);
    // Both connections are on loan: another borrower waits until its timeout.
    const bool gave_up = co_await gives_up(pool, all.addresses[3]);
    CHECK(gave_up);
    CHECK(two->state() == endpoint_state::connected);
    { const EndpointPool::Loan done = std::move(zero); }
    { EndpointPool::Loan three = co_await pool.borrow(all.addresses[3]); }
    CHECK(pool.counters().connects == 4);
    while (all.peers[3].accepted == 0) co_await moment(on);
    CHECK(all.peers[3].accepted == 1);
  });
}

TEST_CASE("K11: nobody makes room for who has given up waiting for a place") {
  stage s;
  s.play([](stage& on) -> task<> {
    crowd all(on, 3, true);
    EndpointPool pool(on.client(), {.most = 2});
    EndpointPool::Loan one = co_await pool.borrow(all.addresses[1]);
    {
      EndpointPool::Loan zero = co_await pool.borrow(all.addresses[0]);
      const bool gave_up = co_await gives_up(pool, all.addresses[2]);
      CHECK(gave_up);
    }
    for (int i = 0; i < 100; ++i) co_await moment(on);
    CHECK(pool.counters().evictions == 0);
    CHECK(pool.try_borrow(all.addresses[0]).has_value());
    { EndpointPool::Loan two = co_await pool.borrow(all.addresses[2]); }
    CHECK(pool.counters().evictions == 1);
    CHECK(pool.counters().connects == 3);
  });
}

TEST_CASE("K11: who cannot be connected to costs no place; who has ended is connected to anew") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::string nobody;
    {
      Listener gone = on.server().listen(on.server_address()).value();
      nobody = on.reach(gone);
    }
    Listener listener = on.server().listen(on.server_address()).value();
    const std::string to = on.reach(listener);
    EndpointPool pool(on.client(), {.most = 1});
    for (int i = 0; i < 3; ++i) {
      errc code = errc::ok;
      try {
        const EndpointPool::Loan none = co_await pool.borrow(nobody);
      } catch (const error& e) {
        code = e.why().code();
      }
      CHECK(code == errc::unreachable);
      CHECK(pool.size() == 0);
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      next_operation coming = listener.next().start();
      task<EndpointPool::Loan> asked = pool.borrow(to);
      scope side(on.loop());
      Endpoint peer;
      side.spawn([](next_operation& next, Endpoint& out) -> task<void> {
        ConnectionRequest request = co_await next;
        out = co_await request.accept();
      }(coming, peer));
      EndpointPool::Loan loan = co_await std::move(asked);
      co_await side.join();
      peer.abort();
      while (loan->state() != endpoint_state::closed) co_await loan->state_changed();
      CHECK(pool.counters().connects == i + 1);
      CHECK_FALSE(pool.try_borrow(to).has_value());
    }
    CHECK(pool.size() == 0);
    CHECK(pool.counters().failures == 3);
  });
}

namespace {

task<> accept_with(Listener& from, Messages& m, std::deque<Endpoint>& all) {
  for (;;) {
    result<ConnectionRequest> request = co_await from.next().result();
    if (!request) co_return;
    Endpoint e = co_await request->accept(with(m));
    all.push_back(std::move(e));
  }
}

task<> borrow_and_note(EndpointPool& from, std::string to, errc& place) {
  try {
    const EndpointPool::Loan got = co_await from.borrow(std::move(to));
    place = errc::ok;
  } catch (const error& e) {
    place = e.condition();
  }
}

task<> borrow_in_vain(EndpointPool& from, std::string to) {
  const EndpointPool::Loan got = co_await from.borrow(std::move(to));
}

task<> close_and_note(EndpointPool& pool, bool& closed) {
  co_await pool.close();
  closed = true;
}

// True if `what` does not complete within `time`.
task<bool> takes_longer(duration time, task<> what) {
  try {
    co_await with_timeout(time, std::move(what));
  } catch (const error& e) {
    co_return e.condition() == errc::timed_out;
  }
  co_return false;
}

}  // namespace

TEST_CASE("K11: who holds a loan may wait for close() while others wait for a place") {
  stage s;
  s.play([](stage& on) -> task<> {
    crowd all(on, 2, true);
    EndpointPool pool(on.client(), {.most = 1});
    errc other = errc::unknown;
    scope beside(on.loop());
    {
      EndpointPool::Loan mine = co_await pool.borrow(all.addresses[0]);
      beside.spawn(borrow_and_note(pool, all.addresses[1], other));
      for (int i = 0; i < 20; ++i) co_await moment(on);
      const bool late = co_await takes_longer(std::chrono::milliseconds(100), pool.close());
      CHECK_FALSE(late);
      CHECK(mine->state() == endpoint_state::connected);
      CHECK(other == errc::unknown);
    }
    co_await beside.join();
    CHECK(other == errc::ok);
    co_await pool.close();
    CHECK(pool.size() == 0);
  });
}

TEST_CASE("K11: who gives up waiting for close() costs nobody else anything, nor what is closed") {
  stage s;
  s.play([](stage& on) -> task<> {
    Messages mine(on.client());
    Messages theirs(on.server());
    std::vector<Listener> listeners;
    std::vector<std::string> to;
    std::deque<Endpoint> peers;
    scope accepting(on.loop());
    for (int i = 0; i < 3; ++i) {
      listeners.push_back(on.server().listen(on.server_address()).value());
      to.push_back(on.reach(listeners.back()));
    }
    for (Listener& l : listeners) accepting.spawn(accept_with(l, theirs, peers));
    EndpointPool pool(on.client(), {.most = 2, .connection = with(mine)});
    const MemoryRegion out = client_memory(on, 200'000);
    const MemoryRegion in = server_memory(on, 200'000);
    errc other = errc::unknown;
    scope beside(on.loop());
    {
      EndpointPool::Loan kept = co_await pool.borrow(to[0]);
      EndpointPool::Loan lent = co_await pool.borrow(to[1]);
      message_send_operation slow = lent->tag_send(1, out).start();
      { const EndpointPool::Loan done = std::move(lent); }
      // No receive matches the message yet, so the close has to wait.
      const bool gave_up = co_await takes_longer(std::chrono::milliseconds(10), pool.close());
      CHECK(gave_up);
      beside.spawn(borrow_and_note(pool, to[2], other));
      const bool again = co_await takes_longer(std::chrono::milliseconds(10), pool.close());
      CHECK(again);
      CHECK(other == errc::unknown);
      const TagReceived got = co_await theirs.tag_recv(1, in);
      CHECK(got.bytes == out.size());
      const result<void> sent = co_await slow.result();
      CHECK(sent.ok());
      co_await beside.join();
      CHECK(other == errc::ok);
      co_await kept->tag_send(2, out.all().first(8));
      co_await theirs.tag_recv(2, in);
    }
    EndpointPool::Loan once_more = co_await pool.borrow(to[1]);
    { const EndpointPool::Loan done = std::move(once_more); }
    co_await pool.close();
    CHECK(pool.size() == 0);
    CHECK(pool.counters().aborts == 0);
    listeners.clear();
    co_await accepting.join();
  });
}

TEST_CASE("K11: close() waits for a connection that is made for nobody any more, and closes it") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    const std::string to = on.reach(listener);
    EndpointPool pool(on.client(), {.most = 1});
    const bool gave_up =
        co_await takes_longer(std::chrono::milliseconds(10), borrow_in_vain(pool, to));
    CHECK(gave_up);
    bool closed = false;
    scope beside(on.loop());
    beside.spawn(close_and_note(pool, closed));
    for (int i = 0; i < 20; ++i) co_await moment(on);
    CHECK_FALSE(closed);
    ConnectionRequest request = co_await listener.next();
    Endpoint peer = co_await request.accept();
    co_await beside.join();
    CHECK(closed);
    CHECK(pool.size() == 0);
    CHECK(on.client().counters().endpoints == 0);
  });
}

TEST_CASE("K11: a peer that never receives is aborted, and messages come and go over a pool") {
  stage s;
  s.play([](stage& on) -> task<> {
    Messages mine(on.client());
    Messages theirs(on.server());
    const connect_options how = with(mine);
    EndpointPool pool(on.client(), {.most = 1, .connection = how});
    std::vector<Listener> listeners;
    std::vector<std::string> to;
    scope accepting(on.loop());
    std::deque<Endpoint> peers;
    for (int i = 0; i < 3; ++i) {
      listeners.push_back(on.server().listen(on.server_address()).value());
      to.push_back(on.reach(listeners.back()));
    }
    for (Listener& l : listeners) accepting.spawn(accept_with(l, theirs, peers));
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    for (std::uint64_t i = 0; i < 30; ++i) {
      EndpointPool::Loan loan = co_await pool.borrow(to[i % 3]);
      co_await loan->tag_send(i, out.all().first(i));
    }
    for (std::uint64_t i = 0; i < 30; ++i) {
      const TagReceived got = co_await theirs.tag_recv(i, in);
      CHECK(got.bytes == i);
    }
    CHECK(pool.counters().evictions == 29);
    co_await pool.close();
    CHECK(pool.counters().aborts == 0);
    // A rendezvous message without a matching receive: close() waits for it until its timeout.
    EndpointPool hasty(
        on.client(), {.most = 1, .connection = how, .close_timeout = std::chrono::milliseconds(5)});
    MemoryRegion big =
        on.client_context()
            .allocate(200'000, cordma::access::local_write | cordma::access::remote_read)
            .value();
    {
      EndpointPool::Loan loan = co_await hasty.borrow(to[0]);
      message_send_operation stuck = loan->tag_send(1, big).start();
      { const EndpointPool::Loan done = std::move(loan); }
      { EndpointPool::Loan other = co_await hasty.borrow(to[1]); }
      CHECK(hasty.counters().aborts == 1);
      const result<void> sent = co_await stuck.result();
      CHECK(sent.code() == errc::flushed);
    }
    co_await hasty.close();
    listeners.clear();
    co_await accepting.join();
  });
}
