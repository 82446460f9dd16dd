#include "keyspace.hpp"

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/result.hpp>

namespace kv {
namespace {

// the low bits of a cursor are the shard; the shard's cursor is above them
constexpr unsigned shard_bits = 6;
static_assert(keyspace::most_shards == 1U << shard_bits);

}  // namespace

keyspace::keyspace(std::vector<std::unique_ptr<memory_source>> memory, const store_options& options)
    : seed_(options.hash_seed) {
  if (memory.empty() || memory.size() > most_shards) {
    throw cordma::error(
        cordma::failure(cordma::errc::invalid_value, "a keyspace has 1 to 64 shards"));
  }
  for (std::unique_ptr<memory_source>& m : memory) {
    shards_.push_back(std::make_unique<shard>(std::move(m), options));
  }
}

std::size_t keyspace::size_of(unsigned database) const noexcept {
  std::size_t sum = 0;
  for (const std::unique_ptr<shard>& s : shards_) sum += s->keys.size_of(database);
  return sum;
}

std::uint64_t keyspace::scan(std::uint64_t cursor, const std::function<void(const found&)>& each) {
  const auto number = static_cast<std::uint32_t>(cursor & (most_shards - 1));
  if (number >= shards()) return 0;
  const std::uint32_t next =
      at(number).scan(static_cast<std::uint32_t>(cursor >> shard_bits), each);
  if (next != 0) return std::uint64_t{next} << shard_bits | number;
  return number + 1 < shards() ? number + 1 : 0;
}

void keyspace::reader_came() noexcept {
  const std::lock_guard counting(reading_guard_);
  if (reading_++ != 0) return;
  const hold everything(*this, all());
  for (const std::unique_ptr<shard>& s : shards_) s->keys.readers(true);
}

void keyspace::reader_left() noexcept {
  const std::lock_guard counting(reading_guard_);
  if (--reading_ != 0) return;
  const hold everything(*this, all());
  for (const std::unique_ptr<shard>& s : shards_) s->keys.readers(false);
}

store_usage keyspace::usage() const noexcept {
  store_usage sum;
  for (const std::unique_ptr<shard>& s : shards_) {
    const store_usage u = s->keys.usage();
    sum.bytes += u.bytes;
    sum.segments += u.segments;
    sum.live_bytes += u.live_bytes;
    sum.object_bytes += u.object_bytes;
    sum.slab_bytes += u.slab_bytes;
    sum.index_bytes += u.index_bytes;
    sum.quarantined += u.quarantined;
  }
  return sum;
}

keyspace::hold::hold(keyspace& of, std::uint64_t shards) noexcept : of_(of), shards_(shards) {
  CORDMA_REQUIRE(of.shards() != 1 || of.holder_ == std::thread::id() ||
                 of.holder_ == std::this_thread::get_id());
  for (std::uint32_t i = 0; of.shards() != 1 && i < of.shards(); ++i) {
    if ((shards >> i & 1) != 0) of.shards_[i]->guard.lock();
  }
  if (of.listener_ != nullptr) of.listener_->begin_group(shards);
}

keyspace::hold::~hold() {
  if (of_.listener_ != nullptr) of_.listener_->end_group(shards_);
  for (std::uint32_t i = 0; of_.shards() != 1 && i < of_.shards(); ++i) {
    if ((shards_ >> i & 1) != 0) of_.shards_[i]->guard.unlock();
  }
}

}  // namespace kv
