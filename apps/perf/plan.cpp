#include "plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace perf {
namespace {

// Buffers of a latency test with small messages. Long messages have fewer, so that their total size
// is at most `slot_bytes`.
constexpr std::uint32_t receives_ahead = 2;
constexpr std::uint32_t writes_behind = 8;
constexpr std::uint64_t slot_bytes = std::uint64_t{16} << 20;

std::uint32_t as_many_as_fit(std::uint32_t wanted, std::uint64_t size) noexcept {
  const auto fitting = std::clamp<std::uint64_t>(slot_bytes / size, 1, wanted);
  return static_cast<std::uint32_t>(std::bit_floor(fitting));
}

constexpr std::array<verb_facts, 9> verbs{{
    {verb::send, "send", "messages, sent and received"},
    {verb::tag, "tag", "tagged messages"},
    {verb::am, "am",
     "active messages; -lat from handler to handler, plain functions up to 496 bytes"},
    {verb::stream, "stream", "bytes of a stream"},
    {verb::write, "write", "remote writes; -lat: each side looks at its own memory"},
    {verb::write_imm, "write-imm", "remote writes that consume a receive of the peer"},
    {verb::read, "read", "remote reads"},
    {verb::fetch_add, "fetch-add", "remote fetch-and-add of 8 bytes"},
    {verb::compare_swap, "compare-swap", "remote compare-and-swap of 8 bytes"},
}};

constexpr std::array<pattern_facts, 4> patterns{{
    {pattern::latency, "lat", 8, "one after the other: how long each takes, there and back"},
    {pattern::bandwidth, "bw", 65536, "many in flight, from the client: GB/s, with 64 KiB each"},
    {pattern::bandwidth, "rate", 8, "the same with 8 bytes each: M/s"},
    {pattern::both_ways, "bi", 65536, "many in flight from both sides; GB/s of both together"},
}};

std::vector<test_facts> make_tests() {
  std::vector<test_facts> tests;
  for (const verb_facts& v : verbs) {
    for (const pattern_facts& p : patterns) {
      test_facts t{std::string(v.name) + "-" + std::string(p.name), v.what, p.form, p.usual_size};
      if (t.atomic()) {
        if (p.name == "bw") continue;  // there is only one size: -rate
        t.usual_size = 8;
      }
      tests.push_back(std::move(t));
    }
  }
  tests.push_back({"idle", verb::nothing, pattern::idle, 8});
  return tests;
}

}  // namespace

std::span<const verb_facts> all_verbs() noexcept { return verbs; }

std::span<const pattern_facts> all_patterns() noexcept { return patterns; }

std::span<const test_facts> all_tests() {
  static const std::vector<test_facts> tests = make_tests();
  return tests;
}

const test_facts* find_test(std::string_view name) {
  const std::span<const test_facts> tests = all_tests();
  const auto at = std::ranges::find(tests, name, &test_facts::name);
  return at == tests.end() ? nullptr : &*at;
}

std::string waiting::text() const {
  std::string text(cordma::name(mode));
  if (spin_us) text += ":" + std::to_string(*spin_us);
  return text;
}

cordma::reactor_options waiting::reactor() const noexcept {
  cordma::reactor_options o;
  o.mode = mode;
  if (spin_us) o.spin_limit = std::chrono::microseconds(*spin_us);
  return o;
}

std::string_view name(arrival a) noexcept {
  constexpr std::array<std::string_view, 3> names{"closed", "poisson", "constant"};
  return names[static_cast<std::size_t>(a)];
}

std::uint32_t usual_outstanding(const plan& p) noexcept {
  constexpr std::uint32_t many = 32;
  if (!p.facts().latency() || p.load_share > 0) return many;
  return p.open_loop() ? most_outstanding : 1;
}

// Without --check all messages use the same memory, as in ucx_perftest: this measures the transport
// and not the cache.
std::uint32_t slots(const plan& p) noexcept {
  const test_facts& f = p.facts();
  if (f.latency() && !p.windowed()) {
    if (f.what == verb::write) return as_many_as_fit(writes_behind, p.size);
    const bool receives = f.what == verb::send || f.what == verb::tag || f.what == verb::write_imm;
    return receives ? as_many_as_fit(receives_ahead, p.size) : 1;
  }
  return p.check ? p.window() : 1;
}

}  // namespace perf
