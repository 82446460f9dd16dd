// store: one shard. Keys and values are in segments that peers may read; buckets of one cache line
// each index them.
#pragma once

#include "change_sink.hpp"
#include "hash_value.hpp"
#include "index.hpp"
#include "item.hpp"
#include "key.hpp"
#include "memory_source.hpp"
#include "objects.hpp"
#include "policy.hpp"
#include "segments.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kv {

struct store_options {
  std::uint64_t hash_seed = 0;
  std::size_t max_bytes = 0;  // 0: no limit
  eviction policy = eviction::none;
  unsigned samples = 64;  // items examined to find the least valuable ones
  // While readers() is set, a released position is not reused for this long: the maximum duration
  // of a one-sided read.
  std::uint32_t quarantine_ms = 1000;
  cordma::clock* time = nullptr;  // clock for the quarantine; null: the real one
};

struct store_counters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t puts = 0;
  std::uint64_t expired = 0;  // found expired, or swept
  std::uint64_t evicted = 0;
  std::uint64_t moved = 0;    // items copied to make room
  std::uint64_t splits = 0;   // of buckets
  std::uint64_t refused = 0;  // puts refused for lack of memory
};

struct store_usage {
  std::size_t bytes = 0;         // total: limited by max_bytes
  std::size_t segments = 0;      // of segment_bytes each, including the index
  std::size_t live_bytes = 0;    // items that can be found
  std::size_t object_bytes = 0;  // hashes and long strings
  std::size_t slab_bytes = 0;    // slabs of small hashes, including free space
  std::size_t index_bytes = 0;
  std::size_t quarantined = 0;  // segments
};

// The content of a key. Valid until the store's next change or tick().
struct found {
  const item* at = nullptr;
  std::string_view value;        // of a string, wherever it is stored
  hash_value* fields = nullptr;  // of a hash
  [[nodiscard]] explicit operator bool() const noexcept { return at != nullptr; }
  [[nodiscard]] bool is_string() const noexcept { return fields == nullptr; }
};

enum class put_outcome : std::uint8_t {
  done,
  // max_bytes is reached and nothing may be evicted, or the machine has no memory left
  out_of_memory,
};

// What happens if max_bytes has no space for a change: `refused` fails; `exceeded` fails only if
// the machine has no memory.
enum class at_limit : std::uint8_t { refused, exceeded };

// Not thread-safe: the caller must hold the shard. The time is the last tick()'s, except for the
// quarantine, which uses a clock that never jumps.
class store {
 public:
  // Throws cordma::error: no_memory.
  store(memory_source& memory, const store_options& options = {});
  ~store();
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  void configure(std::size_t max_bytes, eviction policy, unsigned samples = 64) noexcept;
  [[nodiscard]] unsigned samples() const noexcept { return options_.samples; }
  void report_to(change_sink* sink) noexcept { sink_ = sink; }
  // Sets the time and makes released positions available after their quarantine. Once per pass of
  // the loop.
  void tick(unix_ms now) noexcept;
  [[nodiscard]] unix_ms now() const noexcept { return now_; }
  [[nodiscard]] hashed_key key(std::string_view text) const noexcept {
    return hash_key(text, options_.hash_seed);
  }

  // Prefetches memory that find() will read: first all buckets of a batch, then all items.
  void prefetch_bucket(const hashed_key& k) const noexcept;
  void prefetch_item(const hashed_key& k) const noexcept;

  // Counts as a use, and as a hit or miss. Erases an expired key and does not return it.
  [[nodiscard]] found find(const hashed_key& k) noexcept;
  // Counts as a hit or miss, but not as a use.
  [[nodiscard]] bool contains(const hashed_key& k) noexcept;
  // Counts neither as a use nor as a hit or miss.
  [[nodiscard]] found peek(const hashed_key& k) noexcept;

  // Sets the key's value to the concatenated pieces and replaces any old value. The pieces may be
  // views into the store, such as the key's own value. REQUIRES key and value within max_key_bytes
  // and max_value_bytes.
  [[nodiscard]] put_outcome put(const hashed_key& k, std::span<const std::string_view> pieces,
                                unix_ms expiry = never_expires, at_limit then = at_limit::refused);
  [[nodiscard]] put_outcome put(const hashed_key& k, std::string_view value,
                                unix_ms expiry = never_expires, at_limit then = at_limit::refused) {
    return put(k, std::span(&value, 1), expiry, then);
  }
  // For loading: like put() beyond the limit. The item gets `version`; versions assigned later are
  // above it.
  [[nodiscard]] put_outcome restore(const hashed_key& k, std::string_view value, unix_ms expiry,
                                    std::uint64_t version);
  // Returns true if the key existed.
  bool erase(const hashed_key& k, freeing when = freeing::at_once) noexcept;
  // Returns nothing if the key does not exist. never_expires removes the expiry. A time in the past
  // erases the key. Not refused at the limit. The key then has a new version, as after every change
  // visible to others.
  [[nodiscard]] std::optional<put_outcome> set_expiry(const hashed_key& k, unix_ms expiry);

  // Evicts keys that the policy allows until `more_bytes` fit within the limit. If they can never
  // fit, nothing is evicted. Called before a command that runs completely, even beyond the limit,
  // or not at all.
  [[nodiscard]] put_outcome make_room(std::size_t more_bytes = 0);
  // While on, nothing is refused at the limit: for the rest of a command that has begun and must
  // complete.
  void go_beyond_limit(bool on) noexcept { beyond_limit_ = on; }
  // Size of a string's item, or slightly less.
  [[nodiscard]] static std::size_t bytes_of(std::string_view key, std::string_view value) noexcept {
    return (sizeof(item) + key.size() + value.size() + granule - 1) / granule * granule;
  }
  // Hashes. field_put() creates the hash if the key does not exist. REQUIRES that the key holds no
  // string. Not refused at the limit. No key is evicted for a field of an existing hash, so that a
  // command of many fields finds all of them at its end: call make_room() first.
  [[nodiscard]] put_outcome field_put(const hashed_key& k, std::string_view field,
                                      std::string_view value, bool* is_new = nullptr);
  // Erases the key with its last field.
  bool field_erase(const hashed_key& k, std::string_view field) noexcept;

  void clear(freeing when = freeing::at_once) noexcept;
  // Frees up to `most` fields and objects that were released for later. Returns true if there are
  // more.
  bool free_some(std::size_t most) noexcept { return objects_.free_some(most); }
  [[nodiscard]] std::size_t size() const noexcept { return items_; }
  [[nodiscard]] std::size_t volatile_size() const noexcept { return volatile_items_; }
  // The same for one database.
  [[nodiscard]] std::size_t size_of(unsigned database) const noexcept {
    return in_[database].items;
  }
  [[nodiscard]] std::size_t volatile_size_of(unsigned database) const noexcept {
    return in_[database].expiring;
  }

  // Renames an object (a hash or a string too long for a segment) and erases the old content of
  // `to`. Returns nothing if the object was evicted while space was freed. REQUIRES that `from`
  // holds an object, and that the keys differ. Not refused at the limit.
  [[nodiscard]] std::optional<put_outcome> rename(const hashed_key& from, const hashed_key& to);

  // Visits the keys of some buckets from `cursor` on (0: the start). Returns the next cursor, or 0
  // at the end. Every key that exists throughout is visited at least once, whatever else changes
  // between the calls; some are visited twice. `each` must not change the store. Expired keys are
  // visited only with scanned::all.
  enum class scanned : std::uint8_t { living, all };
  std::uint32_t scan(std::uint32_t cursor, const std::function<void(const found&)>& each,
                     scanned which = scanned::living);
  // Returns null if there is none.
  [[nodiscard]] const item* random() noexcept;
  // Of one database. If its keys are few among many, recently added ones are more likely.
  [[nodiscard]] const item* random(unsigned database) noexcept;

  // While on, expired keys are not found, but lookups do not erase them.
  void keep_expired(bool on) noexcept { keeps_expired_ = on; }

  // Erases expired keys while it examines about `most_items` items. Returns true if there is more
  // to do now.
  bool sweep(std::size_t most_items) noexcept;

  // If too many bytes of the segments are dead, moves up to `most_items` items out of segments with
  // mostly dead items, which become spare. Evicts no key. Returns true if there is more to do now.
  bool tidy(std::size_t most_items);

  // WATCH. The number changes with each change of the key while it is watched. REQUIRES one
  // unwatch() for each watch().
  [[nodiscard]] std::uint64_t watch(const hashed_key& k);
  void unwatch(const hashed_key& k) noexcept;
  [[nodiscard]] std::uint64_t changes(const hashed_key& k) const noexcept;

  // For OBJECT: seconds since the last use; frequency of use, as a logarithm (policies that count).
  [[nodiscard]] std::uint64_t idle_seconds(const item& i) const noexcept;
  [[nodiscard]] unsigned frequency(const item& i) const noexcept;

  // Highest version that one-sided readers may rely on; UINT64_MAX, the initial value: all
  // versions.
  void safe_up_to(std::uint64_t version) noexcept;

  // While true, released positions are quarantined for quarantine_ms.
  void readers(bool some) noexcept { readers_ = some; }

  [[nodiscard]] const store_counters& counters() const noexcept { return counters_; }
  [[nodiscard]] store_usage usage() const noexcept;
  [[nodiscard]] std::uint64_t last_version() const noexcept { return version_; }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  // Content of an item: a string's pieces, or an object's number.
  struct content {
    value_kind kind = value_kind::string;
    std::span<const std::string_view> pieces;
    std::size_t bytes = 0;  // of the pieces
    unix_ms expiry = never_expires;
    std::uint64_t version = 0;
    at_limit then = at_limit::refused;
    [[nodiscard]] std::size_t item_bytes(const hashed_key& k) const noexcept {
      return (sizeof(item) + (expiry != never_expires ? sizeof expiry : 0) + k.text.size() + bytes +
              granule - 1) /
             granule * granule;
    }
  };
  // Position of a walk through the items of a segment.
  struct walk {
    std::uint32_t segment = none;
    std::uint32_t offset = 0;
    std::uint64_t threshold = 0;       // cleaning: less valuable items are evicted
    unix_ms earliest = never_expires;  // sweeping: of the remaining items
  };
  struct counted {
    std::size_t items = 0;
    std::size_t expiring = 0;
  };
  // Recently added keys of a database: their positions and hashes.
  struct recent_keys {
    struct entry {
      std::uint64_t hash = 0;
      place where = 0;
    };
    std::array<entry, 8> keys{};
    std::size_t next = 0;
  };
  struct watched {
    std::uint64_t watchers = 0;
    std::uint64_t changes = 0;
  };

  [[nodiscard]] shard_head* make_head();
  void update_head() noexcept;
  [[nodiscard]] item& at(std::uint64_t s) const noexcept {
    return segments_.item_at(slot::where(s));
  }
  [[nodiscard]] bool expired(const item& i) const noexcept {
    return i.expires() && i.expiry() <= now_;
  }
  [[nodiscard]] found look(const item& i) noexcept;
  // Returns null if the key does not exist. Erases an expired key.
  [[nodiscard]] std::uint64_t* find_live(const hashed_key& k) noexcept;
  [[nodiscard]] put_outcome put_pieces(const hashed_key& k, content c);
  [[nodiscard]] put_outcome put_blob(const hashed_key& k, content c);
  // REQUIRES that the item fits the current segment.
  [[nodiscard]] put_outcome publish(const hashed_key& k, const content& c);
  [[nodiscard]] std::optional<place> allocate(std::uint32_t segment, std::size_t bytes) noexcept;
  void fill(place where, const hashed_key& k, const content& c, std::uint32_t access) noexcept;
  void appeared(place where) noexcept;
  void mark_dead(place where) noexcept;
  void erase_at(std::uint64_t& s, freeing when = freeing::at_once) noexcept;
  void release_object(const item& i, freeing when = freeing::at_once) noexcept;
  void retire(std::uint32_t segment) noexcept;
  void noticed(std::string_view key) noexcept;
  void report_hash(const hashed_key& k) noexcept;
  void touch(item& i) noexcept;
  [[nodiscard]] std::uint32_t dice() noexcept;
  [[nodiscard]] const item* random_in(std::uint32_t segment) noexcept;
  [[nodiscard]] const item* any_of(std::uint64_t bucket, unsigned database) noexcept;
  [[nodiscard]] const item* recent(unsigned database) noexcept;

  // Freeing space: room.cpp.
  [[nodiscard]] std::size_t held_bytes() const noexcept {
    return (segments_.taken() - segments_.resting()) * segment_bytes + objects_.bytes();
  }
  [[nodiscard]] bool fits(std::uint32_t segment, std::size_t bytes) const noexcept {
    return segment != none && segments_[segment].used + bytes <= segment_bytes;
  }
  [[nodiscard]] bool over_limit() const noexcept { return held_bytes() > limit(); }
  [[nodiscard]] std::size_t limit() const noexcept {
    return options_.max_bytes != 0 ? options_.max_bytes : SIZE_MAX;
  }
  // Limit of cleanings without a gain: every segment once, and the items moved while they were
  // emptied.
  [[nodiscard]] std::size_t most_rounds() const noexcept {
    return 2 * std::size_t{segments_.count()} + 2;
  }
  [[nodiscard]] bool may_give_up() const noexcept;
  [[nodiscard]] bool crowded(std::size_t more_item_bytes,
                             std::size_t more_object_bytes) const noexcept;
  [[nodiscard]] bool never_fits(std::size_t bytes) const noexcept;
  [[nodiscard]] bool has_room_for_blob(std::size_t item_bytes, std::size_t bytes) const noexcept;
  [[nodiscard]] bool room_for(std::size_t more_bytes);
  [[nodiscard]] bool room_for_item(std::size_t bytes, at_limit then);
  [[nodiscard]] bool room_within_limit(std::size_t bytes);
  [[nodiscard]] bool go_on_in_kept(std::size_t bytes) noexcept;
  [[nodiscard]] bool open_next(std::uint32_t& segment);
  void close(std::uint32_t segment) noexcept;
  [[nodiscard]] bool is_wasteful() const noexcept;
  [[nodiscard]] bool room_is_short() const noexcept;
  void clean_ahead();
  [[nodiscard]] bool close_segments() noexcept;
  [[nodiscard]] bool clean_one();
  [[nodiscard]] bool begin_cleaning();
  [[nodiscard]] bool clean(std::size_t most_items);
  [[nodiscard]] bool move(std::uint64_t& s);
  [[nodiscard]] std::size_t waste(const segment_set::segment& s) const noexcept;
  [[nodiscard]] std::uint32_t emptiest() const noexcept;
  [[nodiscard]] std::uint32_t next_in_turn() noexcept;
  [[nodiscard]] std::uint64_t worth(const item& i) noexcept;
  [[nodiscard]] std::uint64_t least_worth_kept() noexcept;
  // The next item that is not dead; 0 at the segment's end.
  [[nodiscard]] place next_of(walk& w) const noexcept;
  [[nodiscard]] std::uint32_t next_with_expired() const noexcept;

  store_options options_;
  change_sink* sink_ = nullptr;
  segment_set segments_;
  shard_head* head_;
  item_index index_;
  object_pool objects_;
  std::uint32_t fresh_ = none;  // the segment for new items
  std::uint32_t kept_ = none;   // the segment for moved items, which live longer
  walk cleaning_;
  bool beyond_limit_ = false;
  bool keeps_expired_ = false;
  walk sweeping_;
  std::uint32_t turn_ = 0;  // the segment from which items were evicted last
  std::size_t live_bytes_ = 0;
  std::size_t used_bytes_ = 0;  // in segments of items, including dead ones
  std::size_t items_ = 0;
  std::size_t volatile_items_ = 0;
  std::array<counted, most_databases + 1> in_{};  // the last one is for invalid numbers
  std::array<recent_keys, most_databases + 1> recent_{};
  std::uint64_t version_ = 0;
  std::uint64_t dice_;
  unix_ms now_ = 0;
  bool readers_ = false;
  std::string scratch_;
  std::unordered_map<std::string, watched, seeded_hash, std::equal_to<>> watched_;
  store_counters counters_;
};

}  // namespace kv
