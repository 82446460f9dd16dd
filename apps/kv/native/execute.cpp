#include "execute.hpp"

#include "../resp/number.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

namespace kv::native {
namespace {

struct step {
  operation what;
  hashed_key key;
};
// Left uninitialised: it has space for many steps, and most batches have few.
class steps {
 public:
  void add(const step& s) noexcept { std::construct_at(&places_[count_++].taken, s); }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool full() const noexcept { return count_ == most_operations; }
  [[nodiscard]] const step& operator[](std::size_t i) const noexcept { return places_[i].taken; }

 private:
  union place {
    place() noexcept {}
    step taken;
  };
  std::size_t count_ = 0;
  std::array<place, most_operations> places_;
};
static_assert(std::is_trivially_destructible_v<step>);

constexpr unix_ms last_moment = std::numeric_limits<std::int64_t>::max();

outcome plain(status s) noexcept { return {.head = {.outcome = s}, .value = {}}; }

status of(put_outcome p) noexcept {
  return p == put_outcome::done ? status::done : status::out_of_memory;
}

outcome described(const found& f) noexcept {
  if (!f) return plain(status::absent);
  if (!f.is_string()) return plain(status::wrong_type);
  return {.head = {.outcome = status::done,
                   .value_bytes = static_cast<std::uint32_t>(f.value.size()),
                   .version = f.at->version,
                   .expiry = f.at->expiry()},
          .value = f.value};
}

// Result of a write: the new version and expiry, without the value.
outcome after_write(store& s, const hashed_key& k, put_outcome p) noexcept {
  if (p != put_outcome::done) return plain(of(p));
  outcome o = described(s.peek(k));
  o.value = {};
  o.head.value_bytes = 0;
  return o;
}

outcome set(store& s, const step& at) noexcept {
  const op_head& h = at.what.head;
  if (at.what.value.size() > max_value_bytes) return plain(status::too_long);
  unix_ms expiry = h.argument;
  if (expiry > last_moment) return plain(status::no_such_time);
  constexpr unsigned looks =
      op_head::if_absent | op_head::if_present | op_head::if_version | op_head::keep_expiry;
  if ((h.flags & looks) != 0) {
    const found f = s.peek(at.key);
    if (f && (h.flags & op_head::if_absent) != 0) return plain(status::present);
    if (!f && (h.flags & (op_head::if_present | op_head::if_version)) != 0) {
      return plain(status::absent);
    }
    if ((h.flags & op_head::if_version) != 0) {
      if (!f.is_string()) return plain(status::wrong_type);
      if (f.at->version != h.version) {
        return {.head = {.outcome = status::other_version, .version = f.at->version}, .value = {}};
      }
    }
    if (f && (h.flags & op_head::keep_expiry) != 0) expiry = f.at->expiry();
  }
  if (expiry != never_expires && expiry <= s.now()) {
    s.erase(at.key);
    return plain(status::done);
  }
  return after_write(s, at.key, s.put(at.key, at.what.value, expiry));
}

// `digits` stores the sum that the result refers to; it must fit into `room` bytes.
outcome add(store& s, const step& at, std::size_t room, std::array<char, 24>& digits) noexcept {
  const found f = s.find(at.key);
  if (f && !f.is_string()) return plain(status::wrong_type);
  const auto before = f ? parse_integer(f.value) : std::optional<std::int64_t>(0);
  std::int64_t sum = 0;
  const auto by = static_cast<std::int64_t>(at.what.head.argument);
  if (!before || __builtin_add_overflow(*before, by, &sum)) return plain(status::not_a_number);
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), sum);
  const std::string_view text(digits.data(), static_cast<std::size_t>(written.ptr - digits.data()));
  if (text.size() > room) {
    return {.head = {.outcome = status::too_long,
                     .value_bytes = static_cast<std::uint32_t>(text.size())},
            .value = {}};
  }
  const unix_ms expiry = f ? f.at->expiry() : never_expires;
  outcome o = after_write(s, at.key, s.put(at.key, text, expiry));
  if (o.head.outcome != status::done) return o;
  o.value = text;
  o.head.value_bytes = static_cast<std::uint32_t>(text.size());
  return o;
}

outcome expire(store& s, const step& at) noexcept {
  if (at.what.head.argument > last_moment) return plain(status::no_such_time);
  const std::optional<put_outcome> p = s.set_expiry(at.key, at.what.head.argument);
  return plain(p ? of(*p) : status::absent);
}

bool changes(op what) noexcept { return what != op::get && what != op::touch; }

// `room`: bytes for the value of the result.
outcome carry_out(store& s, const step& at, writes allowed, std::size_t room,
                  std::array<char, 24>& digits) noexcept {
  if (allowed == writes::refused && changes(at.what.head.what)) return plain(status::refused);
  switch (at.what.head.what) {
    case op::get: return described(s.find(at.key));
    case op::touch: static_cast<void>(s.find(at.key)); return plain(status::done);
    case op::set: return set(s, at);
    case op::erase: return plain(s.erase(at.key) ? status::done : status::absent);
    case op::expire: return expire(s, at);
    case op::add: return add(s, at, room, digits);
  }
  return plain(status::malformed);
}

// Returns the bytes left for a value, without the heads of the following results.
std::size_t room_for_value(const writer& to, std::size_t following) noexcept {
  const std::size_t heads = (1 + following) * sizeof(result_head);
  return to.left() > heads ? to.left() - heads : 0;
}

void answer(writer& to, outcome o, std::size_t room) noexcept {
  if (o.value.size() <= room && to.put(o.head, o.value)) return;
  o.head.outcome = status::too_long;
  to.put(o.head);
}

}  // namespace

bool changes_anything(std::span<const std::byte> batch) noexcept {
  for (std::uint32_t n = 0; n < most_operations && !batch.empty(); ++n) {
    const std::optional<operation> next = take_operation(batch);
    if (!next) break;
    if (changes(next->head.what)) return true;
  }
  return false;
}

executed execute(keyspace& keys, std::span<const std::byte> batch, std::span<std::byte> room,
                 const circumstances& at) noexcept {
  steps all;
  std::uint64_t shards = 0;
  bool malformed = false;
  while (!batch.empty() && !malformed) {
    const std::optional<operation> next = all.full() ? std::nullopt : take_operation(batch);
    // Keys of other databases begin with this mark. Native clients use database 0, where keys of
    // this form are stored under other names.
    malformed = !next || next->key.starts_with(database_mark);
    if (malformed) break;
    const hashed_key k = keys.key(next->key);
    all.add({.what = *next, .key = k});
    shards |= keys.mask_of(k);
  }
  writer to(room);
  executed done;
  const keyspace::hold held(keys, shards);
  for (std::uint32_t i = 0; at.now != 0 && i < keys.shards(); ++i) {
    if ((shards >> i & 1) == 0) continue;
    keys.at(i).tick(at.now);
    keys.at(i).keep_expired(at.expired == expired_items::kept);
  }
  for (std::size_t i = 0; i < all.size(); ++i) keys.of(all[i].key).prefetch_bucket(all[i].key);
  for (std::size_t i = 0; i < all.size(); ++i) keys.of(all[i].key).prefetch_item(all[i].key);
  std::array<char, 24> digits;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (to.left() < sizeof(result_head)) {  // its result could not be reported
      malformed = false;
      break;
    }
    const std::size_t value_room = room_for_value(to, all.size() - 1 - i + (malformed ? 1 : 0));
    const outcome o = carry_out(keys.of(all[i].key), all[i], at.allowed, value_room, digits);
    answer(to, o, value_room);
    ++done.operations;
    if (o.head.outcome == status::refused) ++done.refused;
  }
  if (malformed) answer(to, plain(status::malformed), 0);
  done.bytes = to.written();
  return done;
}

}  // namespace kv::native
