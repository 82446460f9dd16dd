// The keys of one piece of memory, one per transport: a peer needs them beside the address.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/check.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace cordma::transport {

// A value: at most one key per transport, in the owner's order of preference. A key is never 0. The
// key of a transport unknown to this build stays in the list; no look-up finds it.
class remote_keys {
 public:
  static constexpr std::size_t most = 3;

  constexpr remote_keys() noexcept = default;
  // Empty if the key is 0.
  constexpr remote_keys(kind of, std::uint64_t key) noexcept {
    if (key != 0) add(of, key);
  }

  // REQUIRES a free slot, a key other than 0, and no key of that transport yet.
  constexpr void add(kind of, std::uint64_t key) noexcept {
    CORDMA_REQUIRE_OP(count_, <, most);
    CORDMA_REQUIRE(key != 0 && !has(of));
    std::size_t place = place_of(of);
    while (keys_[place] != 0) place = next(place);
    kinds_[place] = of;
    keys_[place] = key;
    order_[count_++] = static_cast<std::uint8_t>(place);
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  // REQUIRES i < size().
  [[nodiscard]] constexpr kind kind_at(std::size_t i) const noexcept {
    CORDMA_REQUIRE_OP(i, <, size());
    return kinds_[order_[i]];
  }
  [[nodiscard]] constexpr std::uint64_t key_at(std::size_t i) const noexcept {
    CORDMA_REQUIRE_OP(i, <, size());
    return keys_[order_[i]];
  }
  [[nodiscard]] constexpr bool has(kind of) const noexcept {
    bool found = false;
    for (std::size_t i = 0; i < count_; ++i) found |= kind_at(i) == of;
    return found;
  }
  // True if there is a key for `of`, returned in `key`. REQUIRES a transport of this build: free
  // slots are compared too.
  [[nodiscard]] constexpr bool get(kind of, std::uint64_t& key) const noexcept {
    std::size_t place = place_of(of);
    for (std::size_t i = 0; i < most; ++i, place = next(place)) {
      if (!is_in(place, of)) continue;
      key = in(place);
      return true;
    }
    return false;
  }

  // The same with one comparison, for every one-sided operation: the slot of a transport's key
  // unless another key has taken it. The transports that a Context has by default have a slot each.
  [[nodiscard]] static constexpr std::size_t place_of(kind of) noexcept {
    return (static_cast<std::size_t>(of) + 1) / 2 % most;
  }
  // REQUIRES place < most.
  [[nodiscard]] constexpr bool is_in(std::size_t place, kind of) const noexcept {
    return kinds_[place] == of;
  }
  [[nodiscard]] constexpr std::uint64_t in(std::size_t place) const noexcept {
    return keys_[place];
  }

 private:
  [[nodiscard]] static constexpr std::size_t next(std::size_t place) noexcept {
    return place + 1 == most ? 0 : place + 1;
  }
  static constexpr kind none{0xFF};
  std::array<std::uint64_t, most> keys_{};  // 0: the slot is free
  std::array<kind, most> kinds_{none, none, none};
  std::array<std::uint8_t, most> order_{};  // slots, in the order of add()
  std::uint8_t count_ = 0;
};
static_assert(remote_keys::place_of(kind::shm) != remote_keys::place_of(kind::verbs));
static_assert(remote_keys::place_of(kind::shm) != remote_keys::place_of(kind::tcp));
static_assert(remote_keys::place_of(kind::verbs) != remote_keys::place_of(kind::tcp));

}  // namespace cordma::transport
