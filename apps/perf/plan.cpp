#include "plan.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace perf {
namespace {

// Of a latency test, where messages are small; of long ones fewer, so that all of them together stay
// below so many bytes.
constexpr std::uint32_t receives_ahead = 2;
constexpr std::uint32_t writes_behind = 8;
constexpr std::uint64_t slot_bytes = std::uint64_t{16} << 20;

std::uint32_t as_many_as_fit(std::uint32_t wanted, std::uint64_t size) noexcept {
  const auto fitting = std::clamp<std::uint64_t>(slot_bytes / size, 1, wanted);
  return static_cast<std::uint32_t>(std::bit_floor(fitting));
}

constexpr std::array<test_facts, 13> table{{
    {test::send_lat, "send-lat", shape::ping_pong, 8, "messages in ping-pong: time of one way"},
    {test::send_bw, "send-bw", shape::to_receiver, 65536, "messages in one direction: GB/s"},
    {test::send_rate, "send-rate", shape::to_receiver, 8, "messages in one direction: M/s"},
    {test::write_lat, "write-lat", shape::ping_pong, 8,
     "remote writes in ping-pong, each side looking at its own memory: time of one way"},
    {test::write_bw, "write-bw", shape::in_flight, 65536, "remote writes: GB/s"},
    {test::read_lat, "read-lat", shape::one_by_one, 8, "remote reads, one by one: time of each"},
    {test::read_bw, "read-bw", shape::in_flight, 65536, "remote reads: GB/s"},
    {test::fetch_add_lat, "fetch-add-lat", shape::one_by_one, 8,
     "remote fetch-and-adds, one by one: time of each"},
    {test::fetch_add_rate, "fetch-add-rate", shape::in_flight, 8, "remote fetch-and-adds: M/s"},
    {test::tag_lat, "tag-lat", shape::ping_pong, 8, "tagged messages in ping-pong: time of one way",
     carrier::messages},
    {test::tag_bw, "tag-bw", shape::to_receiver, 65536, "tagged messages in one direction: GB/s",
     carrier::messages},
    {test::am_lat, "am-lat", shape::ping_pong, 8,
     "active messages in ping-pong, from handler to handler: time of one way", carrier::messages},
    {test::stream_bw, "stream-bw", shape::to_receiver, 65536, "bytes of a stream: GB/s",
     carrier::stream},
}};

}  // namespace

std::span<const test_facts> all_tests() noexcept { return table; }

const test_facts& facts(test t) noexcept { return table[static_cast<std::size_t>(t)]; }

std::optional<test> parse_test(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(table, name, &test_facts::name);
  if (at == table.end()) return std::nullopt;
  return at->id;
}

// Without --check the same memory serves every message, as in ucx_perftest: what is measured is the
// transport and not the cache.
std::uint32_t slots(const plan& p) noexcept {
  if (p.what == test::send_lat || p.what == test::tag_lat)
    return as_many_as_fit(receives_ahead, p.size);
  if (p.what == test::write_lat) return as_many_as_fit(writes_behind, p.size);
  if (facts(p.what).latency()) return 1;
  return p.check ? p.outstanding : 1;
}

}  // namespace perf
