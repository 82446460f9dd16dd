#include "remote_shard.hpp"

#include "protocol.hpp"

#include <atomic>
#include <bit>
#include <cstring>

namespace kv::native {
namespace {

using cordma::task;

constexpr auto head_lasts = std::chrono::seconds(5);
constexpr auto clock_looked_at_every = std::chrono::milliseconds(50);

}  // namespace

void remote_shard::add(const cordma::RemoteMemory& region) {
  regions_.push_back(region);
  views_.emplace_back();
}

bool remote_shard::find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes,
                        piece& where) const noexcept {
  const std::uint64_t region = segment / segments_per_region;
  if (region >= regions_.size()) return false;
  const std::uint64_t at = segment % segments_per_region * segment_bytes + offset;
  // The last item of a region may end before the units in its slot do.
  const std::uint64_t rest = std::min<std::uint64_t>(region_bytes, regions_[region].size()) - at;
  where = {.region = region, .offset = at, .bytes = std::min(bytes, rest)};
  return at < regions_[region].size();
}

bool remote_shard::find_bucket(std::uint64_t number, std::uint64_t& segment) const noexcept {
  const std::uint64_t chunk = number / buckets_per_segment;
  if (chunk >= index_.size()) return false;
  segment = index_[chunk];
  return true;
}

// Raises the bucket count up to the last bucket split off this one. (So do clients of LH*: Litwin,
// Neimat, Schneider, 1996.)
bool remote_shard::was_split(std::uint64_t number, unsigned depth) noexcept {
  if (depth == 0 || depth > 32) return false;  // no bucket's head
  const std::uint64_t at_least = (std::uint64_t{1} << (depth - 1)) + 1 + number;
  if (number >> (depth - 1) != 0 || at_least <= buckets_) return false;
  buckets_ = at_least;
  return true;
}

bool remote_shard::head_is_old(cordma::time_point now) const noexcept {
  return now - read_at_ > head_lasts;
}

void remote_shard::take_head(const std::byte* at) {
  const auto& head = *reinterpret_cast<const shard_head*>(at);
  if (head.magic != shard_head::expected_magic) {
    throw cordma::error(cordma::failure(cordma::errc::unsupported_version,
                                        "the server's memory is laid out in another way"));
  }
  ++counters_.refreshed;
  read_at_ = loop_->now();
  clock_ = head.clock;
  buckets_ = head.buckets;
  const std::uint64_t chunks = (buckets_ + buckets_per_segment - 1) / buckets_per_segment;
  index_.assign(head.index.begin(),
                head.index.begin() + static_cast<std::ptrdiff_t>(
                                         std::min<std::uint64_t>(chunks, head.index.size())));
}

bool remote_shard::wants_pulse(cordma::time_point now) const noexcept {
  return now - clock_seen_at_ > clock_looked_at_every;
}

// If the clock has moved since the last read, the server was alive then.
void remote_shard::felt_pulse(unix_ms clock, cordma::time_point now) noexcept {
  if (clock != clock_seen_) lived_at(clock_seen_at_);
  clock_seen_ = clock;
  clock_seen_at_ = now;
}

bool remote_shard::is_alive(cordma::time_point now) const noexcept {
  return now - lived_at_ < lease;
}

unix_ms remote_shard::server_time() const noexcept {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - read_at_);
  return clock_ + static_cast<unix_ms>(since.count());
}

// A region that was read once can be mapped, if regions can be mapped at all.
void remote_shard::map_region(std::uint64_t number) {
  if (!mappable_ || views_[number]) return;
  const cordma::RemoteSlice whole = regions_[number];
  cordma::result<cordma::RemoteView> view = via_->view(whole);
  mappable_ = view.code() != cordma::errc::not_supported;
  if (view) views_[number] = std::move(*view);
}

task<void> remote_shard::refresh(cordma::Slice landing) {
  piece head;
  if (!find(0, 0, head_bytes, head)) {
    throw cordma::error(cordma::failure(cordma::errc::bad_state, "the shard has no memory yet"));
  }
  co_await read(head, landing);
  has_read(1);
  map_region(head.region);
  take_head(landing.data());
}

cordma::send_operation remote_shard::read(const piece& p, const cordma::Slice& landing) {
  const cordma::RemoteSlice where = regions_[p.region].slice(p.offset, p.bytes).value();
  return via_->read(where, landing.part(p.lands_at, p.bytes));
}

task<sighting> remote_shard::find_key(hashed_key key, cordma::Slice landing) {
  look l(*this, key, now());
  while (!l.over()) {
    const std::span<const piece> wanted = l.wanted();
    cordma::send_operation first = read(wanted.front(), landing).start();
    if (wanted.size() == 2) co_await read(wanted.back(), landing);
    co_await first;
    has_read(wanted.size());
    for (const piece& p : wanted) map_region(p.region);
    l.take(landing.data());
  }
  co_return l.found();
}

namespace {

// Returns false if not all pieces are mapped.
bool load(look& by, std::byte* landing) {
  for (const piece& p : by.wanted()) {
    const std::span<const std::byte> from = by.in().mapped(p);
    if (from.empty()) return false;
    std::memcpy(landing + p.lands_at, from.data(), from.size());
    // Later loads are not older, and only the copy is checked.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  by.in().has_read(by.wanted().size());
  by.take(landing);
  return true;
}

void fetch(const look& for_whom) noexcept {
  constexpr std::size_t line = 64;
  constexpr std::size_t soon = 4 * line;  // the hardware prefetches the rest, which is sequential
  const std::span<const std::byte> from = for_whom.in().mapped(for_whom.wanted().front());
  for (std::size_t at = 0; at < std::min(from.size(), soon); at += line) {
    __builtin_prefetch(from.data() + at);
  }
}

}  // namespace

bool find_now(std::span<look> looks, std::byte* landings) {
  const bool many = looks.size() > 1;
  if (many) {
    for (const look& l : looks) {
      if (!l.over()) fetch(l);
    }
  }
  for (bool all_over = false; !all_over;) {
    all_over = true;
    for (std::size_t i = 0; i < looks.size(); ++i) {
      look& l = looks[i];
      if (l.over()) continue;
      if (!load(l, landings + i * landing_stride)) return false;
      if (l.over()) continue;
      all_over = false;
      if (many) fetch(l);
    }
  }
  return true;
}

}  // namespace kv::native
