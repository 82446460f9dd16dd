// The memory of a store, as peers see it at any moment.
#include "../../apps/kv/store/checksum.hpp"
#include "../../apps/kv/store/store.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

using namespace kv;

namespace {

constexpr unix_ms start_of_time = 1'700'000'000'000;

// Memory with regions that another thread can also look up.
class seen_memory final : public memory_source {
 public:
  std::span<std::byte> more(std::size_t bytes) noexcept override {
    const std::span<std::byte> given = inner_.more(bytes);
    regions_[count_++].store(given.data());
    return given;
  }
  [[nodiscard]] const std::byte* at(place where) const noexcept {
    return regions_[where * granule / region_bytes].load() + where * granule % region_bytes;
  }

 private:
  plain_memory inner_;
  std::array<std::atomic<std::byte*>, 64> regions_{};
  std::size_t count_ = 0;
};

std::uint64_t word_at(const std::byte* at) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_ACQUIRE);
}

// Returns the place that the index contains, or 0.
place find_place(const seen_memory& memory, const hashed_key& k) noexcept {
  const std::byte* const region = memory.at(0);
  const auto* const head = reinterpret_cast<const shard_head*>(region);
  const std::uint64_t number = bucket_of(k.hash, word_at(region + offsetof(shard_head, buckets)));
  const std::byte* const b = region + head->index[0] * segment_bytes + number * sizeof(bucket);
  for (unsigned i = 0; i < bucket::slots_per_bucket; ++i) {
    const std::uint64_t s = word_at(b + offsetof(bucket, slots) + i * sizeof(std::uint64_t));
    if (s != 0 && slot::tag(s) == k.tag()) return slot::where(s);
  }
  return 0;
}

}  // namespace

TEST_CASE("a shard's head says what it is, and every key is found by it, whole, at its place") {
  seen_memory memory;
  store s(memory, {.hash_seed = 17});
  s.tick(start_of_time);
  const auto* const head = reinterpret_cast<const shard_head*>(memory.at(0));
  CHECK(head->magic == shard_head::expected_magic);
  CHECK(head->hash_seed == 17);
  CHECK(head->clock == start_of_time);
  for (int i = 0; i < 200; ++i) {
    const std::string name = "key" + std::to_string(i);
    const hashed_key k = s.key(name);
    REQUIRE(s.put(k, "value of " + name, i % 2 == 0 ? start_of_time + 5 : never_expires) ==
            put_outcome::done);
    const place where = find_place(memory, k);
    REQUIRE(where != 0);
    const auto& at = *reinterpret_cast<const item*>(memory.at(where));
    CHECK(at.key() == name);
    CHECK(at.stored() == "value of " + name);
    CHECK(at.crc == item_checksum(at, where));
    CHECK(at.crc != item_checksum(at, where + 1));
  }
}

TEST_CASE(
    "when a key is found at its new place, what was at the old one is dead already [100,000 "
    "times]") {
  seen_memory memory;
  store s(memory, {.hash_seed = 17});
  s.tick(start_of_time);
  s.readers(true);  // memory is not reused
  const hashed_key k = s.key("k");
  REQUIRE(s.put(k, "0") == put_outcome::done);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> moves{0};
  std::atomic<std::uint64_t> wrong{0};
  std::thread peer([&] {
    place known = find_place(memory, k);
    while (!over.load()) {
      const place now = find_place(memory, k);
      if (now == known || now == 0) continue;
      const auto& old = *reinterpret_cast<const item*>(memory.at(known));
      if ((__atomic_load_n(&old.flags, __ATOMIC_ACQUIRE) & item::flag_dead) == 0) ++wrong;
      ++moves;
      known = now;
    }
  });
  const int most = 1'000'000;  // on one processor the peer sees few moves
  for (int i = 0; i < most && moves.load() < 10'000; ++i) {
    REQUIRE(s.put(k, std::to_string(i)) == put_outcome::done);
  }
  over = true;
  peer.join();
  CHECK(wrong.load() == 0);
  CHECK(moves.load() > 0);
}
