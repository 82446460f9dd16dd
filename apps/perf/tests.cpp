#include "tests.hpp"

#include <algorithm>
#include <cstring>

namespace perf {
namespace {

std::uint64_t word_of(const lane& l) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, l.in(0).data(), sizeof word);
  return word;
}

}  // namespace

void prepare_memory(lane& l) {
  const test_facts& f = facts(l.what.what);
  if (f.atomic()) {
    std::memset(l.in(0).data(), 0, l.in(0).size());
  } else if (l.what.check && (f.id == test::read_lat || f.id == test::read_bw)) {
    for (std::uint32_t i = 0; i < l.slots; ++i) fill(l.in(i).bytes(), i);
  }
}

void inspect_memory(lane& l, std::uint64_t count) {
  if (!l.what.check) return;
  if (facts(l.what.what).atomic() && word_of(l) != count) ++l.wrong;
  if (l.what.what != test::write_bw) return;
  // The last write to each buffer counts.
  const std::uint64_t written = std::min<std::uint64_t>(count, l.slots);
  for (std::uint64_t i = count - written; i < count; ++i) {
    if (!matches(l.in(i % l.slots).bytes(), i)) ++l.wrong;
  }
}

cordma::task<void> client_side(lane& l, std::uint64_t count) {
  switch (l.what.what) {
    case test::send_lat:
      return l.what.think_us == 0 ? send_and_wait(l, count) : send_wait_think(l, count);
    case test::tag_lat: return send_and_wait(l, count);
    case test::send_bw:
    case test::tag_bw:
    case test::send_rate: return send_many(l, count);
    case test::am_lat: return call_first(l, count);
    case test::stream_bw: return write_stream(l, count);
    case test::write_lat: return write_and_look(l, count);
    case test::write_bw: return write_many(l, count);
    case test::read_lat: return read_each(l, count);
    case test::read_bw: return read_many(l, count);
    case test::fetch_add_lat: return fetch_add_each(l, count);
    case test::fetch_add_rate: return fetch_add_many(l, count);
  }
  return {};
}

cordma::task<void> server_side(lane& l, std::uint64_t count) {
  switch (l.what.what) {
    case test::send_lat:
    case test::tag_lat: return echo(l, count);
    case test::write_lat: return look_and_write(l, count);
    case test::send_bw:
    case test::tag_bw:
    case test::send_rate: return receive_many(l, count);
    case test::am_lat: return answer_all(l, count);
    case test::stream_bw: return read_stream(l, count);
    default: return {};  // the client acts alone
  }
}

}  // namespace perf
