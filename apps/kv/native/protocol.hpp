// The native protocol: what requests and responses say, and the shape of both. Little-endian, unaligned.
//
// It is carried by cordma's Requests. A client says hello with the server's token, asks for the map of each shard (the
// blobs of its regions) where it may read one-sidedly, and then sends batches: operations one behind the other, each a
// head, the key and the value. The response has a result for each, in their order: a head and the value.
#pragma once

#include "../store/item.hpp"

#include <cordma/runtime/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace kv::native {

inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::uint32_t most_operations = 256;  // of a batch
inline constexpr std::size_t most_token_bytes = 1024;
inline constexpr std::size_t blob_bytes = 64;  // as cordma::RemoteMemory has them

// A server that is gone may have left its memory, and its keys be served by the next one: nothing is believed unless
// something has shown within this time that the server lives. A server that starts waits for longer before it serves.
inline constexpr std::chrono::milliseconds lease{300};

enum class method : std::uint16_t { hello = 1, map = 2, batch = 3 };

// hello: this, and the token behind it.
struct hello_request {
  std::uint16_t version = 0;
  std::uint16_t token_bytes = 0;
};
// ... which is answered by this. Where the token is not the server's, `admitted` is 0 and nothing else is said.
struct hello_response {
  std::uint16_t version = 0;
  std::uint8_t admitted = 0;
  std::uint8_t one_sided = 0;  // whether there is a map
  std::uint32_t shards = 0;
  std::uint64_t hash_seed = 0;
};
// map: regions of a shard from `first` on; as many blobs as fit the room behind the answer.
struct map_request {
  std::uint32_t shard = 0;
  std::uint32_t first = 0;
};
struct map_response {
  std::uint32_t regions = 0;  // that there are
  std::uint32_t given = 0;
};

enum class op : std::uint8_t {
  get = 1,
  set = 2,
  erase = 3,
  touch = 4,   // a one-sided hit, for eviction to know of; its result says nothing
  expire = 5,  // `argument`: when, in milliseconds since 1970; 0: never; makes a new version
  add =
      6,  // `argument`: to the number that the value is, as INCRBY; the result's value is the sum in digits
};

struct op_head {
  static constexpr std::uint8_t if_absent = 1;
  static constexpr std::uint8_t if_present = 2;
  static constexpr std::uint8_t if_version = 4;  // CAS: only where the value is of `version`
  static constexpr std::uint8_t keep_expiry = 8;
  op what = op::get;
  std::uint8_t flags = 0;
  std::uint16_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t argument = 0;  // set: the expiry, 0: none
  std::uint64_t version = 0;
};

enum class status : std::uint8_t {
  done = 0,
  absent = 1,         // no such key; a condition that wants one fails so, too
  present = 2,        // if_absent, and it is there
  other_version = 3,  // if_version; the result has the version that it is of
  wrong_type = 4,     // it holds no string
  not_a_number = 5,   // add: it holds something else, or the sum is too large
  too_long =
      6,  // the value does not fit the room, or is not allowed; value_bytes says how long it is
  out_of_memory = 7,
  refused = 8,        // nothing is written just now: the journal's disk is full, say
  malformed = 9,      // no such operation; nothing behind it was looked at
  no_such_time = 10,  // an expiry above what 64 bits with a sign hold
};
[[nodiscard]] std::string_view name(status s) noexcept;

struct result_head {
  status outcome = status::done;
  std::uint8_t unused = 0;
  std::uint16_t unused_too = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t version = 0;
  std::uint64_t expiry = 0;
};

static_assert(sizeof(hello_request) == 4 && sizeof(hello_response) == 16 &&
              sizeof(map_request) == 8 && sizeof(map_response) == 8 && sizeof(op_head) == 24 &&
              sizeof(result_head) == 24);

struct operation {
  op_head head = {};
  std::string_view key = {};
  std::string_view value = {};
};
struct outcome {
  result_head head = {};
  std::string_view value = {};
};

// Reads a structure off the front; nothing where there are not that many bytes.
template <class T>
[[nodiscard]] std::optional<T> take(std::span<const std::byte>& from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (from.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return value;
}
[[nodiscard]] std::optional<std::string_view> take_text(std::span<const std::byte>& from,
                                                        std::size_t bytes) noexcept;
// Nothing: what is there is no operation.
[[nodiscard]] std::optional<operation> take_operation(std::span<const std::byte>& from) noexcept;
[[nodiscard]] std::optional<outcome> take_outcome(std::span<const std::byte>& from) noexcept;

// Writes into memory of a fixed size, one thing behind the other.
class writer {
 public:
  explicit writer(std::span<std::byte> into) noexcept : all_(into), left_(into) {}
  [[nodiscard]] std::size_t written() const noexcept { return all_.size() - left_.size(); }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }
  // False, and nothing is written: it does not fit.
  template <class T>
  bool put(const T& head, std::string_view first = {}, std::string_view second = {}) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_.size() < sizeof(T) + first.size() + second.size()) return false;
    append(&head, sizeof(T));
    append(first.data(), first.size());
    append(second.data(), second.size());
    return true;
  }

 private:
  void append(const void* data, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    std::memcpy(left_.data(), data, bytes);
    left_ = left_.subspan(bytes);
  }
  std::span<std::byte> all_;
  std::span<std::byte> left_;
};

}  // namespace kv::native
