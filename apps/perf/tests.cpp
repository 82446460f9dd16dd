#include "tests.hpp"

#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/when_all.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace perf {
namespace {

using cordma::task;

std::uint64_t word_of(const lane& l) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, l.in(0).data(), sizeof word);
  return word;
}

task<void> nothing_for(std::uint64_t ms) {
  co_await cordma::sleep_for(std::chrono::milliseconds(ms));
}

// The sends and receives of one side with many requests in flight.
task<void> outgoing(lane& l, std::uint64_t count) {
  if (l.what.facts().by_stream()) return write_stream(l, count);
  if (l.what.facts().what == verb::am) return call_many(l, count);
  return start_many(l, count);
}

task<void> incoming(lane& l, std::uint64_t count) {
  const test_facts& f = l.what.facts();
  if (f.by_stream()) return read_stream(l, count);
  if (f.what == verb::am) return answer_all(l, count);
  if (f.one_sided()) return {};
  return receive_many(l, count);
}

task<void> both(lane& l, std::uint64_t count) {
  if (l.what.facts().one_sided()) return outgoing(l, count);
  return cordma::when_all(outgoing(l, count), incoming(l, count));
}

task<void> latency_client(lane& l, std::uint64_t count) {
  const test_facts& f = l.what.facts();
  if (l.what.windowed()) return request_many(l, count);
  if (!f.ping_pong()) return one_by_one(l, count);
  switch (f.what) {
    case verb::write: return write_and_look(l, count);
    case verb::am: return call_first(l, count);
    case verb::stream: return write_and_read(l, count);
    default: return send_and_wait(l, count);
  }
}

task<void> latency_server(lane& l, std::uint64_t count) {
  const test_facts& f = l.what.facts();
  if (!f.ping_pong()) return {};
  if (l.what.windowed()) return echo_many(l, count);
  switch (f.what) {
    case verb::write: return look_and_write(l, count);
    case verb::am: return answer_all(l, count);
    case verb::stream: return read_and_write(l, count);
    default: return echo(l, count);
  }
}

}  // namespace

void prepare_memory(lane& l) {
  const test_facts& f = l.what.facts();
  if (f.atomic()) {
    const std::uint64_t first = l.what.flip ? 1 : 0;
    std::memcpy(l.in(0).data(), &first, sizeof first);
  } else if (f.what == verb::read) {
    if (l.what.flip) l.flip_at = 0;
    for (std::uint32_t i = 0; i < l.slots; ++i) l.fill_out(i, i);
  }
}

void inspect_memory(lane& l, std::uint64_t count) {
  if (!l.what.check) return;
  const test_facts& f = l.what.facts();
  if (f.atomic() && word_of(l) != count) ++l.wrong;
  const bool written = f.what == verb::write || f.what == verb::write_imm;
  if (!written || f.latency()) return;
  // The last write to each buffer determines its content.
  const std::uint64_t last = std::min<std::uint64_t>(count, l.slots);
  for (std::uint64_t i = count - last; i < count; ++i) {
    if (!matches(l.in(i % l.slots).bytes(), i)) ++l.wrong;
  }
}

void stall_if_due(lane& l, std::uint64_t i) noexcept {
  if (i != l.stall_at) return;
  constexpr std::uint64_t ms_per_s = 1000;
  timespec left{static_cast<time_t>(l.what.stall_ms / ms_per_s),
                static_cast<long>(l.what.stall_ms % ms_per_s * 1'000'000)};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

task<void> client_side(lane& l, std::uint64_t count) {
  switch (l.what.facts().form) {
    case pattern::latency: return latency_client(l, count);
    case pattern::bandwidth: return outgoing(l, count);
    case pattern::both_ways: return both(l, count);
    case pattern::idle: return nothing_for(count);
  }
  return {};
}

task<void> server_side(lane& l, std::uint64_t count) {
  switch (l.what.facts().form) {
    case pattern::latency: return latency_server(l, count);
    case pattern::bandwidth: return incoming(l, count);
    case pattern::both_ways: return both(l, count);
    case pattern::idle: return {};
  }
  return {};
}

}  // namespace perf
