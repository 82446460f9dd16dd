// The native protocol: what requests and responses say, and the shape of both. Little-endian, unaligned.
//
// It is carried by cordma's Requests. A client says hello with the server's token, asks for the map of each shard (the
// blobs of its regions) where it may read one-sidedly, and then sends batches: operations one behind the other, each a
// head, the key and the value. The response has a result for each, in their order: a head and the value. Besides it
// may ask how the server fares, and for the keys, a page at a time.
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

inline constexpr std::uint16_t protocol_version = 2;
inline constexpr std::uint32_t most_operations = 256;  // of a batch
inline constexpr std::size_t most_token_bytes = 1024;
inline constexpr std::size_t most_section_bytes = 64;
inline constexpr std::size_t most_pattern_bytes = 4096;
inline constexpr std::uint32_t most_scanned = 1000;  // keys looked at for one page, about
// What who connects is rejected with where there are as many clients as there may be.
inline constexpr std::string_view no_place = "max number of clients reached";
inline constexpr std::size_t blob_bytes = 64;  // as cordma::RemoteMemory has them

// A server that is gone may have left its memory, and its keys be served by the next one: nothing is believed unless
// something has shown within this time that the server lives. A server that starts waits for longer before it serves.
inline constexpr std::chrono::milliseconds lease{300};

enum class method : std::uint16_t { hello = 1, map = 2, batch = 3, info = 4, scan = 5 };

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

// info: this, and the name of a section behind it; none: the usual ones. As INFO of Redis has them.
struct info_request {
  std::uint16_t section_bytes = 0;
  std::uint16_t unused = 0;
};
// ... and the text behind it, as much as fits the room.
struct info_response {
  std::uint32_t bytes = 0;  // of the whole
};

// scan: keys from `cursor` on, 0: from the start, that the pattern behind it fits (Redis's: KEYS, SCAN); none: all.
// About `count` are looked at, however many fit.
struct scan_request {
  std::uint64_t cursor = 0;
  std::uint32_t count = 0;
  std::uint16_t pattern_bytes = 0;
  std::uint16_t unused = 0;
};
// ... and the keys behind it, each with its head. What is there all the time is given at least once, some twice.
struct scan_response {
  std::uint64_t cursor = 0;  // where to go on; 0: there are no more
  std::uint32_t keys = 0;
  std::uint32_t needed =
      0;  // not 0: none fits, and so many bytes of room it takes to go on at `cursor`
};
enum class kind : std::uint8_t { string = 1, hash = 2 };
struct scan_key {
  std::uint16_t key_bytes = 0;
  kind what = kind::string;
  std::uint8_t unused = 0;
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
  refused = 8,    // nothing is written just now: the journal's disk is full, say
  malformed = 9,  // no such operation, or a key of other databases; nothing behind it was looked at
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
              sizeof(map_request) == 8 && sizeof(map_response) == 8 && sizeof(info_request) == 4 &&
              sizeof(info_response) == 4 && sizeof(scan_request) == 16 &&
              sizeof(scan_response) == 16 && sizeof(scan_key) == 4 && sizeof(op_head) == 24 &&
              sizeof(result_head) == 24);

struct hello {
  hello_request head = {};
  std::string_view token = {};
};
struct info_question {
  std::string_view section = {};
};
struct scan_question {
  std::uint64_t cursor = 0;
  std::uint32_t count = 0;
  std::string_view pattern = {};
};
struct found_key {
  std::string_view key = {};
  kind what = kind::string;
};
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
// Each nothing: what is there is none. The server's side ...
[[nodiscard]] std::optional<hello> take_hello(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<info_question> take_info(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<scan_question> take_scan(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<operation> take_operation(std::span<const std::byte>& from) noexcept;
// ... and the client's. Of a map the blobs that it gives are left, one behind the other.
[[nodiscard]] std::optional<map_response> take_map(std::span<const std::byte>& from) noexcept;
[[nodiscard]] std::optional<found_key> take_key(std::span<const std::byte>& from) noexcept;
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
