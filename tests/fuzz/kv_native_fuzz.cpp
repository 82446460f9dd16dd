// Messages of both sides of the native protocol: every input is refused, or decoded exactly and
// encoded to the same bytes. A server answers any batch within the available space, with responses
// that its clients can decode.
#include "../../apps/kv/native/execute.hpp"
#include "../../apps/kv/native/scan.hpp"

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace kv::native;
using bytes = std::span<const std::byte>;

constexpr kv::unix_ms now = 1'700'000'000'000;
constexpr std::size_t most_bytes = 4096;

// The decoded parts of `from` are encoded to the same bytes.
template <class Head>
void require_same(bytes from, const Head& head, std::string_view first,
                  std::string_view second = {}) {
  std::vector<std::byte> again(sizeof head + first.size() + second.size());
  CORDMA_REQUIRE(writer(again).put(head, first, second));
  CORDMA_REQUIRE(from.size() >= again.size());
  CORDMA_REQUIRE(std::ranges::equal(from.first(again.size()), again));
}

void read_questions(bytes said) {
  if (const auto h = take_hello(said)) require_same(said, h->head, h->token);
  if (const auto i = take_info(said)) CORDMA_REQUIRE(i->section.size() <= most_section_bytes);
  if (const auto s = take_scan(said)) CORDMA_REQUIRE(s->pattern.size() <= most_pattern_bytes);
  while (!said.empty()) {
    const bytes from = said;
    const auto o = take_operation(said);
    if (!o) break;
    require_same(from, o->head, o->key, o->value);
    CORDMA_REQUIRE(said.size() < from.size());
  }
}

void read_answers(bytes said) {
  for (bytes left = said; !left.empty();) {
    const bytes from = left;
    const auto o = take_outcome(left);
    if (!o) break;
    require_same(from, o->head, o->value);
  }
  for (bytes left = said; !left.empty();) {
    const bytes from = left;
    const auto k = take_key(left);
    if (!k) break;
    CORDMA_REQUIRE(from.size() == left.size() + sizeof(scan_key) + k->key.size());
  }
  bytes blobs = said;
  if (const auto m = take_map(blobs)) {
    CORDMA_REQUIRE(blobs.size() >= std::size_t{m->given} * blob_bytes);
  }
}

kv::keyspace fresh_keys() {
  std::vector<std::unique_ptr<kv::memory_source>> memory;
  for (int i = 0; i < 2; ++i) memory.push_back(std::make_unique<kv::plain_memory>());
  return kv::keyspace(std::move(memory), {.hash_seed = 7});
}

// The first two bytes determine the available space.
void serve(bytes said) {
  const auto room_bytes = take<std::uint16_t>(said);
  if (!room_bytes) return;
  kv::keyspace keys = fresh_keys();
  std::vector<std::byte> room(*room_bytes % most_bytes);
  const executed done = execute(keys, said, room, {.now = now});
  CORDMA_REQUIRE(done.bytes <= room.size());
  bytes answer = bytes(room).first(done.bytes);
  std::size_t results = 0;
  while (!answer.empty()) {
    CORDMA_REQUIRE(take_outcome(answer).has_value());
    ++results;
  }
  CORDMA_REQUIRE(results == done.operations || results == done.operations + 1);  // malformed
  const auto what = take_scan(said);
  if (!what || room.size() < sizeof(scan_response)) return;
  const std::size_t used = scan(keys, *what, room, now);
  bytes page = bytes(room).first(used);
  const auto head = take<scan_response>(page);
  for (std::uint32_t i = 0; i < head->keys; ++i) CORDMA_REQUIRE(take_key(page).has_value());
  CORDMA_REQUIRE(page.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > most_bytes) return 0;
  const bytes said = std::as_bytes(std::span(data, size));
  read_questions(said);
  read_answers(said);
  serve(said);
  return 0;
}
