#include <cordma/net/protocol/rails.hpp>

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <utility>

namespace cordma::protocol {
namespace {

// Bounds that keep the products below in 64 bits.
constexpr std::uint64_t largest_rate = std::uint64_t{1} << 28;
constexpr std::uint64_t largest_load = std::uint64_t{1} << 35;

struct weighed {
  std::size_t rail;
  std::uint64_t rate;
  std::uint64_t under_way;
};

struct ranking {
  std::array<weighed, most_rails> place;
  std::size_t count = 0;
};

// A stable sort. GCC 12 warns of std::sort() on an array of less than 16.
template <class Before>
void put_in_order(std::span<weighed> few, Before before) noexcept {
  for (std::size_t i = 1; i < few.size(); ++i) {
    for (std::size_t k = i; k > 0 && before(few[k], few[k - 1]); --k) std::swap(few[k], few[k - 1]);
  }
}

// The healthy rails, the fastest first; equal ones in their order.
ranking rank(std::span<const rail_state> rails) noexcept {
  ranking all;
  std::uint64_t sum = 0;
  std::uint64_t known = 0;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (!rails[i].healthy) continue;
    const std::uint64_t rate = std::min(rails[i].rate, largest_rate);
    all.place[all.count++] = {.rail = i, .rate = rate, .under_way = rails[i].under_way};
    sum += rate;
    known += rate != 0 ? 1 : 0;
  }
  const std::uint64_t usual = known != 0 ? sum / known : 1;
  const std::span<weighed> ranked = std::span(all.place).first(all.count);
  for (weighed& w : ranked) w.rate = w.rate != 0 ? w.rate : usual;
  put_in_order(ranked, [](const weighed& a, const weighed& b) { return a.rate > b.rate; });
  return all;
}

// Divides the message over these rails, however small the parts become.
rail_split divide(std::uint64_t size, std::span<const weighed> ranked) noexcept {
  std::array<weighed, most_rails> in_order;
  std::ranges::copy(ranked, in_order.begin());
  const std::span<weighed> over = std::span(in_order).first(ranked.size());
  put_in_order(over, [](const weighed& a, const weighed& b) { return a.rail < b.rail; });
  std::uint64_t total = 0;
  for (const weighed& w : over) total += w.rate;
  rail_split made;
  std::uint64_t before = 0;
  std::uint64_t offset = 0;
  for (const weighed& w : over) {
    before += w.rate;
    const std::uint64_t share = size / total * before + size % total * before / total;
    const std::uint64_t end = before == total ? size : share / rail_alignment * rail_alignment;
    made.part[made.parts++] = {.rail = w.rail, .offset = offset, .bytes = end - offset};
    offset = end;
  }
  return made;
}

// The rail that would finish the message first; of equal ones the first, which is the fastest.
// REQUIRES at least one.
std::size_t soonest(std::uint64_t size, std::span<const weighed> ranked) noexcept {
  const auto load = [size](const weighed& w) {
    return std::min(size, largest_load / 2) + std::min(w.under_way, largest_load / 2);
  };
  const auto before = [load](const weighed& a, const weighed& b) {
    return load(a) * b.rate < load(b) * a.rate;
  };
  return std::ranges::min_element(ranked, before)->rail;
}

}  // namespace

rail_split split(std::uint64_t size, std::span<const rail_state> rails) noexcept {
  CORDMA_REQUIRE_OP(size, !=, 0U);
  CORDMA_REQUIRE_OP(rails.size() - 1, <, most_rails);
  const ranking all = rank(rails);
  for (std::size_t n = all.count; n > 1; --n) {
    const rail_split made = divide(size, std::span(all.place).first(n));
    const auto too_small = [](const rail_part& p) { return p.bytes < least_rail_part; };
    if (std::ranges::none_of(std::span(made.part).first(n), too_small)) return made;
  }
  rail_split whole;
  const std::span<const weighed> ranked = std::span(all.place).first(all.count);
  whole.part[0] = {.rail = ranked.empty() ? 0 : soonest(size, ranked), .offset = 0, .bytes = size};
  whole.parts = 1;
  return whole;
}

}  // namespace cordma::protocol
