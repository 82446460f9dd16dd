#include "hash_value.hpp"

#include "key.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <malloc.h>

namespace kv {
namespace {

// Bytes of a moved field that use up one more unit of the budget.
constexpr std::size_t copied_for_one = 512;

constexpr std::size_t of_allocator = 8;  // bytes of overhead that glibc adds to an allocation

std::size_t taken(void* p) noexcept {
  return p == nullptr ? 0 : ::malloc_usable_size(p) + of_allocator;
}

constexpr std::uint64_t reversed(std::uint64_t v) noexcept {
  std::uint64_t r = 0;
  for (int i = 0; i < 64; i += 8) {
    auto byte = static_cast<std::uint8_t>(v >> i);
    byte = static_cast<std::uint8_t>((byte & 0xF0) >> 4 | (byte & 0x0F) << 4);
    byte = static_cast<std::uint8_t>((byte & 0xCC) >> 2 | (byte & 0x33) << 2);
    byte = static_cast<std::uint8_t>((byte & 0xAA) >> 1 | (byte & 0x55) << 1);
    r |= std::uint64_t{byte} << (56 - i);
  }
  return r;
}

// Increments `v` with the bits in `mask` in reverse significance. A table with twice the buckets
// splits each bucket in two that differ in one higher bit. Both follow all buckets counted before,
// so a cursor stays valid when the table grows or shrinks.
constexpr std::uint64_t counted_on(std::uint64_t v, std::uint64_t mask) noexcept {
  return reversed(reversed(v | ~mask) + 1);
}

}  // namespace

struct hash_value::node {
  node* next;
  std::uint64_t hash;
  std::uint32_t field_bytes;
  std::uint32_t value_bytes;

  [[nodiscard]] char* data() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] std::string_view field() noexcept { return {data(), field_bytes}; }
  [[nodiscard]] std::string_view value() noexcept { return {data() + field_bytes, value_bytes}; }
  [[nodiscard]] entry both() noexcept { return {field(), value()}; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return sizeof(node) + field_bytes + value_bytes;
  }
  void set_value(std::string_view v) noexcept {
    value_bytes = static_cast<std::uint32_t>(v.size());
    std::memcpy(data() + field_bytes, v.data(), v.size());
  }
};

hash_value::hash_value(const hash_value& other) : hash_value(other.seed_, other.heap_) {
  other.for_each([this](const entry& e) { put(e.field, e.value); });
}

hash_value::~hash_value() {
  std::size_t all = SIZE_MAX;
  static_cast<void>(clear_some(all));
}

void hash_value::swap(hash_value& other) noexcept {
  std::swap(seed_, other.seed_);
  std::swap(heap_, other.heap_);
  std::swap(size_, other.size_);
  std::swap(bytes_, other.bytes_);
  std::swap(block_, other.block_);
  std::swap(block_used_, other.block_used_);
  std::swap(block_room_, other.block_room_);
  std::swap(tables_, other.tables_);
  std::swap(moved_, other.moved_);
}

std::size_t hash_value::bytes_of(std::string_view field, std::string_view value) noexcept {
  const std::size_t both = field.size() + value.size();
  return fits_block(field, value) ? both + 2
                                  : both + sizeof(node) + 2 * sizeof(node*) + of_allocator;
}

std::uint64_t hash_value::hash_of(std::string_view field) const noexcept {
  return hash_key(field, seed_).hash;
}

// ---- the block ----

hash_value::entry hash_value::entry_at(std::size_t place) const noexcept {
  const char* const at = block_ + place;
  const auto field = static_cast<std::uint8_t>(at[0]);
  const auto value = static_cast<std::uint8_t>(at[1]);
  return {{at + 2, field}, {at + 2 + field, value}};
}

std::optional<std::size_t> hash_value::find_in_block(std::string_view field) const noexcept {
  for (std::size_t at = 0; at != block_used_;) {
    const entry e = entry_at(at);
    if (e.field == field) return at;
    at += 2 + e.field.size() + e.value.size();
  }
  return {};
}

// Resizes the block to hold `used` bytes, without much spare space.
void hash_value::resize_block(std::size_t used) {
  constexpr std::size_t spare = 4;  // the block may be this many times too large
  if (used <= block_room_ && (used * spare >= block_room_ || block_room_ <= 64)) return;
  if (!move_block(block_heap::room_of(used)) && used > block_room_) throw std::bad_alloc();
}

// Moves the content to a block of `room` bytes. REQUIRES that the used bytes fit. Returns false,
// and changes nothing, if there is no memory.
bool hash_value::move_block(std::size_t room) noexcept {
  void* const made = heap_ != nullptr ? heap_->take(room) : std::malloc(room);
  if (made == nullptr) return false;
  char* const to = static_cast<char*>(made);
  if (block_used_ != 0) std::memcpy(to, block_, block_used_);
  free_block();
  block_ = to;
  block_room_ = static_cast<std::uint32_t>(room);
  bytes_ = block_heap::cost_of(room);
  return true;
}

void hash_value::free_block() noexcept {
  if (block_ == nullptr) return;
  if (heap_ != nullptr) {
    heap_->give(block_, block_room_);
  } else {
    std::free(block_);
  }
  bytes_ -= block_heap::cost_of(block_room_);
  block_ = nullptr;
  block_room_ = 0;
}

bool hash_value::settle(std::size_t& place, std::size_t& budget) noexcept {
  if (heap_ != nullptr && is_block()) {
    if (block_ != nullptr && heap_->is_sparse(block_, block_room_)) {
      static_cast<void>(move_block(block_room_));
    }
    place = 0;
    return true;
  }
  const std::size_t first = tables_[0].count();
  for (; heap_ != nullptr && place < first + tables_[1].count(); ++place) {
    if (budget == 0) return false;
    --budget;
    node** link = place < first ? &tables_[0].buckets[place] : &tables_[1].buckets[place - first];
    for (; *link != nullptr; link = &(*link)->next) {
      const std::size_t bytes = (*link)->bytes();
      const std::size_t room = block_heap::room_of(bytes);
      if (!is_in_heap(bytes) || !heap_->is_sparse(*link, room)) continue;
      void* const made = heap_->take(room);
      if (made == nullptr) continue;
      std::memcpy(made, *link, bytes);
      budget -= std::min(budget, bytes / copied_for_one);
      heap_->give(std::exchange(*link, static_cast<node*>(made)), room);
    }
  }
  place = 0;
  return true;
}

void hash_value::put_in_block(std::string_view field, std::string_view value,
                              std::optional<std::size_t> known) {
  const std::size_t old = known ? entry_at(*known).value.size() : 0;
  const std::size_t more = known ? value.size() : 2 + field.size() + value.size();
  const std::size_t used = block_used_ - old + more;
  // The content is compacted before the block shrinks.
  if (used > block_room_) resize_block(used);
  char* at = block_ + block_used_;
  if (known) {
    char* const begins = block_ + *known + 2 + field.size();
    std::memmove(begins + value.size(), begins + old,
                 static_cast<std::size_t>(block_ + block_used_ - begins) - old);
    at = block_ + *known;
  }
  block_used_ = static_cast<std::uint32_t>(used);
  at[0] = static_cast<char>(field.size());
  at[1] = static_cast<char>(value.size());
  std::memcpy(at + 2, field.data(), field.size());
  std::memcpy(at + 2 + field.size(), value.data(), value.size());
  if (!known) ++size_;
  resize_block(used);
}

void hash_value::erase_in_block(std::size_t place) noexcept {
  const entry e = entry_at(place);
  const std::size_t bytes = 2 + e.field.size() + e.value.size();
  std::memmove(block_ + place, block_ + place + bytes, block_used_ - place - bytes);
  block_used_ -= static_cast<std::uint32_t>(bytes);
  --size_;
  if (block_used_ != 0) resize_block(block_used_);
}

// Converts the block to nodes. Changes nothing if there is no memory.
void hash_value::to_table() {
  hash_value made(seed_, heap_);
  made.tables_[0].mask = std::bit_ceil(std::max(size_, least_buckets)) - 1;
  made.tables_[0].buckets =
      static_cast<node**>(std::calloc(made.tables_[0].mask + 1, sizeof(node*)));
  if (made.tables_[0].buckets == nullptr) throw std::bad_alloc();
  made.bytes_ = taken(made.tables_[0].buckets);
  for_each([&made](const entry& e) { made.put(e.field, e.value); });
  swap(made);
}

// ---- the tables ----

hash_value::node* hash_value::take_node(std::size_t bytes) noexcept {
  void* const made =
      is_in_heap(bytes) ? heap_->take(block_heap::room_of(bytes)) : std::malloc(bytes);
  return static_cast<node*>(made);
}

void hash_value::free_node(node* n) noexcept {
  if (is_in_heap(n->bytes())) {
    heap_->give(n, block_heap::room_of(n->bytes()));
  } else {
    std::free(n);
  }
}

std::size_t hash_value::cost_of(node* n) const noexcept {
  return is_in_heap(n->bytes()) ? block_heap::cost_of(block_heap::room_of(n->bytes())) : taken(n);
}

// The node's size in the heap follows from its content: another size moves it. Changes nothing if
// there is no memory.
void hash_value::change_value(node*& link, std::string_view value) {
  node* const old = link;
  const std::size_t bytes = sizeof(node) + old->field_bytes + value.size();
  const bool stays = is_in_heap(bytes) && is_in_heap(old->bytes()) &&
                     block_heap::room_of(bytes) == block_heap::room_of(old->bytes());
  const std::size_t room = is_in_heap(old->bytes()) ? 0 : ::malloc_usable_size(old);
  if (stays || (!is_in_heap(bytes) && bytes <= room && bytes >= room / 2)) {
    return old->set_value(value);
  }
  node* const made = take_node(bytes);
  if (made == nullptr) {
    if (!is_in_heap(bytes) && bytes <= room) return old->set_value(value);
    throw std::bad_alloc();
  }
  std::memcpy(static_cast<void*>(made), old, sizeof(node) + old->field_bytes);
  made->set_value(value);
  bytes_ += cost_of(made);
  bytes_ -= cost_of(old);
  free_node(old);
  link = made;
}

hash_value::node** hash_value::link_of(std::string_view field, std::uint64_t hash) const noexcept {
  for (const table& t : tables_) {
    if (t.buckets == nullptr) continue;
    for (node** at = &t.buckets[hash & t.mask]; *at != nullptr; at = &(*at)->next) {
      if ((*at)->hash == hash && (*at)->field() == field) return at;
    }
  }
  return nullptr;
}

void hash_value::begin_move(std::size_t buckets) noexcept {
  auto** const made = static_cast<node**>(std::calloc(buckets, sizeof(node*)));
  if (made == nullptr) return;  // continues with longer chains
  tables_[1] = {made, buckets - 1};
  bytes_ += taken(made);
  moved_ = 0;
}

void hash_value::move_some(std::size_t buckets) noexcept {
  if (!moving()) return;
  table& from = tables_[0];
  table& to = tables_[1];
  // Empty buckets are cheap: ten of them count as one.
  for (std::size_t looks = buckets * 10; moved_ != from.count() && buckets != 0 && looks != 0;
       --looks) {
    node* at = std::exchange(from.buckets[moved_++], nullptr);
    if (at == nullptr) continue;
    --buckets;
    while (at != nullptr) {
      node*& head = to.buckets[at->hash & to.mask];
      node* const next = std::exchange(at->next, head);
      head = std::exchange(at, next);
    }
  }
  if (moved_ == from.count()) end_move();
}

void hash_value::end_move() noexcept {
  bytes_ -= taken(tables_[0].buckets);
  std::free(tables_[0].buckets);
  tables_[0] = std::exchange(tables_[1], {});
  moved_ = 0;
}

// Grows a table with fewer buckets than fields, and shrinks one with more than `fields_to_shrink`
// buckets per field.
void hash_value::fit() noexcept {
  if (moving()) return;
  const std::size_t buckets = tables_[0].count();
  if (size_ > buckets) {
    begin_move(std::bit_ceil(size_ + 1));
  } else if (buckets > least_buckets && size_ * fields_to_shrink < buckets) {
    begin_move(std::bit_ceil(std::max(size_ + 1, least_buckets)));
  }
}

// ---- both ----

bool hash_value::put(std::string_view field, std::string_view value) {
  if (is_block()) {
    const std::optional<std::size_t> known = find_in_block(field);
    if (fits_block(field, value) && (known || size_ < most_small_fields)) {
      put_in_block(field, value, known);
      return !known;
    }
    to_table();
  }
  move_some(moved_at_a_time);
  const std::uint64_t hash = hash_of(field);
  node** const link = link_of(field, hash);
  if (link != nullptr) {
    change_value(*link, value);
    return false;
  }
  node* const made = take_node(sizeof(node) + field.size() + value.size());
  if (made == nullptr) throw std::bad_alloc();
  table& t = tables_[moving() ? 1 : 0];
  *made = {t.buckets[hash & t.mask], hash, static_cast<std::uint32_t>(field.size()), 0};
  std::memcpy(made->data(), field.data(), field.size());
  made->set_value(value);
  t.buckets[hash & t.mask] = made;
  bytes_ += cost_of(made);
  ++size_;
  fit();
  return true;
}

bool hash_value::erase(std::string_view field) noexcept {
  if (is_block()) {
    const std::optional<std::size_t> known = find_in_block(field);
    if (known) erase_in_block(*known);
    return known.has_value();
  }
  move_some(moved_at_a_time);
  node** const link = link_of(field, hash_of(field));
  if (link == nullptr) return false;
  node* const at = std::exchange(*link, (*link)->next);
  bytes_ -= cost_of(at);
  free_node(at);
  --size_;
  fit();
  return true;
}

std::optional<std::string_view> hash_value::find(std::string_view field) const noexcept {
  if (is_block()) {
    const std::optional<std::size_t> known = find_in_block(field);
    if (!known) return {};
    return entry_at(*known).value;
  }
  node** const link = link_of(field, hash_of(field));
  if (link == nullptr) return {};
  return (*link)->value();
}

bool hash_value::clear_some(std::size_t& budget) noexcept {
  if (is_block()) {
    free_block();
    block_used_ = 0;
    size_ = 0;
    return true;
  }
  // Like a move without a target table; then the same for the second table.
  while (!is_block()) {
    table& t = tables_[0];
    for (; moved_ != t.count(); ++moved_) {
      while (t.buckets[moved_] != nullptr) {
        if (budget == 0) return false;
        --budget;
        node* const at = t.buckets[moved_];
        t.buckets[moved_] = at->next;
        bytes_ -= cost_of(at);
        free_node(at);
        --size_;
      }
    }
    end_move();
  }
  return true;
}

std::optional<hash_value::entry> hash_value::at_random(std::uint64_t random) const noexcept {
  if (is_block()) {
    std::size_t place = 0;
    for (std::uint64_t n = random % size_; n != 0; --n) {
      const entry e = entry_at(place);
      place += 2 + e.field.size() + e.value.size();
    }
    return entry_at(place);
  }
  // Chooses a position in a bucket of either table; it may be empty.
  const std::size_t buckets = tables_[0].count() + tables_[1].count();
  std::size_t bucket = (random / deepest) % buckets;
  const bool second = bucket >= tables_[0].count();
  if (second) bucket -= tables_[0].count();
  node* at = tables_[second ? 1 : 0].buckets[bucket];
  for (std::size_t place = random % deepest; place != 0 && at != nullptr; --place) at = at->next;
  if (at == nullptr) return {};
  return at->both();
}

// ---- walking ----

hash_value::cursor hash_value::first_from(std::size_t place) const noexcept {
  for (; place < tables_[0].count() + tables_[1].count(); ++place) {
    const bool second = place >= tables_[0].count();
    node* const at = tables_[second ? 1 : 0].buckets[second ? place - tables_[0].count() : place];
    if (at != nullptr) return {.place = place, .at = at, .now = at->both(), .good = true};
  }
  return {};
}

hash_value::cursor hash_value::first() const noexcept {
  if (!is_block()) return first_from(0);
  if (block_used_ == 0) return {};
  return {.place = 0, .at = nullptr, .now = entry_at(0), .good = true};
}

hash_value::cursor hash_value::next(cursor at) const noexcept {
  if (!is_block()) {
    if (at.at->next == nullptr) return first_from(at.place + 1);
    at.at = at.at->next;
    at.now = at.at->both();
    return at;
  }
  at.place += 2 + at.now.field.size() + at.now.value.size();
  if (at.place == block_used_) return {};
  at.now = entry_at(at.place);
  return at;
}

hash_value::bucket_pair hash_value::buckets_at(std::uint64_t from) const noexcept {
  bucket_pair b{.from = from};
  if (is_block()) return b;
  b.smaller = &tables_[0];
  if (moving()) {
    b.larger = &tables_[1];
    if (b.smaller->mask > b.larger->mask) std::swap(b.smaller, b.larger);
  }
  b.next = counted_on(from, b.smaller->mask);
  b.in_larger = from;
  return b;
}

hash_value::cursor hash_value::first_of(bucket_pair& at) const noexcept {
  if (at.smaller == nullptr) return first();
  node* const n = at.smaller->buckets[at.from & at.smaller->mask];
  if (n != nullptr) return {.place = 0, .at = n, .now = n->both(), .good = true};
  return first_in_larger(at);
}

// Returns the next non-empty bucket of the larger table that corresponds to this bucket of the
// smaller one.
hash_value::cursor hash_value::first_in_larger(bucket_pair& at) const noexcept {
  while (at.larger != nullptr) {
    node* const n = at.larger->buckets[at.in_larger & at.larger->mask];
    at.in_larger = counted_on(at.in_larger, at.larger->mask);
    at.next = at.in_larger;
    if ((at.in_larger & (at.larger->mask ^ at.smaller->mask)) == 0) at.larger = nullptr;
    if (n != nullptr) return {.place = 1, .at = n, .now = n->both(), .good = true};
  }
  return {};
}

hash_value::cursor hash_value::next_of(bucket_pair& at, cursor c) const noexcept {
  if (at.smaller == nullptr) return next(c);
  if (c.at->next == nullptr) return first_in_larger(at);
  c.at = c.at->next;
  c.now = c.at->both();
  return c;
}

}  // namespace kv
