// Two hosts and a wire that loses, delays, reorders, or stays silent for a while: every operation
// over RC is carried out correctly, in order and once.
#include "read_watch.hpp"
#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <cordma/net/messages.hpp>
#include <cordma/runtime/when_all.hpp>

#include <atomic>
#include <deque>
#include <string_view>
#include <utility>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t port = 18716;
constexpr std::size_t big = std::size_t{1} << 20;  // far above the eager limit of every transport
constexpr std::uint64_t of_client = 1000;          // seeds
constexpr std::uint64_t of_server = 2000;
constexpr std::uint64_t of_writes = 500;

// One lost acknowledgement takes about an eighth of this time, in which emulated and busy machines
// have to carry a megabyte each way. A silent wire must come back before all of it has passed.
endpoint_options patient() {
  endpoint_options o;
  o.peer_timeout = std::chrono::seconds(20);
  return o;
}

endpoint_options through_an_outage() {
  endpoint_options o;
  o.peer_timeout = outage_timeout;
  return o;
}

struct load {
  int messages = 0;
  int remote = 0;                     // rounds of writing and reading, then of adding and swapping
  std::size_t longest = big;          // of the rounds, in bytes
  std::size_t longest_message = big;  // bytes
};
constexpr load much{.messages = 40, .remote = 8};
// Over a wire that loses packets, requests have up to 16 packets: a longer one may use up
// Soft-RoCE's retry count, see the transport's README, "Repetitions". At 1 % the wire loses about
// 20 of their packets.
constexpr load over_loss{.messages = 400,
                         .remote = 64,
                         .longest = std::size_t{1} << 16,
                         .longest_message = std::size_t{1} << 16};
// A dozen requests of a megabyte, with so few lost packets that six retries suffice.
constexpr load long_over_loss{.messages = 240, .remote = 40};

// Small messages of every length, and occasionally a long one.
std::size_t length_of(int i, load own) {
  return i % 40 == 39 ? own.longest_message : 1 + static_cast<std::size_t>(i) * 997 % 9000;
}

struct stand {
  explicit stand(side* on, std::uint64_t own)
      : here(on), seed(own), offered(on->memory(window_at + big)) {}
  static constexpr std::size_t window_at = 64;  // the counter is in front
  side* here;
  std::uint64_t seed;
  int done = 0;     // messages sent, and received
  int rounds = 0;   // of writing and reading
  int counted = 0;  // rounds of adding and swapping
  MemoryRegion offered;
  RemoteMemory theirs;
};

task<> send_all(stand* s, Endpoint* e, load own) {
  constexpr int at_once = 4;
  MemoryRegion memory = s->here->memory(at_once * big);
  for (int i = 0; i < own.messages; i += at_once) {
    std::vector<send_operation> sends;
    for (int k = 0; k < at_once && i + k < own.messages; ++k) {
      const Slice out = memory.all().part(static_cast<std::size_t>(k) * big, length_of(i + k, own));
      fill(out.bytes(), s->seed + static_cast<std::uint64_t>(i + k));
      sends.push_back(e->send(out).start());
    }
    for (send_operation& op : sends) co_await op;
    s->done += at_once;
  }
}

task<> receive_all(stand* s, Endpoint* e, load their, std::uint64_t seed) {
  constexpr int at_once = 8;
  MemoryRegion memory = s->here->memory(at_once * big);
  std::deque<recv_operation> posted;
  int next = 0;
  for (int i = 0; i < their.messages; ++i) {
    for (; next < their.messages && next < i + at_once; ++next) {
      const auto place = static_cast<std::size_t>(next % at_once);
      posted.push_back(e->recv(memory.all().part(place * big, big)).start());
    }
    recv_operation& op = posted.front();
    const Received got = co_await op;
    CAPTURE(i);
    CHECK(got.bytes == length_of(i, their));
    const auto place = static_cast<std::size_t>(i % at_once);
    CHECK(filled(memory.bytes().subspan(place * big, got.bytes),
                 seed + static_cast<std::uint64_t>(i)));
    posted.pop_front();
    ++s->done;
  }
}

std::size_t remote_length(int i, load own) {
  return i % 8 == 7 ? own.longest : 1 + static_cast<std::size_t>(i) * 1231 % 9000;
}

// Describes the difference for a human reader.
std::string what_is_there(std::span<const std::byte> got, std::span<const std::byte> expected) {
  const auto [bad, unused] = std::ranges::mismatch(got, expected);
  const auto first = static_cast<std::size_t>(bad - got.begin());
  std::size_t last = got.size() - 1;
  while (got[last] == expected[last]) --last;
  return std::to_string(got.size()) + " bytes, wrong from " + std::to_string(first) + " to " +
         std::to_string(last);
}

// Writes, flushes, and reads back.
task<> use_remote(stand* s, Endpoint* e, load own) {
  MemoryRegion memory = s->here->memory(2 * big);
  for (int i = 0; i < own.remote; ++i) {
    const std::size_t bytes = remote_length(i, own);
    const Slice out = memory.all().first(bytes);
    const Slice in = memory.all().part(big, bytes);
    const RemoteSlice window = s->theirs.slice(stand::window_at, bytes).value();
    fill(out.bytes(), s->seed + of_writes + static_cast<std::uint64_t>(i));
    co_await e->write(window, out);
    co_await e->flush();
    co_await e->read(window, in);
    CAPTURE(i);
    const bool right = filled(in.bytes(), s->seed + of_writes + static_cast<std::uint64_t>(i));
    if (!right) MESSAGE("read back ", what_is_there(in.bytes(), out.bytes()));
    CHECK(right);
    ++s->rounds;
  }
}

task<> count(stand* s, Endpoint* e, load own) {
  const RemoteSlice counter = s->theirs.slice(0, 8).value();
  for (int i = 0; i < own.remote; ++i) {
    CAPTURE(i);
    const auto before = static_cast<std::uint64_t>(2 * i);
    const std::uint64_t added = co_await e->fetch_add(counter, 1);
    CHECK(added == before);
    const std::uint64_t swapped = co_await e->compare_swap(counter, before + 1, before + 2);
    CHECK(swapped == before + 1);
    ++s->counted;
  }
}

// Runs the atomics separately: behind a message of this side Soft-RoCE may lose an atomic's old
// value, as the last case shows.
task<> do_all(stand* s, Endpoint* e, load own) {
  co_await when_all(send_all(s, e, own), use_remote(s, e, own));
  co_await count(s, e, own);
}

// Checks the data that the peer left in this side's memory.
void check_offered(const stand& s, std::uint64_t seed, load their) {
  const int rounds = their.remote;
  CHECK(s.offered.as<std::uint64_t>()[0] == static_cast<std::uint64_t>(2 * rounds));
  if (rounds == 0) return;
  // Each write overwrites the previous ones; the longest is visible behind the last write.
  const std::size_t last = remote_length(rounds - 1, their);
  CHECK(filled(s.offered.bytes().subspan(stand::window_at, last),
               seed + of_writes + static_cast<std::uint64_t>(rounds - 1)));
}

// The client reports completion, then the server does, in this order: until then the server need
// not have sent anything.
task<> conclude(stand* s, Endpoint* e) {
  MemoryRegion word = s->here->memory(16);
  const Slice out = word.all().first(8);
  const Slice in = word.all().part(8, 8);
  if (!on_server()) {
    co_await swap(e, out, in);
    co_return;
  }
  co_await e->recv(in);
  co_await e->send(out);
}

struct scene {
  load own;
  load their;
  endpoint_options endpoint = patient();
};

// `happen` runs concurrently with the traffic.
template <class Happen>
task<> converse(side* here, scene what, std::string rule, Happen happen) {
  Endpoint e = co_await meet(here, port, what.endpoint);
  const bool server = on_server();
  const std::uint64_t their_seed = server ? of_client : of_server;
  stand s(here, server ? of_server : of_client);
  s.theirs = co_await swap_blobs(here, &e, s.offered);
  {
    const netem wire(rule);
    const std::uint64_t astray = device_counter("out_of_seq_request");
    co_await when_all(do_all(&s, &e, what.own), receive_all(&s, &e, what.their, their_seed),
                      happen(&s, &e));
    co_await conclude(&s, &e);
    MESSAGE(rule, ": lost ", wire.dropped(), ", out of sequence ",
            device_counter("out_of_seq_request") - astray);
    CHECK((wire.dropped() > 0 || !rule.starts_with("loss")));
  }
  check_offered(s, their_seed, what.their);
  CHECK(e.first_cause() == nullptr);
  CHECK(e.inflight() == 0);
  if (server) {
    co_await await_end(&e);
  } else {
    co_await e.close();
  }
  CHECK(e.first_cause()->code() == errc::not_connected);
}

task<> nothing(stand*, Endpoint*) { co_return; }

task<> a_quarter(stand* s) {
  while (s->done < much.messages / 4) co_await sleep_for(std::chrono::milliseconds(5));
}

// Each reordered packet of a response causes a timeout. In a long message each one uses one of the
// few retries that Soft-RoCE has between two acknowledgements; after too many it gives up.
constexpr load shorter{.messages = 80, .remote = 40, .longest = 9000};

// Repeats the last round's writes until one of their packets has been reordered. With writes only,
// on a wire that loses nothing, the peer counts no sequence error for another reason.
task<> until_overtaken(stand* s, Endpoint* e) {
  constexpr int most = 100;  // times; each sends 144 packets
  constexpr std::size_t at_once = 16;
  while (s->counted < shorter.remote) co_await sleep_for(std::chrono::milliseconds(5));
  const std::size_t bytes = remote_length(shorter.remote - 1, shorter);
  const RemoteSlice window = s->theirs.slice(stand::window_at, bytes).value();
  MemoryRegion memory = s->here->memory(bytes);
  fill(memory.bytes(), s->seed + of_writes + static_cast<std::uint64_t>(shorter.remote - 1));
  const std::uint64_t before = device_counter("rcvd_seq_err");
  int times = 0;
  for (; times < most && device_counter("rcvd_seq_err") == before; ++times) {
    std::vector<send_operation> writes;
    for (std::size_t i = 0; i < at_once; ++i) writes.push_back(e->write(window, memory).start());
    for (send_operation& op : writes) co_await op;
  }
  MESSAGE("overtaken after writing ", times, " times");
  CHECK(times < most);
}

task<> hush() {
  const std::string become = "tc qdisc replace dev wire0 root netem limit 100000 ";
  shell(become + "loss 100%");
  co_await sleep_for(std::chrono::seconds(1));
  shell(become + "delay 1ms");
}

// Twice: once while messages are in flight and memory is read and written, and once during the
// atomics.
task<> fall_silent(stand* s, Endpoint*) {
  co_await a_quarter(s);
  co_await hush();
  while (s->counted < much.remote / 2) co_await sleep_for(std::chrono::milliseconds(5));
  co_await hush();
}

task<> unplug(stand* s, Endpoint*) {
  if (!on_server()) co_return;
  co_await a_quarter(s);
  co_await go_down_and_up();
}

constexpr std::size_t through_bytes = 100'000;

// Only writes, until the peer reports that its link is back; then sends the number of the last
// round.
task<> write_till_back(side* here, Endpoint* e, RemoteMemory theirs, Slice word) {
  recv_operation back = e->recv(word).start();
  MemoryRegion memory = here->memory(through_bytes);
  std::uint64_t round = 0;
  for (; !back.done(); ++round) {
    fill(memory.bytes(), of_writes + round);
    std::vector<send_operation> writes;
    for (std::size_t at = 0; at < through_bytes; at += through_bytes / 4) {
      const RemoteSlice to = theirs.slice(at, through_bytes / 4).value();
      writes.push_back(e->write(to, memory.all().part(at, through_bytes / 4)).start());
    }
    for (send_operation& op : writes) co_await op;
  }
  co_await back;
  *reinterpret_cast<std::uint64_t*>(word.bytes().data()) = round - 1;
  co_await e->send(word);
}

// There is hardly any time between two rounds: the link goes down while a write is in flight.
task<> unplug_under_writes(Endpoint* e, MemoryRegion offered, Slice word) {
  const std::atomic_ref<std::uint64_t> first(offered.as<std::uint64_t>()[0]);
  while (first.load() == 0) co_await sleep_for(std::chrono::milliseconds(5));
  co_await go_down_and_up();
  co_await e->send(word);
  co_await e->recv(word);
  const std::uint64_t round = *reinterpret_cast<std::uint64_t*>(word.bytes().data());
  CHECK(filled(offered.bytes(), of_writes + round));
}

task<> write_through(side* here) {
  Endpoint e = co_await meet(here, port, through_an_outage());
  MemoryRegion offered = here->memory(through_bytes);
  MemoryRegion word = here->memory(8);
  const RemoteMemory theirs = co_await swap_blobs(here, &e, offered);
  if (on_server()) {
    co_await unplug_under_writes(&e, offered, word.all());
    co_await await_end(&e);
  } else {
    co_await write_till_back(here, &e, theirs, word.all());
    co_await e.close();
  }
  CHECK(e.first_cause()->code() == errc::not_connected);
}

// ---- messages of the protocol: eager ones copied, rendezvous ones read or written by RMA ----

constexpr int letters = 60;

// The access rights of a rendezvous message's buffers determine its transfer.
struct manner {
  std::string_view name;
  cordma::access sent;
  cordma::access received;
};
constexpr manner manners[] = {
    {"read", every_right, every_right},
    {"written", cordma::access::local_write, every_right},
    {"piece by piece", cordma::access::local_write, cordma::access::local_write}};

std::size_t letter_length(int i) {
  constexpr std::size_t longest = 300'000;
  return i % 3 == 2 ? static_cast<std::size_t>(i) * 7919 % longest + 1
                    : 1 + static_cast<std::size_t>(i) * 997 % 9000;
}

task<> post_letters(side* here, Endpoint* e, manner how, std::uint64_t seed) {
  MemoryRegion out = here->context.allocate(big, how.sent).value();
  for (int i = 0; i < letters; ++i) {
    const Slice letter = out.all().first(letter_length(i));
    fill(letter.bytes(), seed + static_cast<std::uint64_t>(i));
    co_await e->tag_send(static_cast<std::uint64_t>(i), letter);
  }
}

// Posts the next message's receive before this message is done: some are matched on arrival, others
// wait.
task<> get_letters(side* here, Endpoint* e, manner how, std::uint64_t seed) {
  MemoryRegion in = here->context.allocate(2 * big, how.received).value();
  const auto receive = [&](int i) {
    const Slice into = in.all().part(static_cast<std::size_t>(i % 2) * big, big);
    return e->tag_recv(static_cast<std::uint64_t>(i), into);
  };
  std::deque<tag_recv_operation> posted;
  posted.push_back(receive(0).start());
  for (int i = 0; i < letters; ++i) {
    if (i + 1 < letters) posted.push_back(receive(i + 1).start());
    tag_recv_operation& op = posted.front();
    const TagReceived got = co_await op;
    CAPTURE(i);
    CHECK(got.bytes == letter_length(i));
    const std::size_t at = static_cast<std::size_t>(i % 2) * big;
    CHECK(filled(in.bytes().subspan(at, got.bytes), seed + static_cast<std::uint64_t>(i)));
    posted.pop_front();
  }
}

// Returns the number of packets that the wire lost.
task<std::uint64_t> correspond(side* here, Messages* messages, manner how, std::string rule) {
  connect_options o;
  o.endpoint = patient();
  o.messages = messages;
  Endpoint e = co_await meet(here, port, o);
  const std::uint64_t own = on_server() ? of_server : of_client;
  const std::uint64_t their = on_server() ? of_client : of_server;
  std::uint64_t lost = 0;
  {
    const netem wire(rule);
    co_await when_all(post_letters(here, &e, how, own), get_letters(here, &e, how, their));
    lost = wire.dropped();
    MESSAGE(how.name, ", ", rule, ": lost ", lost);
  }
  if (on_server()) {
    co_await await_end(&e);
  } else {
    co_await e.close();
  }
  co_return lost;
}

// ---- Soft-RoCE and lost responses ----

constexpr std::uint64_t in_the_counter = 42;
constexpr std::size_t read_bytes = 512;

// Receives a message and executes an atomic or a read behind it, but its acknowledgements are lost.
// On a busy machine the message alone is acknowledged twice before the atomic arrives, so this
// waits for the atomic's effect on the counter.
task<> answer_in_vain(Endpoint* e, MemoryRegion* words, std::string round, std::uint64_t* counter) {
  recv_operation message = e->recv(words->all().first(8)).start();
  {
    const netem mute("loss 100%");
    meet_at("mute-" + round);
    while (std::atomic_ref(*counter).load() == in_the_counter || mute.dropped() < 2) {
      co_await sleep_for(std::chrono::milliseconds(5));
    }
  }
  co_await message;
  meet_at("heard-" + round);
}

// This side repeats both requests, since neither was acknowledged. The message is a duplicate for
// the peer: its acknowledgement carries the number of the last executed request, which is the
// atomic behind it. A read does not count as executed.
task<> miss_the_answers(Endpoint* e, RemoteMemory theirs, MemoryRegion* words) {
  const Slice word = words->all().first(8);
  meet_at("mute-atomic");
  send_operation message = e->send(word).start();
  atomic_operation adding = e->fetch_add(theirs.slice(0, 8).value(), 1).start();
  co_await message;
  const std::uint64_t before = co_await adding;
  CHECK(before != in_the_counter);
  meet_at("heard-atomic");
  meet_at("mute-read");
  send_operation second = e->send(word).start();
  const Slice in = words->all().part(stand::window_at, read_bytes);
  send_operation reading = e->read(theirs.slice(stand::window_at, read_bytes).value(), in).start();
  co_await second;
  co_await reading;
  CHECK(filled(in.bytes(), of_server));
  meet_at("heard-read");
}

task<> lose_answers(side* here) {
  Endpoint e = co_await meet(here, port, patient());
  MemoryRegion offered = here->memory(stand::window_at + read_bytes);
  MemoryRegion words = here->memory(stand::window_at + read_bytes);
  offered.as<std::uint64_t>()[0] = in_the_counter;
  fill(offered.bytes().subspan(stand::window_at), of_server);
  const RemoteMemory theirs = co_await swap_blobs(here, &e, offered);
  if (on_server()) {
    std::uint64_t* const counter = offered.as<std::uint64_t>().data();
    co_await answer_in_vain(&e, &words, "atomic", counter);
    co_await answer_in_vain(&e, &words, "read", counter);
    CHECK(*counter == in_the_counter + 1);
    co_await await_end(&e);
  } else {
    co_await miss_the_answers(&e, theirs, &words);
    co_await e.close();
  }
}

// The client posts as many reads as it can at once, over a path long enough to have all of them in
// flight.
task<> read_at_once(side* here, std::uint32_t depth) {
  constexpr std::size_t reads = 48;
  constexpr std::size_t each = 64;  // bytes
  endpoint_options o = patient();
  o.read_depth = depth;
  Endpoint e = co_await meet(here, port, o);
  MemoryRegion offered = here->memory(reads * each);
  fill(offered.bytes(), on_server() ? of_server : of_client);
  const RemoteMemory theirs = co_await swap_blobs(here, &e, offered);
  if (on_server()) {
    const netem wire("delay 20ms");
    co_await await_end(&e);
    co_return;
  }
  MemoryRegion in = here->memory(reads * each);
  read_watch wire;
  std::vector<send_operation> under_way;
  for (std::size_t i = 0; i < reads; ++i) {
    const RemoteSlice from = theirs.slice(i * each, each).value();
    under_way.push_back(e.read(from, in.all().part(i * each, each)).start());
  }
  for (send_operation& one : under_way) co_await one;
  CHECK(filled(in.bytes(), of_server));
  const read_watch::counted passed = wire.count();
  CHECK(passed.reads == reads);
  CHECK(passed.at_a_time == depth);
  co_await e.close();
}

}  // namespace

TEST_CASE(
    "K9: every operation over RC, both ways at once, over a bad wire: no wrong byte, none lost") {
  const std::pair<const char*, load> wires[] = {{"loss 1%", over_loss},
                                                {"loss 0.25%", long_over_loss},
                                                {"delay 3ms", much},
                                                {"loss 1% delay 1ms duplicate 1%", over_loss}};
  for (const auto& [rule, each] : wires) {
    CAPTURE(rule);
    side here;
    here.worker.run(converse(&here, {.own = each, .their = each}, rule, nothing));
  }
}

TEST_CASE(
    "K9: every operation over RC, over a wire where packets overtake: no wrong byte, none lost") {
  side here;
  const scene both{.own = shorter, .their = shorter};
  here.worker.run(converse(&here, both, "delay 1ms reorder 0.5%", until_overtaken));
}

TEST_CASE(
    "K9: the wire falls silent for a second, both ways: what is under way waits, and arrives") {
  side here;
  const scene both{.own = much, .their = much};
  here.worker.run(converse(&here, both, "delay 1ms", fall_silent));
}

TEST_CASE(
    "K9: the receiver's link goes down and comes back under messages: what is under way waits, and "
    "arrives") {
  side here;
  // No reads: a read that loses its response in the outage may complete without its bytes, see the
  // transport's README.
  scene one_way{
      .own = load{.messages = much.messages}, .their = load{}, .endpoint = through_an_outage()};
  if (on_server()) std::swap(one_way.own, one_way.their);
  here.worker.run(converse(&here, one_way, "delay 1ms", unplug));
}

TEST_CASE(
    "K9: the receiver's link goes down and comes back under writes: what is under way waits, and "
    "arrives") {
  side here;
  here.worker.run(write_through(&here));
}

TEST_CASE(
    "K9: tagged messages from a byte to 300 KB, both ways at once, over a bad wire: whole, and in "
    "their order") {
  for (const std::string rule : {"loss 0.5%", "delay 2ms duplicate 1%"}) {
    std::uint64_t lost = 0;  // about six each time, occasionally none
    for (const manner& how : manners) {
      CAPTURE(rule);
      CAPTURE(how.name);
      side here;
      Messages messages(here.worker, {.eager_bytes = 4096});
      lost += here.worker.run(correspond(&here, &messages, how, rule));
    }
    CHECK((lost > 0 || !rule.starts_with("loss")));
  }
}

TEST_CASE(
    "M5: with a read depth of 1 the device has one read on the wire at a time, with 16 sixteen") {
  for (const std::uint32_t depth : {1U, 16U}) {
    CAPTURE(depth);
    side here;
    here.worker.run(read_at_once(&here, depth));
  }
}

// Its rxe_comp.c takes a plain acknowledgement with an atomic's number for the completion of the
// atomic, as if it were a send, and copies nothing.
TEST_CASE(
    "K9: on Soft-RoCE an atomic behind a message may end well without its old value, once packets "
    "are lost; a read brings its bytes") {
  side here;
  here.worker.run(lose_answers(&here));
}
