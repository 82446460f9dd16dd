// A receiver that sends invalid frames: the sender reports the fault by name, and ends.
#include "hostile.hpp"

using namespace copy;
using namespace copy::test;

namespace {

void plant(const temporary_tree& here) {
  here.file("a", std::string(200'000, 'a'));
  here.directory("d");
  here.file("d/b", "1234");
}
constexpr std::uint32_t number_of_a = 1;  // "." is 0
constexpr std::uint32_t number_of_d = 2;

// Expects the sender to fail with an error that contains `what`, over every transport.
void refuses(std::string_view what, const script& s) {
  for (const cordma::transport::kind over : transports) {
    const temporary_tree here;
    plant(here);
    const ending e = attack_sender(over, here.root(), s);
    INFO(text_of(e));
    CHECK_MESSAGE(e.error.find(what) != std::string::npos, std::string(what));
  }
}

frames wants_told(std::uint32_t file, std::vector<std::uint8_t> here = {}) {
  return frame_of(frame_kind::wants, [&](frame_writer& w) {
    want all;
    all.file = file;
    all.here = here;
    encode(w, all);
  });
}
frames again_told(std::uint32_t file, std::uint64_t index) {
  return frame_of(frame_kind::again, [&](frame_writer& w) { w.u32(file).u64(index).u64(0); });
}
frames credit_told(std::uint32_t slot) {
  return frame_of(frame_kind::credit, [slot](frame_writer& w) { w.u32(slot); });
}

// A frame that announces `slots` slots in the mapped memory.
frames mapped(villain& v) {
  slot_memory m;
  m.number = v.way().stream().map(v.memory()).value();
  m.slots = slots;
  m.slot_bytes = chunk;
  return encoded(m);
}

// Maps memory of one slot; sends the test's frames once the list is complete.
task<void> say_when_listed(villain& v) {
  const frames memory = mapped(v);
  co_await v.say(memory);
  co_await v.hear(frame_kind::entries_end);
  const frames rest = v.told;
  co_await v.say(rest);
}
void refuses_when_listed(std::string_view what, frames told) {
  refuses(what, {say_when_listed, std::move(told)});
}

}  // namespace

TEST_CASE("a receiver that wants what there is not is refused") {
  constexpr std::string_view none = "a file that there is not";
  refuses_when_listed(none, wants_told(99));
  refuses_when_listed(none, wants_told(~0U));
  refuses_when_listed(none, wants_told(number_of_d));
  refuses_when_listed("chunks that are not of that file", wants_told(number_of_a, {0, 0}));
  refuses_when_listed("a file that was wanted before",
                      wants_told(number_of_a) + wants_told(number_of_a));
  refuses_when_listed(none, again_told(number_of_d, 0));
  refuses_when_listed("a chunk that there is not",
                      wants_told(number_of_a) + again_told(number_of_a, 4));
  refuses_when_listed("a file that was not wanted", again_told(number_of_a, 0));
}

TEST_CASE("a receiver of slots that cannot be is refused") {
  const auto told = [](std::uint32_t count, std::uint32_t bytes) {
    return encoded(slot_memory{1, count, bytes, 0});
  };
  refuses("a number of slots that cannot be", {say_told, told(0, chunk)});
  refuses("a number of slots that cannot be", {say_told, told(most_slots + 1, chunk)});
  refuses("slots shorter than a chunk", {say_told, told(slots, chunk - 1)});
  refuses("slots shorter than a chunk", {say_told, told(slots, 0)});
  refuses("memory for a lane that has all of its own",
          {say_told, told(slots, chunk) + told(slots, chunk) + told(slots, chunk)});
  constexpr std::string_view none = "a slot that there is not";
  constexpr std::string_view unused = "a slot that is free";
  refuses(none, {say_told, credit_told(0)});
  refuses_when_listed(none, credit_told(slots));
  refuses_when_listed(none, credit_told(~0U));
  refuses_when_listed(unused, credit_told(0));
  refuses_when_listed(unused,
                      wants_told(number_of_a) + credit_told(slots - 1) + credit_told(slots - 1));
}

TEST_CASE("a receiver that names memory beyond what it has mapped is refused") {
  const auto lie = [](villain& v) -> task<void> {
    const std::uint32_t mapped = v.way().stream().map(v.memory()).value();
    frame_reader in(frame_kind::memory, std::span(v.told).subspan(frame_head_bytes));
    slot_memory m = decode_memory(in);
    m.number += mapped;
    const frames memory = encoded(m);
    co_await v.say(memory);
    co_await v.hear(frame_kind::entries_end);
    const frames all = wants_told(number_of_a);
    co_await v.say(all);
  };
  constexpr std::uint64_t end = std::uint64_t{slots} * chunk;
  for (const slot_memory& m :
       {slot_memory{0, 1, chunk, end}, slot_memory{0, 1, chunk, end - 1},
        slot_memory{0, 1, chunk, ~0ULL}, slot_memory{0, 1, chunk, 1ULL << 63},
        slot_memory{0, 1024, ~0U, ~0ULL - chunk}, slot_memory{0, 2, ~0U, 1},
        slot_memory{1, 1, chunk, 0}, slot_memory{1000, 1, chunk, 0}}) {
    for (const cordma::transport::kind over : transports) {
      const temporary_tree here;
      plant(here);
      CAPTURE(m.number);
      CAPTURE(m.offset);
      const ending e = attack_sender(over, here.root(), {lie, encoded(m)});
      INFO(text_of(e));
      CHECK(e.error.find("write: ") == 0);
    }
  }
}

TEST_CASE("a receiver that has finished what it cannot have is refused") {
  constexpr std::string_view early = "files on their way";
  refuses_when_listed(early, wants_told(number_of_a) + encoded(tally{}));
  refuses("files on their way", {[](villain& v) -> task<void> {
            co_await v.hear(frame_kind::entries_end);
            // No slots were announced, so the sender waits.
            const frames end = wants_told(number_of_a) + encoded(tally{});
            co_await v.say(end);
          }});
}

TEST_CASE("a chunk that is wanted again when all is over is nobody's") {
  const auto act = [](villain& v) -> task<void> {
    const frames begin = mapped(v);
    co_await v.say(begin);
    co_await v.hear(frame_kind::entries_end);
    const frames all = wants_told(number_of_a);
    co_await v.say(all);
    co_await v.hear(frame_kind::file_end);
    // All slots are in use.
    const frames rest = again_told(number_of_a, 0) + again_told(number_of_a, 1) + encoded(tally{});
    co_await v.say(rest);
    co_await v.hear(frame_kind::all_sent);
    v.finish();
  };
  for (const cordma::transport::kind over : transports) {
    const temporary_tree here;
    plant(here);
    const ending e = attack_sender(over, here.root(), {act});
    INFO(text_of(e));
    CHECK(e.error.empty());
    CHECK(e.names("the manifests differ"));
  }
}

TEST_CASE("a receiver whose frames come where they have no place is refused") {
  constexpr std::string_view misplaced = "no place in what a receiver says";
  refuses(misplaced, {say_told, number_frame(frame_kind::entries_end, 0)});
  refuses(misplaced, {say_told, encoded(chunk_frame{})});
  refuses(misplaced, {say_told, number_frame(frame_kind::all_sent, 0)});
  refuses("what nobody asked for", {say_told, encoded(done_frame{})});
  refuses("a kind that this version does not have",
          {say_told, number_frame(static_cast<frame_kind>(0), 0)});
  refuses(
      "the other side: so it is",
      {say_told, frame_of(frame_kind::refusal, [](frame_writer& w) { w.text("so it is").u8(1); })});
}
