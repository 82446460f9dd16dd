#include "store.hpp"

#include "access.hpp"
#include "checksum.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace kv {
namespace {

// Longer items do not share a segment with others: their value becomes an object.
constexpr std::size_t longest_item = segment_bytes / 16;

std::size_t total(std::span<const std::string_view> pieces) noexcept {
  std::size_t sum = 0;
  for (const std::string_view p : pieces) sum += p.size();
  return sum;
}

char* append(char* to, std::string_view bytes) noexcept {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

std::uint32_t backwards(std::uint32_t bits) noexcept {
  bits = (bits >> 1 & 0x55555555U) | (bits & 0x55555555U) << 1;
  bits = (bits >> 2 & 0x33333333U) | (bits & 0x33333333U) << 2;
  bits = (bits >> 4 & 0x0F0F0F0FU) | (bits & 0x0F0F0F0FU) << 4;
  return __builtin_bswap32(bits);
}

object_pool::number object_of(const item& i) noexcept {
  object_pool::number n = 0;
  std::memcpy(&n, i.stored().data(), sizeof n);
  return n;
}

}  // namespace

store::store(memory_source& memory, const store_options& options)
    : options_(options),
      segments_(memory, options.time != nullptr ? *options.time : cordma::real_clock()),
      head_(make_head()),
      index_(segments_, options.hash_seed),
      dice_(options.hash_seed | 1),
      watched_(0, seeded_hash{options.hash_seed}) {
  update_head();
}

store::~store() = default;

shard_head* store::make_head() {
  const std::optional<std::uint32_t> first = segments_.take(segment_set::use::index);
  if (!first)
    throw cordma::error(cordma::failure(cordma::errc::no_memory, "no memory for a shard"));
  auto* const head = ::new (static_cast<void*>(segments_[*first].base)) shard_head{};
  head->magic = shard_head::expected_magic;
  head->hash_seed = options_.hash_seed;
  head->safe_version = UINT64_MAX;
  return head;
}

void store::update_head() noexcept {
  const std::vector<std::uint32_t>& directory = index_.directory();
  const std::size_t known = std::min(directory.size(), shard_head::most_index_segments);
  for (std::size_t i = 0; i < known; ++i) {
    __atomic_store_n(&head_->index[i], directory[i], __ATOMIC_RELEASE);
  }
  __atomic_store_n(&head_->buckets, index_.buckets(), __ATOMIC_RELEASE);
}

void store::configure(std::size_t max_bytes, eviction policy, unsigned samples) noexcept {
  // The threshold of another policy is meaningless for this one.
  if (policy != options_.policy || max_bytes == 0) cleaning_.threshold = 0;
  options_.max_bytes = max_bytes;
  options_.policy = policy;
  options_.samples = samples;
}

void store::safe_up_to(std::uint64_t version) noexcept {
  __atomic_store_n(&head_->safe_version, version, __ATOMIC_RELEASE);
}

void store::tick(unix_ms now) noexcept {
  // No store of this name assigns a version twice. A previous store assigned at most one version in
  // a nanosecond, so even its versions that were lost are lower.
  constexpr unsigned versions_per_ms_bits = 20;
  if (now_ == 0) version_ = std::max(version_, now << versions_per_ms_bits);
  now_ = now;
  __atomic_store_n(&head_->clock, now, __ATOMIC_RELAXED);
  segments_.tick();
}

void store::prefetch_bucket(const hashed_key& k) const noexcept { index_.prefetch(k.hash); }
void store::prefetch_item(const hashed_key& k) const noexcept { index_.prefetch_items(k); }

std::uint32_t store::dice() noexcept {  // xorshift64*
  dice_ ^= dice_ >> 12;
  dice_ ^= dice_ << 25;
  dice_ ^= dice_ >> 27;
  return static_cast<std::uint32_t>(dice_ * 0x2545F4914F6CDD1D >> 32);
}

found store::look(const item& i) noexcept {
  switch (i.kind()) {
    case value_kind::string: return {.at = &i, .value = i.stored(), .fields = nullptr};
    case value_kind::blob:
      return {.at = &i, .value = objects_.blob(object_of(i)), .fields = nullptr};
    case value_kind::hash: break;
  }
  return {.at = &i, .value = {}, .fields = &objects_.hash(object_of(i))};
}

std::uint64_t* store::find_live(const hashed_key& k) noexcept {
  std::uint64_t* const s = index_.find(k);
  if (s == nullptr || !expired(at(*s))) return s;
  if (keeps_expired_) return nullptr;
  ++counters_.expired;
  erase_at(*s);
  return nullptr;
}

void store::touch(item& i) noexcept {
  const bool counts = counts_uses(options_.policy);
  const std::uint32_t used = access_clock::used(i.access, now_, counts, counts ? dice() : 0);
  if (used != i.access) __atomic_store_n(&i.access, used, __ATOMIC_RELAXED);
}

found store::find(const hashed_key& k) noexcept {
  std::uint64_t* const s = find_live(k);
  if (s == nullptr) {
    ++counters_.misses;
    return {};
  }
  ++counters_.hits;
  item& i = at(*s);
  touch(i);
  return look(i);
}

bool store::contains(const hashed_key& k) noexcept {
  const bool there = find_live(k) != nullptr;
  ++(there ? counters_.hits : counters_.misses);
  return there;
}

found store::peek(const hashed_key& k) noexcept {
  std::uint64_t* const s = find_live(k);
  return s == nullptr ? found() : look(at(*s));
}

put_outcome store::put(const hashed_key& k, std::span<const std::string_view> pieces,
                       unix_ms expiry, at_limit then) {
  return put_pieces(k, {.pieces = pieces,
                        .bytes = total(pieces),
                        .expiry = expiry,
                        .version = version_ + 1,
                        .then = then});
}

put_outcome store::restore(const hashed_key& k, std::string_view value, unix_ms expiry,
                           std::uint64_t version) {
  version_ = std::max(version_, version);
  return put_pieces(k, {.pieces = std::span(&value, 1),
                        .bytes = value.size(),
                        .expiry = expiry,
                        .version = version,
                        .then = at_limit::exceeded});
}

put_outcome store::put_pieces(const hashed_key& k, content c) {
  CORDMA_REQUIRE_OP(k.text.size(), <=, max_key_bytes);
  CORDMA_REQUIRE_OP(c.bytes, <=, max_value_bytes);
  const std::size_t bytes = c.item_bytes(k);
  if (bytes > longest_item) return put_blob(k, c);
  std::string_view copied;
  if (!fits(fresh_, bytes) || over_limit()) {
    // Freeing space overwrites evicted items, and the pieces may point into one.
    scratch_.resize(c.bytes);
    char* to = scratch_.data();
    for (const std::string_view p : c.pieces) to = append(to, p);
    copied = scratch_;
    c.pieces = std::span(&copied, 1);
  }
  if (!room_for_item(bytes, c.then)) return put_outcome::out_of_memory;
  const put_outcome done = publish(k, c);
  if (cleaning_.segment != none) clean_ahead();
  return done;
}

put_outcome store::put_blob(const hashed_key& k, content c) {
  const content as_number{.pieces = {}, .bytes = sizeof(object_pool::number), .expiry = c.expiry};
  if (c.then == at_limit::refused && !beyond_limit_ &&
      !has_room_for_blob(as_number.item_bytes(k), c.bytes)) {
    ++counters_.refused;
    return put_outcome::out_of_memory;
  }
  object_pool::number n = 0;
  try {
    char* to = nullptr;
    std::tie(n, to) = objects_.make_blob(c.bytes);
    for (const std::string_view p : c.pieces) to = append(to, p);
  } catch (const std::bad_alloc&) {
    ++counters_.refused;
    return put_outcome::out_of_memory;
  }
  const std::string_view number(reinterpret_cast<const char*>(&n), sizeof n);
  c.kind = value_kind::blob;
  c.pieces = std::span(&number, 1);
  c.bytes = sizeof n;
  const put_outcome done =
      room_for_item(c.item_bytes(k), c.then) ? publish(k, c) : put_outcome::out_of_memory;
  if (done != put_outcome::done) objects_.release(n, freeing::at_once);
  return done;
}

std::optional<place> store::allocate(std::uint32_t segment, std::size_t bytes) noexcept {
  if (!fits(segment, bytes)) return std::nullopt;
  segment_set::segment& s = segments_[segment];
  const place where = segment * granules_per_segment + s.used / granule;
  s.used += static_cast<std::uint32_t>(bytes);
  used_bytes_ += bytes;
  return where;
}

void store::fill(place where, const hashed_key& k, const content& c,
                 std::uint32_t access) noexcept {
  item& i = segments_.item_at(where);
  const bool expires = c.expiry != never_expires;
  i.access = access;
  i.version = c.version;
  i.value_bytes = static_cast<std::uint32_t>(c.bytes);
  i.key_bytes = static_cast<std::uint16_t>(k.text.size());
  i.flags = static_cast<std::uint8_t>(static_cast<unsigned>(c.kind) |
                                      (expires ? item::flag_expires : 0U));
  i.unused = 0;
  char* to = reinterpret_cast<char*>(&i + 1);
  if (expires) to = append(to, {reinterpret_cast<const char*>(&c.expiry), sizeof c.expiry});
  to = append(to, k.text);
  for (const std::string_view p : c.pieces) to = append(to, p);
  i.crc = item_checksum(i, where);
}

// Counts an item that is present now.
void store::appeared(place where) noexcept {
  const item& i = segments_.item_at(where);
  segment_set::segment& s = segments_.of(where);
  s.live += static_cast<std::uint32_t>(i.bytes());
  live_bytes_ += i.bytes();
  counted& in = in_[place_of_key(i.key()).database];
  ++in.items;
  if (!i.expires()) return;
  ++in.expiring;
  ++volatile_items_;
  s.earliest = s.earliest == never_expires ? i.expiry() : std::min(s.earliest, i.expiry());
}

// The old item is marked dead before the new one can be found. A peer that has seen the new one,
// and reads the remembered position again, must not see the old one.
put_outcome store::publish(const hashed_key& k, const content& c) {
  std::uint64_t* s = index_.find(k);
  const bool is_new = s == nullptr;
  if (is_new) s = index_.make_slot(k);
  const std::optional<place> where = allocate(fresh_, c.item_bytes(k));
  CORDMA_ASSERT(where);
  if (s == nullptr) {  // a dead item occupies the position
    fill(*where, k, c, 0);
    segments_.item_at(*where).flags |= item::flag_dead;
    ++counters_.refused;
    return put_outcome::out_of_memory;
  }
  const bool counts = counts_uses(options_.policy);
  std::uint32_t access = access_clock::fresh(now_, counts);
  if (counts && !is_new) access = at(*s).access;
  fill(*where, k, c, access);
  appeared(*where);
  version_ = std::max(version_, c.version);
  if (!is_new) {
    const item& old = at(*s);
    const bool same_object = old.kind() != value_kind::string && old.kind() == c.kind &&
                             object_of(old) == object_of(segments_.item_at(*where));
    if (!same_object) release_object(old);
    mark_dead(slot::where(*s));
  }
  item_index::publish(*s, slot::make(k.tag(), *where, c.item_bytes(k)));
  ++counters_.puts;
  if (is_new) {
    recent_keys& r = recent_[place_of_key(k.text).database];
    r.keys[r.next++ % r.keys.size()] = {k.hash, *where};
  }
  if (is_new && index_.grow(++items_) != 0) {
    ++counters_.splits;
    update_head();
  }
  noticed(k.text);
  if (sink_ != nullptr && c.kind != value_kind::hash) {
    sink_->put(k.text, look(segments_.item_at(*where)).value, c.expiry, c.version);
  }
  return put_outcome::done;
}

void store::mark_dead(place where) noexcept {
  item& i = segments_.item_at(where);
  const std::uint32_t number = static_cast<std::uint32_t>(where / granules_per_segment);
  segment_set::segment& s = segments_[number];
  __atomic_fetch_or(&i.flags, item::flag_dead, __ATOMIC_RELEASE);
  s.live -= static_cast<std::uint32_t>(i.bytes());
  live_bytes_ -= i.bytes();
  counted& in = in_[place_of_key(i.key()).database];
  --in.items;
  if (i.expires()) {
    --volatile_items_;
    --in.expiring;
  }
  if (s.live == 0 && !s.open && number != cleaning_.segment) retire(number);
}

void store::retire(std::uint32_t number) noexcept {
  used_bytes_ -= segments_[number].used;
  if (sweeping_.segment == number) sweeping_ = {};
  const std::chrono::milliseconds rest(readers_ ? options_.quarantine_ms : 0);
  segments_.give_up(number, rest);
}

void store::release_object(const item& i, freeing when) noexcept {
  if (i.kind() != value_kind::string) objects_.release(object_of(i), when);
}

void store::erase_at(std::uint64_t& s, freeing when) noexcept {
  const item& i = at(s);
  const place where = slot::where(s);
  noticed(i.key());
  if (sink_ != nullptr) sink_->erased(i.key());
  release_object(i, when);
  mark_dead(where);
  item_index::publish(s, 0);
  --items_;
}

bool store::erase(const hashed_key& k, freeing when) noexcept {
  std::uint64_t* const s = find_live(k);
  if (s == nullptr) return false;
  erase_at(*s, when);
  return true;
}

std::optional<put_outcome> store::set_expiry(const hashed_key& k, unix_ms expiry) {
  std::uint64_t* s = find_live(k);
  if (s == nullptr) return std::nullopt;
  if (at(*s).expiry() == expiry) {
    if (expiry != never_expires) noticed(k.text);  // Redis counts it as a change
    return put_outcome::done;
  }
  if (expiry != never_expires && expiry <= now_) {
    erase_at(*s);
    return put_outcome::done;
  }
  content c{.kind = at(*s).kind(),
            .pieces = {},
            .bytes = at(*s).value_bytes,
            .expiry = expiry,
            .version = version_ + 1};
  if (!room_for_item(c.item_bytes(k), at_limit::exceeded)) return put_outcome::out_of_memory;
  s = index_.find(k);  // freeing space may have moved or evicted it
  if (s == nullptr) return std::nullopt;
  const std::string_view value = at(*s).stored();
  c.pieces = std::span(&value, 1);
  change_sink* const sink = std::exchange(sink_, nullptr);
  const put_outcome done = publish(k, c);
  sink_ = sink;
  if (done == put_outcome::done && sink_ != nullptr) sink_->expiry_set(k.text, expiry);
  return done;
}

std::optional<put_outcome> store::rename(const hashed_key& from, const hashed_key& to) {
  std::uint64_t* s = find_live(from);
  CORDMA_REQUIRE(s != nullptr && at(*s).kind() != value_kind::string);
  content c{.kind = at(*s).kind(),
            .pieces = {},
            .bytes = at(*s).value_bytes,
            .expiry = at(*s).expiry(),
            .version = version_ + 1};
  if (!room_for_item(c.item_bytes(to), at_limit::exceeded)) return put_outcome::out_of_memory;
  s = index_.find(from);  // freeing space may have moved or evicted it
  if (s == nullptr) return std::nullopt;
  erase(to);
  const std::string_view number = at(*s).stored();
  c.pieces = std::span(&number, 1);
  if (publish(to, c) != put_outcome::done) return put_outcome::out_of_memory;
  s = index_.find(from);  // the index may have grown
  noticed(from.text);
  if (sink_ != nullptr) sink_->erased(from.text);
  mark_dead(slot::where(*s));
  item_index::publish(*s, 0);
  --items_;
  if (c.kind == value_kind::hash) report_hash(to);
  return put_outcome::done;
}

// Reports all fields of a hash as changes. If the content of changes is not recorded, it counts as
// one change.
void store::report_hash(const hashed_key& k) noexcept {
  if (sink_ == nullptr) return;
  if (!sink_->notes()) return sink_->field_put(k.text, {}, {});
  const item& i = at(*index_.find(k));
  const hash_value& fields = objects_.hash(object_of(i));
  fields.for_each([&](const hash_value::entry& e) { sink_->field_put(k.text, e.field, e.value); });
  if (i.expires()) sink_->expiry_set(k.text, i.expiry());
}

put_outcome store::field_put(const hashed_key& k, std::string_view field, std::string_view value,
                             bool* is_new) {
  std::uint64_t* s = find_live(k);
  bool added = false;
  try {
    if (s == nullptr) {
      const object_pool::number n = objects_.make_hash(options_.hash_seed);
      const std::string_view number(reinterpret_cast<const char*>(&n), sizeof n);
      const content c{.kind = value_kind::hash,
                      .pieces = std::span(&number, 1),
                      .bytes = sizeof n,
                      .version = version_ + 1};
      if (!room_for_item(c.item_bytes(k), at_limit::exceeded) ||
          publish(k, c) != put_outcome::done) {
        objects_.release(n, freeing::at_once);
        return put_outcome::out_of_memory;
      }
      s = index_.find(k);
    }
    const item& i = at(*s);
    CORDMA_REQUIRE(i.kind() == value_kind::hash);
    hash_value& fields = objects_.hash(object_of(i));
    const std::size_t before = fields.bytes();
    added = fields.put(field, value);
    objects_.resized(before, fields.bytes());
  } catch (const std::bad_alloc&) {
    ++counters_.refused;
    return put_outcome::out_of_memory;
  }
  if (is_new != nullptr) *is_new = added;
  noticed(k.text);
  if (sink_ != nullptr) sink_->field_put(k.text, field, value);
  return put_outcome::done;
}

bool store::field_erase(const hashed_key& k, std::string_view field) noexcept {
  std::uint64_t* const s = find_live(k);
  if (s == nullptr || at(*s).kind() != value_kind::hash) return false;
  hash_value& fields = objects_.hash(object_of(at(*s)));
  const std::size_t before = fields.bytes();
  if (!fields.erase(field)) return false;
  objects_.resized(before, fields.bytes());
  if (sink_ != nullptr) sink_->field_erased(k.text, field);
  if (fields.size() == 0) {
    erase_at(*s);
  } else {
    noticed(k.text);
  }
  return true;
}

void store::clear(freeing when) noexcept {
  for (auto& [text, w] : watched_) {
    if (index_.find(key(text)) != nullptr) ++w.changes;
  }
  for (std::uint32_t n = 0; n < segments_.count(); ++n) {
    if (segments_[n].is == segment_set::use::items) retire(n);
  }
  fresh_ = kept_ = none;
  cleaning_ = sweeping_ = {};
  live_bytes_ = used_bytes_ = items_ = volatile_items_ = 0;
  in_ = {};
  objects_.clear(when);
  index_.clear(readers_ ? read_by::peers : read_by::nobody);
  recent_ = {};
  update_head();
  __atomic_store_n(&head_->generation, head_->generation + 1, __ATOMIC_RELEASE);
  if (sink_ != nullptr) sink_->cleared();
}

std::uint32_t store::scan(std::uint32_t cursor, const std::function<void(const found&)>& each,
                          scanned which) {
  // Buckets are visited in the order of their reversed low bits: both halves of a split bucket stay
  // on the same side of the cursor.
  const std::uint64_t number = bucket_of(cursor, index_.buckets());
  index_.each_of(number, [&](std::uint64_t s) {
    if (which == scanned::all || !expired(at(s))) each(look(at(s)));
  });
  const unsigned depth = index_.depth(number);
  const std::uint32_t beyond = depth < 32 ? ~std::uint32_t{0} << depth : 0;
  return backwards(backwards(cursor | beyond) + 1);
}

const item* store::random() noexcept {
  constexpr std::uint64_t most_buckets = 64;  // limit for an index that was much fuller before
  if (items_ == 0) return nullptr;
  const std::uint64_t buckets = index_.buckets();
  const std::uint64_t start = dice() % buckets;
  for (std::uint64_t n = 0; n < std::min(buckets, most_buckets); ++n) {
    const item* chosen = nullptr;
    unsigned seen = 0;
    index_.each_of((start + n) % buckets, [&](std::uint64_t s) {
      if (!expired(at(s)) && dice() % ++seen == 0) chosen = &at(s);
    });
    if (chosen != nullptr) return chosen;
  }
  // Chooses a random live byte and then any item of its segment: a segment has thousands.
  std::uint64_t byte = (std::uint64_t{dice()} << 32 | dice()) % live_bytes_;
  std::uint32_t first = 0;
  for (; first < segments_.count(); ++first) {
    const segment_set::segment& s = segments_[first];
    if (s.is != segment_set::use::items) continue;
    if (byte < s.live) break;
    byte -= s.live;
  }
  for (std::uint32_t n = 0; n < segments_.count(); ++n) {
    const item* const chosen = random_in((first + n) % segments_.count());
    if (chosen != nullptr) return chosen;
  }
  return nullptr;
}

const item* store::random(unsigned database) noexcept {
  constexpr int tries = 64;
  constexpr std::uint64_t few_buckets = 4096;
  if (in_[database].items == 0) return nullptr;
  for (int i = 0; i < tries; ++i) {
    const item* const one = random();
    if (one == nullptr || place_of_key(one->key()).database == database) return one;
  }
  const std::uint64_t buckets = index_.buckets();
  const std::uint64_t start = (std::uint64_t{dice()} << 32 | dice()) % buckets;
  for (std::uint64_t n = 0; n < buckets; ++n) {
    const item* chosen = n == few_buckets ? recent(database) : nullptr;
    if (chosen == nullptr) chosen = any_of((start + n) % buckets, database);
    if (chosen != nullptr) return chosen;
  }
  return nullptr;
}

// Returns null if the bucket has no such item.
const item* store::any_of(std::uint64_t number, unsigned database) noexcept {
  const item* chosen = nullptr;
  unsigned seen = 0;
  index_.each_of(number, [&](std::uint64_t s) {
    const item& i = at(s);
    if (expired(i) || place_of_key(i.key()).database != database) return;
    if (dice() % ++seen == 0) chosen = &i;
  });
  return chosen;
}

// Returns null if all recently added items were erased or moved.
const item* store::recent(unsigned database) noexcept {
  const recent_keys& r = recent_[database];
  const std::size_t first = dice();
  for (std::size_t n = 0; n < r.keys.size(); ++n) {
    const recent_keys::entry& e = r.keys[(first + n) % r.keys.size()];
    if (e.where == 0 || index_.find(e.hash, e.where) == nullptr) continue;
    const item& i = segments_.item_at(e.where);
    // Another key of the same bucket may be stored there now.
    if (!expired(i) && place_of_key(i.key()).database == database) return &i;
  }
  return nullptr;
}

// Returns null if the segment has no live, unexpired item.
const item* store::random_in(std::uint32_t segment) noexcept {
  if (segments_[segment].is != segment_set::use::items || segments_[segment].live == 0) {
    return nullptr;
  }
  const item* chosen = nullptr;
  unsigned seen = 0;
  walk w{.segment = segment};
  while (const place where = next_of(w)) {
    const item& i = segments_.item_at(where);
    if (!expired(i) && dice() % ++seen == 0) chosen = &i;
  }
  return chosen;
}

void store::noticed(std::string_view key) noexcept {
  if (watched_.empty()) return;
  const auto at = watched_.find(key);
  if (at != watched_.end()) ++at->second.changes;
}

std::uint64_t store::watch(const hashed_key& k) {
  watched& w = watched_[std::string(k.text)];
  ++w.watchers;
  return w.changes;
}

void store::unwatch(const hashed_key& k) noexcept {
  const auto at = watched_.find(k.text);
  if (at != watched_.end() && --at->second.watchers == 0) watched_.erase(at);
}

std::uint64_t store::changes(const hashed_key& k) const noexcept {
  const auto at = watched_.find(k.text);
  return at == watched_.end() ? 0 : at->second.changes;
}

std::uint64_t store::idle_seconds(const item& i) const noexcept {
  return counts_uses(options_.policy) ? 0 : access_clock::seconds(now_) - i.access;
}

unsigned store::frequency(const item& i) const noexcept {
  return access_clock::count(i.access, now_);
}

store_usage store::usage() const noexcept {
  return {.bytes = held_bytes(),
          .segments = segments_.taken() - segments_.resting(),
          .live_bytes = live_bytes_,
          .object_bytes = objects_.bytes(),
          .slab_bytes = objects_.slab_bytes(),
          .index_bytes = index_.bytes(),
          .quarantined = segments_.resting()};
}

}  // namespace kv
