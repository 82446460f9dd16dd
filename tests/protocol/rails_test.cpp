// One message over several rails: properties for any size and any rails, and a few exact results.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/protocol/rails.hpp>

#include <algorithm>
#include <vector>

using namespace cordma;
using namespace cordma::protocol;

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

std::vector<rail_part> parts_of(std::uint64_t size, const std::vector<rail_state>& rails) {
  const rail_split made = split(size, rails);
  return {made.part.begin(), made.part.begin() + static_cast<std::ptrdiff_t>(made.parts)};
}

bool same(const std::vector<rail_part>& a, const std::vector<rail_part>& b) {
  return std::ranges::equal(a, b, [](const rail_part& x, const rail_part& y) {
    return x.rail == y.rail && x.offset == y.offset && x.bytes == y.bytes;
  });
}

// When parts trade bytes with each other, rounding is the only deviation of a rail from its share.
void check_shares(std::uint64_t size, const std::vector<rail_state>& rails,
                  const std::vector<rail_part>& parts) {
  long double total = 0;
  for (const rail_part& p : parts) total += static_cast<long double>(rails[p.rail].rate);
  for (const rail_part& p : parts) {
    const long double share =
        static_cast<long double>(size) * static_cast<long double>(rails[p.rail].rate) / total;
    const long double off = static_cast<long double>(p.bytes) - share;
    CHECK(off < 2 * rail_alignment);
    CHECK(off > -2.0L * rail_alignment);
  }
}

}  // namespace

TEST_CASE(
    "whatever is split: whole, contiguous, aligned, nothing empty, only healthy rails, the same "
    "again") {
  test::dice d(7);
  std::size_t of_many = 0;
  for (int round = 0; round < 20'000; ++round) {
    CAPTURE(round);
    std::vector<rail_state> rails(1 + d.below(most_rails));
    const bool all_known = d.below(2) == 0;
    for (rail_state& r : rails) {
      const bool unknown = !all_known && d.below(4) == 0;
      r = {.rate = unknown ? 0 : 1 + (d.next() >> d.below(64)) % 400'000,
           .healthy = d.below(5) != 0};
    }
    const std::uint64_t size = 1 + (d.next() >> (20 + d.below(44)));
    CAPTURE(size);
    const std::vector<rail_part> parts = parts_of(size, rails);
    const auto healthy = static_cast<std::size_t>(
        std::ranges::count_if(rails, [](const rail_state& r) { return r.healthy; }));
    REQUIRE(!parts.empty());
    CHECK(parts.size() <= std::max<std::size_t>(healthy, 1));
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i].offset == offset);
      CHECK(parts[i].offset % rail_alignment == 0);
      CHECK(parts[i].bytes >= (parts.size() > 1 ? least_rail_part : 1));
      CHECK((healthy == 0 || rails[parts[i].rail].healthy));
      CHECK((i == 0 || parts[i].rail > parts[i - 1].rail));
      offset += parts[i].bytes;
    }
    CHECK(offset == size);
    CHECK(same(parts, parts_of(size, rails)));
    of_many += parts.size() > 1 ? 1U : 0U;
    if (all_known && parts.size() > 1) check_shares(size, rails, parts);
  }
  CHECK(of_many > 5'000);
}

TEST_CASE("parts are in proportion to the rates; what is short goes over the fastest") {
  const std::vector<rail_state> even(3, {.rate = 100, .healthy = true});
  CHECK(parts_of(64 * kib - 1, even).size() == 1);
  CHECK(parts_of(127 * kib, even).size() == 1);
  CHECK(parts_of(128 * kib, even).size() == 2);
  CHECK(parts_of(192 * kib - 1, even).size() == 2);
  CHECK(parts_of(192 * kib, even).size() == 3);
  const std::vector<rail_state> uneven{{.rate = 100, .healthy = true},
                                       {.rate = 400, .healthy = true},
                                       {.rate = 1000, .healthy = false}};
  const std::vector<rail_part> both = parts_of(5 * mib, uneven);
  REQUIRE(both.size() == 2);
  CHECK(both[0].bytes == mib);
  CHECK(both[1].bytes == 4 * mib);
  const std::vector<rail_part> fast = parts_of(64 * kib, uneven);
  REQUIRE(fast.size() == 1);
  CHECK(fast[0].rail == 1);
  // A slow rail that would get a negligible part is left out.
  CHECK(parts_of(256 * kib, uneven).size() == 1);
}

TEST_CASE("what goes over one rail goes over that which is done with it first") {
  const auto rail_for = [](std::uint64_t size, const std::vector<rail_state>& rails) {
    const std::vector<rail_part> parts = parts_of(size, rails);
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].bytes == size);
    return parts[0].rail;
  };
  std::vector<rail_state> even(3, {.rate = 100, .healthy = true});
  even[0].under_way = 8 * kib;
  CHECK(rail_for(64 * kib, even) == 1);
  even[1].under_way = even[2].under_way = 16 * kib;
  CHECK(rail_for(64 * kib, even) == 0);
  even[0].healthy = false;
  even[1].under_way = 17 * kib;
  CHECK(rail_for(64 * kib, even) == 2);
  std::vector<rail_state> uneven{{.rate = 100, .healthy = true}, {.rate = 400, .healthy = true}};
  uneven[1].under_way = 191 * kib;
  CHECK(rail_for(64 * kib, uneven) == 1);
  uneven[1].under_way = 193 * kib;
  CHECK(rail_for(64 * kib, uneven) == 0);
  constexpr std::uint64_t endless = ~std::uint64_t{0};
  uneven = {{.rate = endless, .healthy = true, .under_way = endless},
            {.rate = endless, .healthy = true, .under_way = endless}};
  CHECK(rail_for(1, uneven) == 0);
}

TEST_CASE(
    "a rail of unknown rate counts like the others; without a healthy one all is the first's") {
  const std::vector<rail_state> mixed{
      {.rate = 200, .healthy = true}, {.rate = 0, .healthy = true}, {.rate = 400, .healthy = true}};
  const std::vector<rail_part> three = parts_of(9 * mib, mixed);
  REQUIRE(three.size() == 3);
  CHECK(three[0].bytes == 2 * mib);
  CHECK(three[1].bytes == 3 * mib);
  CHECK(three[2].bytes == 4 * mib);
  const std::vector<rail_state> unknown(4, {.rate = 0, .healthy = true});
  for (const rail_part& p : parts_of(4 * mib, unknown)) CHECK(p.bytes == mib);
  const std::vector<rail_part> none = parts_of(mib, {{.rate = 5}, {.rate = 9}});
  REQUIRE(none.size() == 1);
  CHECK(none[0].rail == 0);
}
