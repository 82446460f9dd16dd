// A peer that leaves at each moment of a transfer, in order or not: the other side reports it and
// ends.
#include "hostile.hpp"

#include <algorithm>

using namespace copy;
using namespace copy::test;

namespace {

// True if `moment` is the one set by the test; the villain then leaves. An orderly one ends its
// streams first.
bool is_now(villain& v, int moment) {
  if (static_cast<int>(v.told[0]) != moment) return false;
  if (v.told[1] != std::byte{}) v.finish();
  if (v.told[1] == std::byte{}) v.go();
  return true;
}

frames first_half(const frames& f) {
  return {f.begin(), f.begin() + static_cast<std::ptrdiff_t>(f.size() / 2)};
}

constexpr int last_of_sender = 9;
task<void> a_sender_that_goes(villain& v) {
  if (is_now(v, 0)) co_return;
  const slot_memory at = co_await v.hear_memory();
  if (is_now(v, 1)) co_return;
  const frames list = listed({file_entry("a", 4), file_entry("large", 2 * chunk)});
  const frames half = first_half(list);
  if (v.told[0] == std::byte{2}) co_await v.say(half);
  if (is_now(v, 2)) co_return;
  co_await v.say(list);
  if (is_now(v, 3)) co_return;
  co_await v.hear(frame_kind::wants);
  co_await v.hear(frame_kind::wants);
  if (is_now(v, 4)) co_return;
  const std::string zeros(chunk, '\0');
  const std::uint64_t digest = digest_of_text(zeros);
  co_await v.put(at, 0, zeros);
  const frames first = encoded(chunk_frame{1, 0, 0, chunk, 0, digest});
  co_await v.say(first);
  if (is_now(v, 5)) co_return;
  co_await v.hear(frame_kind::credit);
  if (is_now(v, 6)) co_return;
  const frames second = encoded(chunk_frame{1, 0, 1, chunk, 0, digest});
  co_await v.say(second);
  const frames end = encoded(file_end{1, file_end::how::whole, ""});
  co_await v.say(end);
  if (is_now(v, 7)) co_return;
  const frames small = encoded(file_end{0, file_end::how::failed, "no"});
  co_await v.say(small);
  co_await v.hear(frame_kind::finished);
  if (is_now(v, 8)) co_return;
  manifest sent;
  sent.add(1, 0, digest);
  sent.add(1, 1, digest);
  const frames all = number_frame(frame_kind::all_sent, sent.sum());
  co_await v.say(all);
  if (is_now(v, last_of_sender)) co_return;
}

constexpr int last_of_receiver = 7;
task<void> a_receiver_that_goes(villain& v) {
  if (is_now(v, 0)) co_return;
  slot_memory m;
  m.number = v.way().stream().map(v.memory()).value();
  m.slots = 1;
  m.slot_bytes = chunk;
  const frames memory = encoded(m);
  const frames half = first_half(memory);
  if (v.told[0] == std::byte{1}) co_await v.say(half);
  if (is_now(v, 1)) co_return;
  co_await v.say(memory);
  if (is_now(v, 2)) co_return;
  co_await v.hear(frame_kind::entries_end);
  if (is_now(v, 3)) co_return;
  const frames wants = frame_of(frame_kind::wants, [](frame_writer& w) { encode(w, want{1, {}}); });
  co_await v.say(wants);
  if (is_now(v, 4)) co_return;
  co_await v.hear(frame_kind::chunk);
  if (is_now(v, 5)) co_return;
  const frames credit = frame_of(frame_kind::credit, [](frame_writer& w) { w.u32(0); });
  co_await v.say(credit);
  co_await v.hear(frame_kind::file_end);
  if (is_now(v, 6)) co_return;
  const frames end = encoded(tally{});
  co_await v.say(end);
  if (is_now(v, last_of_receiver)) co_return;
}

frames moment_of(int moment, bool in_order) {
  return {static_cast<std::byte>(moment), static_cast<std::byte>(in_order)};
}

}  // namespace

TEST_CASE("a sender that goes at any moment") {
  for (const cordma::transport::kind over : transports) {
    for (const bool in_order : {false, true}) {
      for (int moment = 0; moment <= last_of_sender; ++moment) {
        CAPTURE(moment);
        CAPTURE(in_order);
        const temporary_tree here;
        const ending e =
            attack_receiver(over, here.root(), {a_sender_that_goes, moment_of(moment, in_order)});
        INFO(text_of(e));
        CHECK(e.error.find("timed_out") == std::string::npos);
        const bool whole = moment == last_of_sender;
        CHECK((whole || !e.error.empty()));
        if (whole && in_order) CHECK(e.error.empty());
        const bool is_there = std::filesystem::exists(here.at("large"));
        CHECK((moment == 7 || is_there == (moment > 7)));  // 7: all data is in flight
        CHECK_FALSE(std::filesystem::exists(here.at("a")));
      }
    }
  }
}

TEST_CASE("a receiver that goes at any moment") {
  for (const cordma::transport::kind over : transports) {
    for (const bool in_order : {false, true}) {
      for (int moment = 0; moment <= last_of_receiver; ++moment) {
        CAPTURE(moment);
        CAPTURE(in_order);
        const temporary_tree here;
        here.file("a", std::string(2 * chunk, 'a'));
        const ending e =
            attack_sender(over, here.root(), {a_receiver_that_goes, moment_of(moment, in_order)});
        INFO(text_of(e));
        CHECK(e.error.find("timed_out") == std::string::npos);
        CHECK((moment == last_of_receiver || !e.error.empty()));
      }
    }
  }
}
