#include "scan.hpp"

#include "../resp/glob.hpp"

#include <algorithm>
#include <cstdint>

namespace kv::native {
namespace {

// Keys of one step of the cursor: all or none.
struct step {
  std::uint64_t next = 0;
  std::uint32_t seen = 0;
  std::uint32_t given = 0;
  std::size_t bytes = 0;  // that they take, or would take
};

step take_step(keyspace& keys, const scan_question& what, std::uint64_t cursor,
               std::span<std::byte> room) {
  step s;
  writer to(room);
  s.next = keys.scan(cursor, [&](const found& f) {
    ++s.seen;
    const std::string_view key = f.at->key();
    if (place_of_key(key).database != 0) return;
    if (!what.pattern.empty() && !matches_glob(what.pattern, key)) return;
    ++s.given;
    s.bytes += sizeof(scan_key) + key.size();
    to.put(scan_key{.key_bytes = static_cast<std::uint16_t>(key.size()),
                    .what = f.is_string() ? kind::string : kind::hash},
           key);
  });
  return s;
}

}  // namespace

std::size_t scan(keyspace& keys, const scan_question& what, std::span<std::byte> room,
                 unix_ms now) {
  const keyspace::hold everything(keys, keys.all());
  for (std::uint32_t i = 0; now != 0 && i < keys.shards(); ++i) keys.at(i).tick(now);
  const std::uint32_t count = std::clamp<std::uint32_t>(what.count, 1, most_scanned);
  scan_response head{.cursor = what.cursor};
  std::size_t used = sizeof head;
  std::uint32_t seen = 0;
  // Visits this number of keys, matching or not, in at most ten times as many buckets.
  for (std::uint32_t buckets = 0; buckets < count * 10 && seen < count; ++buckets) {
    const step s = take_step(keys, what, head.cursor, room.subspan(used));
    if (s.bytes > room.size() - used) {
      if (head.keys == 0) head.needed = static_cast<std::uint32_t>(sizeof head + s.bytes);
      break;
    }
    head.cursor = s.next;
    head.keys += s.given;
    seen += s.seen;
    used += s.bytes;
    if (head.cursor == 0) break;
  }
  writer(room).put(head);
  return used;
}

}  // namespace kv::native
