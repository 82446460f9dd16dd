// Memory of small hashes, and its return to the system.
#include "../../apps/kv/store/block_heap.hpp"
#include "../../apps/kv/store/store.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

using namespace kv;

namespace {

struct owned {
  char* at;
  std::size_t room;
  char mark;
};

bool is_whole(const owned& b) {
  for (std::size_t i = 0; i < b.room; ++i) {
    if (b.at[i] != b.mark) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("blocks of any size are apart from each other, and are given again") {
  block_heap heap;
  std::mt19937_64 dice(1);
  std::vector<owned> all;
  for (int step = 0; step < 40'000; ++step) {
    if (!all.empty() && dice() % 3 == 0) {
      std::swap(all[dice() % all.size()], all.back());
      REQUIRE(is_whole(all.back()));
      heap.give(all.back().at, all.back().room);
      all.pop_back();
      continue;
    }
    const std::size_t room = block_heap::room_of(dice() % 4500);
    owned b{static_cast<char*>(heap.take(room)), room, static_cast<char>(dice())};
    REQUIRE(b.at != nullptr);
    REQUIRE(reinterpret_cast<std::uintptr_t>(b.at) % block_heap::step == 0);
    std::memset(b.at, b.mark, room);
    all.push_back(b);
  }
  for (const owned& b : all) {
    REQUIRE(is_whole(b));
    heap.give(b.at, b.room);
  }
  CHECK(heap.held_bytes() == 0);
}

TEST_CASE("blocks that are left here and there move together, and their slabs go back") {
  constexpr std::size_t room = 96;
  constexpr std::size_t count = 200'000;
  block_heap heap;
  std::vector<void*> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(heap.take(room));
  const std::size_t full = heap.held_bytes();
  CHECK(full < count * room * 102 / 100);
  CHECK_FALSE(heap.is_loose());
  std::vector<void*> left;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 10 == 0) {
      left.push_back(all[i]);
    } else {
      heap.give(all[i], room);
    }
  }
  CHECK(heap.held_bytes() > full * 9 / 10);
  CHECK(heap.is_loose());
  heap.begin_pass();
  std::size_t moved = 0;
  for (void*& block : left) {
    if (!heap.is_sparse(block, room)) continue;
    ++moved;
    void* const better = heap.take(room);
    heap.give(block, room);
    block = better;
  }
  CHECK(moved <= left.size());
  CHECK(heap.held_bytes() <= left.size() * room * 115 / 100 + block_heap::slab_bytes);
  CHECK_FALSE(heap.is_loose());
}

TEST_CASE("of small hashes most of which are erased the slabs go back bit by bit") {
  constexpr std::uint64_t count = 100'000;
  plain_memory memory;
  store keys(memory, {.hash_seed = 7});
  keys.tick(1'700'000'000'000);
  const auto name = [](std::uint64_t i) { return "h" + std::to_string(i); };
  for (std::uint64_t i = 0; i < count; ++i) {
    for (const char* const field : {"a", "b", "c"}) {
      REQUIRE(keys.field_put(keys.key(name(i)), field, name(i)) == put_outcome::done);
    }
  }
  const std::size_t full = keys.usage().slab_bytes;
  CHECK(full <= keys.usage().object_bytes);  // includes the slots of objects
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 10 != 0) REQUIRE(keys.erase(keys.key(name(i))));
  }
  int slices = 0;
  while (keys.free_some(1000)) ++slices;
  CHECK(slices >= 90);  // a thousand slots at a time
  CHECK(keys.usage().slab_bytes <= full * 115 / 1000 + (5 << 20));
  for (std::uint64_t i = 0; i < count; i += 10) {
    const found f = keys.find(keys.key(name(i)));
    REQUIRE(f);
    REQUIRE(f.fields->size() == 3);
    REQUIRE(f.fields->find("b") == name(i));
  }
  keys.clear();
  CHECK(keys.usage().slab_bytes == 0);
  CHECK(keys.usage().object_bytes == 0);
}

TEST_CASE("of hashes with longer fields, and of one large one, the slabs go back as well") {
  constexpr std::uint64_t count = 20'000;
  plain_memory memory;
  store keys(memory, {.hash_seed = 7});
  keys.tick(1'700'000'000'000);
  const auto name = [](std::uint64_t i) { return "h" + std::to_string(i); };
  const hashed_key large = keys.key("large");
  for (std::uint64_t i = 0; i < count; ++i) {
    for (const char* const field : {"a", "b", "c"}) {
      REQUIRE(keys.field_put(keys.key(name(i)), field, std::string(100, 'v')) == put_outcome::done);
    }
    REQUIRE(keys.field_put(large, name(i), name(i)) == put_outcome::done);
  }
  const std::size_t full = keys.usage().slab_bytes;
  CHECK(full >= count * 300);  // they are in slabs
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 10 == 0) continue;
    REQUIRE(keys.erase(keys.key(name(i))));
    REQUIRE(keys.field_erase(large, name(i)));
  }
  while (keys.free_some(1000)) {}
  CHECK(keys.usage().slab_bytes <= full * 115 / 1000 + (5 << 20));
  CHECK(keys.find(large).fields->size() == count / 10);
  for (std::uint64_t i = 0; i < count; i += 10) {
    REQUIRE(keys.find(keys.key(name(i))).fields->find("b") == std::string(100, 'v'));
    REQUIRE(keys.find(large).fields->find(name(i)) == name(i));
  }
  keys.clear();
  CHECK(keys.usage().slab_bytes == 0);
  CHECK(keys.usage().object_bytes == 0);
}

TEST_CASE("of fields of 1,100 to 4,000 bytes the slabs go back, also of one hash alone") {
  for (const std::size_t bytes : {1'100U, 2'500U, 4'000U}) {
    CAPTURE(bytes);
    constexpr std::uint64_t count = 10'000;
    plain_memory memory;
    store keys(memory, {.hash_seed = 7});
    keys.tick(1'700'000'000'000);
    const hashed_key k = keys.key("h");
    const auto name = [](std::uint64_t i) { return "f" + std::to_string(i); };
    for (std::uint64_t i = 0; i < count; ++i) {
      REQUIRE(keys.field_put(k, name(i), std::string(bytes, 'v')) == put_outcome::done);
    }
    const std::size_t full = keys.usage().slab_bytes;
    CHECK(full >= count * bytes);
    CHECK(full <= count * (bytes + 100) * 108 / 100);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i % 10 != 0) REQUIRE(keys.field_erase(k, name(i)));
    }
    int slices = 0;
    while (keys.free_some(1000)) ++slices;
    CHECK(slices >
          static_cast<int>(count / 10 * bytes / 512 / 1000));  // long values take longer to move
    CHECK(keys.usage().slab_bytes <= full * 115 / 1000 + (5 << 20));
    for (std::uint64_t i = 0; i < count; i += 10) {
      REQUIRE(keys.find(k).fields->find(name(i)) == std::string(bytes, 'v'));
    }
    keys.erase(k, freeing::later);
    while (keys.free_some(1000)) {}
    CHECK(keys.usage().slab_bytes == 0);
  }
}

TEST_CASE("segments that have been spare for long go back, and are used again") {
  plain_memory memory;
  segment_set segments(memory, cordma::real_clock());
  std::vector<std::uint32_t> taken;
  for (int i = 0; i < 64; ++i) {
    taken.push_back(*segments.take(segment_set::use::items));
    std::memset(segments[taken.back()].base, 7, segment_bytes);
  }
  for (const std::uint32_t n : taken) segments.give_up(n, cordma::duration::zero());
  CHECK(segments.discarded() == 0);
  int ticks = 0;
  for (std::size_t before = SIZE_MAX; before != segments.discarded(); ++ticks) {
    before = segments.discarded();
    segments.tick();
  }
  CHECK(segments.discarded() >= 56);  // eight are kept
  CHECK(ticks >= 14);                 // four at a time
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t n = *segments.take(segment_set::use::index);
    for (std::size_t b = 0; b < segment_bytes; ++b) REQUIRE(segments[n].base[b] == std::byte{0});
  }
  CHECK(segments.discarded() == 0);
}
