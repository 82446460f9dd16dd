#include <array>
#include <stdexcept>
#include <vector>

#include "pair.hpp"
#include "path.hpp"

namespace instructions {
namespace {

using namespace cordma;

constexpr int in_flight = 32;
constexpr std::uint64_t to_far = 1;
constexpr std::uint64_t to_near = 2;
constexpr std::uint16_t am_id = 1;

// A task of one side: `operations` operations, or its part in them. For the near side these are one
// round; for the far side, all of them.
using part = task<> (*)(side*, int operations);

struct shape {
  const char* name;
  const char* about;
  part near;
  part far;
  carries over = carries::plain;
  int operations = 0;  // per round; 0: as in the plan
  void (*prepare)(pair&) = nullptr;
  wait_mode waiting = wait_mode::polling;
};

task<> nothing(side* /*s*/, int /*operations*/) { co_return; }

// ---- messages ----

// A receive is always posted before its message is sent, as plain messages require.
task<> ask(side* s, int operations) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  for (int i = 0; i < operations; ++i) {
    recv_operation answer = s->endpoint.recv(in);
    answer.start();
    co_await s->endpoint.send(out);
    co_await answer;
  }
}

task<> answer_each(side* s, int operations) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  recv_operation asked = s->endpoint.recv(in);
  asked.start();
  for (int i = 0; i < operations; ++i) {
    co_await asked;
    asked.again(in);
    if (i + 1 < operations) asked.start();
    co_await s->endpoint.send(out);
  }
}

// Sends all of them at once. The peer answers when it has received them, so that they belong to
// this round on both sides.
task<> send_together(side* s, int operations) {
  const Slice out = s->out(8);
  recv_operation all_there = s->endpoint.recv(s->in(8));
  all_there.start();
  std::vector<send_operation> under_way;
  under_way.reserve(static_cast<std::size_t>(operations));
  for (int i = 0; i < operations; ++i) {
    under_way.push_back(s->endpoint.send(out));
    under_way.back().start();
  }
  for (send_operation& one : under_way) co_await one;
  co_await all_there;
}

task<> receive_together(side* s, int operations) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  std::vector<recv_operation> under_way;
  under_way.reserve(in_flight);
  for (int i = 0; i < in_flight; ++i) {
    under_way.push_back(s->endpoint.recv(in));
    under_way.back().start();
  }
  for (int i = 0; i < operations; i += in_flight) {
    for (recv_operation& one : under_way) {
      co_await one;
      one.again(in);
      if (i + in_flight < operations) one.start();
    }
    co_await s->endpoint.send(out);
  }
}

task<> ask_by_tag(side* s, int operations) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  for (int i = 0; i < operations; ++i) {
    co_await s->endpoint.tag_send(to_far, out);
    co_await s->messages->tag_recv(to_near, in);
  }
}

task<> answer_by_tag(side* s, int operations) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  for (int i = 0; i < operations; ++i) {
    co_await s->messages->tag_recv(to_far, in);
    co_await s->endpoint.tag_send(to_near, out);
  }
}

constexpr std::span<const std::byte> no_header;

message_send_operation am_send(side* s) { return s->endpoint.am_send(am_id, no_header, s->out(8)); }

task<> answer_asked(side* s) { co_await am_send(s); }

task<> ask_again(side* s) {
  if (--s->to_come == 0) {
    s->all_came.set();
    co_return;
  }
  co_await am_send(s);
}

task<> ask_by_handler(side* s, int operations) {
  s->to_come = operations;
  s->all_came.reset();
  co_await am_send(s);
  co_await s->all_came.wait();
}

void set_handlers(pair& p) {
  p.near.messages->on(am_id, [s = &p.near](const ActiveMessage&) { return ask_again(s); });
  p.far.messages->on(am_id, [s = &p.far](const ActiveMessage&) { return answer_asked(s); });
}

// A plain handler cannot wait: its message must find space.
void am_send_now(side* s, const Slice& out) {
  message_send_operation op = s->endpoint.am_send(am_id, no_header, out);
  op.start();
  if (!op.done()) throw std::runtime_error("a message found no room");
}

void set_plain_handlers(pair& p) {
  p.near.messages->on(am_id, [s = &p.near, out = p.near.out(8)](const ShortMessage&) {
    if (--s->to_come == 0) {
      s->all_came.set();
    } else {
      am_send_now(s, out);
    }
  });
  p.far.messages->on(
      am_id, [s = &p.far, out = p.far.out(8)](const ShortMessage&) { am_send_now(s, out); });
}

constexpr std::size_t piece = 4096;

task<> ask_by_stream(side* s, int operations) {
  const Slice out = s->out(piece);
  const Slice in = s->in(piece);
  for (int i = 0; i < operations; ++i) {
    co_await s->stream.write(out.bytes());
    co_await s->stream.read(in.bytes());
  }
}

task<> answer_by_stream(side* s, int operations) {
  const Slice out = s->out(piece);
  const Slice in = s->in(piece);
  for (int i = 0; i < operations; ++i) {
    co_await s->stream.read(in.bytes());
    co_await s->stream.write(out.bytes());
  }
}

// ---- one-sided ----

task<> write_and_flush(side* s, int operations) {
  const Slice out = s->out(64);
  const RemoteSlice to = s->peer.slice(0, 64).value();
  for (int i = 0; i < operations; ++i) {
    co_await s->endpoint.write(to, out);
    co_await s->endpoint.flush();
  }
}

task<> read(side* s, int operations) {
  const Slice in = s->in(64);
  const RemoteSlice from = s->peer.slice(0, 64).value();
  for (int i = 0; i < operations; ++i) co_await s->endpoint.read(from, in);
}

task<> fetch_add(side* s, int operations) {
  const RemoteSlice word = s->peer.slice(0, 8).value();
  for (int i = 0; i < operations; ++i) co_await s->endpoint.fetch_add(word, 1);
}

task<> compare_swap(side* s, int operations) {
  const RemoteSlice word = s->peer.slice(8, 8).value();
  for (int i = 0; i < operations; ++i) co_await s->endpoint.compare_swap(word, 0, 0);
}

constexpr std::array shapes = {
    shape{"round_trip_8", "send and receive of 8 bytes, there and back", ask, answer_each},
    shape{"one_way_8", "send and receive of 8 bytes, 32 in flight", send_together, receive_together,
          carries::plain, in_flight},
    shape{"tag_round_trip_8", "tagged message of 8 bytes, there and back", ask_by_tag,
          answer_by_tag, carries::messages},
    shape{"sleep_and_wake", "as round_trip_8, each side asleep until it is woken for the message",
          ask, answer_each, carries::plain, 0, nullptr, wait_mode::event},
    shape{"am_round_trip_8", "active message of 8 bytes, answered by the handler", ask_by_handler,
          nothing, carries::messages, 0, set_handlers},
    shape{"am_plain_round_trip_8", "the same, by plain handlers", ask_by_handler, nothing,
          carries::messages, 0, set_plain_handlers},
    shape{"stream_4096", "4096 bytes by a stream, there and back", ask_by_stream, answer_by_stream,
          carries::stream},
    shape{"write_flush_64", "remote write of 64 bytes, and a flush", write_and_flush, nothing},
    shape{"read_64", "remote read of 64 bytes", read, nothing},
    shape{"fetch_add", "remote fetch-and-add", fetch_add, nothing},
    shape{"compare_swap", "remote compare-and-swap", compare_swap, nothing},
};

// The far side starts and ends nothing while the near side counts: it runs one more round.
task<> in_rounds(part operations_of_round, side* s, int rounds, int operations) {
  for (int i = 0; i < warm_rounds; ++i) co_await operations_of_round(s, operations);
  for (int i = 0; i < rounds; ++i) {
    stepping::begin();
    co_await operations_of_round(s, operations);
    stepping::end();
  }
  co_await operations_of_round(s, operations);
}

counted count(transport::kind over, const shape& s, const plan& p) {
  const int operations = s.operations != 0 ? s.operations : p.operations;
  const auto play = [over, &s, &p, operations] {
    pair two(over, s.over, s.waiting);
    if (s.prepare != nullptr) s.prepare(two);
    two.play(in_rounds(s.near, &two.near, p.rounds, operations),
             s.far(&two.far, (warm_rounds + p.rounds + 1) * operations));
  };
  return per_operation(stepping::count(play), operations);
}

counted count_idle_turns(transport::kind over, const plan& p) {
  const auto rounds = [over, &p] {
    pair two(over, carries::plain);
    const auto turn = [&two, &p] {
      for (int k = 0; k < p.operations; ++k) (void)two.near.worker.loop().turn();
    };
    for (int i = 0; i < warm_rounds; ++i) turn();
    for (int i = 0; i < p.rounds; ++i) {
      stepping::begin();
      turn();
      stepping::end();
    }
  };
  return per_operation(stepping::count(rounds), p.operations);
}

}  // namespace

std::vector<path> transport_paths(transport::kind over) {
  const std::string prefix = std::string(transport::name(over)) + ".";
  std::vector<path> all;
  for (const shape& s : shapes) {
    all.push_back({.name = prefix + s.name, .about = s.about, .count = [over, &s](const plan& p) {
                     return count(over, s, p);
                   }});
  }
  all.push_back({.name = prefix + "idle_turn",
                 .about = "a pass of a Worker with one silent connection",
                 .count = [over](const plan& p) { return count_idle_turns(over, p); }});
  return all;
}

}  // namespace instructions
