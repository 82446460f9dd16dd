// The native protocol: the content and layout of requests and responses. Little-endian, unaligned.
//
// It is carried by cordma's Requests. A client sends hello with the server's token. If it may read
// one-sidedly, it requests the map of each shard (the blobs of its regions). Then it sends batches:
// consecutive operations, each with a head, the key and the value. The response has a result for
// each, in their order: a head and the value. The client may also request the state of the server,
// and the keys, one page at a time.
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
inline constexpr std::uint32_t most_operations = 256;  // per batch
inline constexpr std::size_t most_token_bytes = 1024;
inline constexpr std::size_t most_section_bytes = 64;
inline constexpr std::size_t most_pattern_bytes = 4096;
// Approximate number of keys visited for one page.
inline constexpr std::uint32_t most_scanned = 1000;
// Reason of a rejected connection when the limit of clients is reached.
inline constexpr std::string_view no_place = "max number of clients reached";
inline constexpr std::size_t blob_bytes = 64;  // as in cordma::RemoteMemory

// The memory of a server that has ended may remain, while the next server serves its keys. So data
// is trusted only if the server has shown a sign of life within this time. A server that starts
// waits longer than this before it serves.
inline constexpr std::chrono::milliseconds lease{300};

enum class method : std::uint16_t { hello = 1, map = 2, batch = 3, info = 4, scan = 5 };

// hello: this struct, followed by the token.
struct hello_request {
  std::uint16_t version = 0;
  std::uint16_t token_bytes = 0;
};
// ... and the response. If the token is wrong, `admitted` is 0 and only `version` is set.
struct hello_response {
  std::uint16_t version = 0;
  std::uint8_t admitted = 0;
  std::uint8_t one_sided = 0;  // 1 if there is a map
  std::uint32_t shards = 0;
  std::uint64_t hash_seed = 0;
};
// map: regions of a shard from `first` on; the response is followed by as many blobs as fit.
struct map_request {
  std::uint32_t shard = 0;
  std::uint32_t first = 0;
};
struct map_response {
  std::uint32_t regions = 0;  // in total
  std::uint32_t given = 0;
};

// info: this struct, followed by the name of a section; none: the default ones. As INFO of Redis.
struct info_request {
  std::uint16_t section_bytes = 0;
  std::uint16_t unused = 0;
};
// ... and the response, followed by as much of the text as fits.
struct info_response {
  std::uint32_t bytes = 0;  // of the complete text
};

// scan: keys from `cursor` on (0: from the start) that match the pattern that follows (as in KEYS
// and SCAN of Redis); none: all. Visits about `count` keys, matching or not.
struct scan_request {
  std::uint64_t cursor = 0;
  std::uint32_t count = 0;
  std::uint16_t pattern_bytes = 0;
  std::uint16_t unused = 0;
};
// ... and the response, followed by the keys, each after its head. A key that exists all the time
// is returned at least once, possibly twice.
struct scan_response {
  std::uint64_t cursor = 0;  // next cursor; 0: no more keys
  std::uint32_t keys = 0;
  std::uint32_t needed = 0;  // not 0: no key fit; bytes needed to go on at `cursor`
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
  touch = 4,   // reports a one-sided hit, for eviction; its result is empty
  expire = 5,  // `argument`: time in milliseconds since 1970; 0: never; makes a new version
  add = 6,     // adds `argument` to the number, like INCRBY; the value is the sum in digits
};

struct op_head {
  static constexpr std::uint8_t if_absent = 1;
  static constexpr std::uint8_t if_present = 2;
  static constexpr std::uint8_t if_version = 4;  // CAS: only if the value has `version`
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
  absent = 1,         // no such key; also if a condition requires one
  present = 2,        // if_absent, and the key exists
  other_version = 3,  // if_version; the result has the current version
  wrong_type = 4,     // not a string
  not_a_number = 5,   // add: not a number, or the sum is too large
  too_long = 6,       // the value exceeds the room or the limit; value_bytes is its length
  out_of_memory = 7,
  refused = 8,    // no writes at present: the journal's disk is full, for example
  malformed = 9,  // unknown operation, or a key of another database; later operations did not run
  no_such_time = 10,  // an expiry above the range of signed 64 bits
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

// Removes a structure from the front; returns no value if there are not enough bytes.
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
// Each returns no value if the bytes are malformed. For the server ...
[[nodiscard]] std::optional<hello> take_hello(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<info_question> take_info(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<scan_question> take_scan(std::span<const std::byte> from) noexcept;
[[nodiscard]] std::optional<operation> take_operation(std::span<const std::byte>& from) noexcept;
// ... and for the client. After take_map() its consecutive blobs remain in `from`.
[[nodiscard]] std::optional<map_response> take_map(std::span<const std::byte>& from) noexcept;
[[nodiscard]] std::optional<found_key> take_key(std::span<const std::byte>& from) noexcept;
[[nodiscard]] std::optional<outcome> take_outcome(std::span<const std::byte>& from) noexcept;

// Writes consecutive parts into memory of a fixed size.
class writer {
 public:
  explicit writer(std::span<std::byte> into) noexcept : all_(into), left_(into) {}
  [[nodiscard]] std::size_t written() const noexcept { return all_.size() - left_.size(); }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }
  // Returns false, and writes nothing, if it does not fit.
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
