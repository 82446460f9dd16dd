#include "replay.hpp"

#include <bit>
#include <vector>

namespace kv {
namespace {

constexpr std::size_t swept_at_once = 10'000;

}  // namespace

hashed_key replay::next(std::string_view key) noexcept {
  ++changes_;
  if (cleared_ != 0) clear_parts();
  return into_.key(key);
}

void replay::check(put_outcome outcome) noexcept {
  if (outcome == put_outcome::done) return;
  obstacle_ = "there is no memory for all of it: the machine has less than it takes";
}

void replay::put(std::string_view key, std::string_view value, unix_ms expiry,
                 std::uint64_t version) noexcept {
  const hashed_key k = next(key);
  check(into_.of(k).restore(k, value, expiry, version));
}

void replay::erased(std::string_view key) noexcept {
  const hashed_key k = next(key);
  into_.of(k).erase(k);
}

void replay::expiry_set(std::string_view key, unix_ms expiry) noexcept {
  const hashed_key k = next(key);
  const std::optional<put_outcome> done = into_.of(k).set_expiry(k, expiry);
  if (done) check(*done);
}

// A base may contain a later state of a key: see apps/kv/journal/journal.hpp. The last state in the
// file is right.
void replay::field_put(std::string_view key, std::string_view field,
                       std::string_view value) noexcept {
  const hashed_key k = next(key);
  store& keys = into_.of(k);
  const found there = keys.peek(k);
  if (there && there.is_string()) keys.erase(k);
  check(keys.field_put(k, field, value));
}

void replay::field_erased(std::string_view key, std::string_view field) noexcept {
  const hashed_key k = next(key);
  into_.of(k).field_erase(k, field);
}

void replay::cleared_part(const hash_part& part) noexcept {
  ++changes_;
  const bool another = part.seed != parts_.seed || part.shards != parts_.shards;
  if (cleared_ != 0 && another) clear_parts();
  if (part.shards > keyspace::most_shards) {
    obstacle_ = "it is of a server with more than 64 shards";
    return;
  }
  parts_ = part;
  cleared_ |= std::uint64_t{1} << part.shard;
  if (std::popcount(cleared_) != static_cast<int>(part.shards)) return;
  cleared_ = 0;
  for (std::uint32_t i = 0; i < into_.shards(); ++i) into_.at(i).clear();
}

void replay::clear_parts() noexcept {
  for (std::uint32_t i = 0; i < parts_.shards; ++i) {
    if ((cleared_ >> i & 1) != 0) erase_part({parts_.seed, i, parts_.shards});
  }
  cleared_ = 0;
}

void replay::erase_part(const hash_part& part) noexcept {
  std::vector<std::string> gone;
  for (std::uint32_t i = 0; i < into_.shards(); ++i) {
    store& keys = into_.at(i);
    std::uint32_t cursor = 0;
    do {
      gone.clear();
      cursor = keys.scan(cursor, [&](const found& f) {
        const hashed_key k = hash_key(f.at->key(), part.seed);
        if (shard_of(k.hash, part.shards) == part.shard) gone.emplace_back(k.text);
      });
      for (const std::string& key : gone) keys.erase(keys.key(key));
    } while (cursor != 0);
  }
}

std::uint64_t replay::finish(unix_ms now) noexcept {
  if (cleared_ != 0) clear_parts();
  std::uint64_t expired = 0;
  for (std::uint32_t i = 0; i < into_.shards(); ++i) {
    store& keys = into_.at(i);
    const std::size_t before = keys.size();
    keys.tick(now);
    while (keys.sweep(swept_at_once)) {}
    expired += before - keys.size();
  }
  return expired;
}

}  // namespace kv
