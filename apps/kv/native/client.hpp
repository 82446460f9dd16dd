// A client of the native protocol: gets values by reading the server's memory, and sends requests
// for all else.
#pragma once

#include "long_memory.hpp"
#include "protocol.hpp"
#include "remote_shard.hpp"

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// How gets find values. A one-sided get reads a bucket and an item from the server's memory. Over a
// transport without capabilities::target_idle(), such as tcp, the server's worker serves each of
// these reads, so that two of them take longer than one request.
enum class way_of_gets : std::uint8_t { what_is_faster, one_sided, asked };

struct client_options {
  std::string_view token = {};  // copied
  std::optional<cordma::transport::kind> transport =
      {};  // empty: the first that reaches the server
  // One-sided only if the server permits it.
  way_of_gets gets = way_of_gets::what_is_faster;
  // Per request; zero: no limit.
  cordma::duration timeout = std::chrono::seconds(5);
};
static_assert(std::is_trivially_destructible_v<client_options>);

struct client_counters {
  std::uint64_t one_sided = 0;  // gets completed without a request
  std::uint64_t asked = 0;      // operations sent to the server
  std::uint64_t batches = 0;    // requests that carried them
  // One-sided gets that needed a request after all, by reason.
  std::uint64_t absent = 0;
  std::uint64_t torn = 0;
  std::uint64_t expiring = 0;
  std::uint64_t longer = 0;
  std::uint64_t unmapped = 0;
  std::uint64_t late = 0;
  std::uint64_t unsafe = 0;
  std::uint64_t silent = 0;
  std::uint64_t torn_reads = 0;  // all of them, including those that a retry resolved
  std::uint64_t reads = 0;       // one-sided
  // Registrations of memory for requests and responses above 64 KiB. The memory is kept, so that
  // this number stops growing in the long run.
  std::uint64_t registrations = 0;
};

// Result of one operation. `value` points into the batch, or to the client's argument: see there.
struct reply {
  native::status outcome = native::status::malformed;
  std::uint64_t version = 0;
  unix_ms expiry = never_expires;
  std::string_view value = {};
  std::uint32_t value_bytes = 0;  // if too_long: the length of the value

  [[nodiscard]] explicit operator bool() const noexcept { return outcome == native::status::done; }
};

struct set_options {
  unix_ms expiry = never_expires;  // milliseconds since 1970, by the server's clock
  std::uint8_t flags = 0;          // native::op_head::if_absent etc.
  std::uint64_t version = 0;       // for if_version
};
static_assert(std::is_trivially_destructible_v<set_options>);

struct scan_options {
  std::string_view pattern = {};               // as in Redis; empty: all keys
  std::uint32_t count = native::most_scanned;  // approximate number of keys to visit
};
static_assert(std::is_trivially_destructible_v<scan_options>);
struct scanned_key {
  std::string key;
  native::kind what = native::kind::string;
};

// Operations that are sent together: one request, one response, atomic on the server. Reusable:
// clear() keeps the memory. Holds at most native::most_operations, and longest_batch bytes
// including heads, keys and values.
class batch {
 public:
  // Each returns false, and adds nothing, if the batch is full or the key or value is too long.
  bool get(std::string_view key);
  bool set(std::string_view key, std::string_view value, const set_options& options = {});
  bool erase(std::string_view key) { return add(native::op::erase, key); }
  bool expire(std::string_view key, unix_ms when) {
    return add(native::op::expire, key, {}, {.argument = when});
  }
  bool increment(std::string_view key, std::int64_t by) {
    return add(native::op::add, key, {}, {.argument = static_cast<std::uint64_t>(by)});
  }
  bool touch(std::string_view key) { return add(native::op::touch, key); }

  [[nodiscard]] std::size_t size() const noexcept { return operations_; }
  [[nodiscard]] bool empty() const noexcept { return operations_ == 0; }
  void clear() noexcept;
  // After client::run(): one reply per operation. Views are valid until clear() or the end of the
  // batch.
  [[nodiscard]] const std::vector<reply>& replies() const noexcept { return replies_; }

 private:
  friend class client;
  static constexpr std::size_t not_read = SIZE_MAX;
  struct extras {
    std::uint8_t flags = 0;
    std::uint64_t argument = 0;
    std::uint64_t version = 0;
  };
  bool add(native::op what, std::string_view key, std::string_view value, const extras& more);
  bool add(native::op what, std::string_view key) { return add(what, key, {}, {}); }
  void read_replies(std::span<const std::byte> answer);
  // For gets that are looked for one by one.
  void begin_reading(std::uint64_t seed);
  void has_read(std::size_t i, const reply& r, std::string_view value);
  void end_reading() noexcept;
  [[nodiscard]] std::size_t room_for_longer() const noexcept;

  std::vector<std::byte> request_;
  std::size_t operations_ = 0;
  std::size_t gets_ = 0;  // of the operations
  std::vector<std::byte> answer_;
  std::vector<std::byte> longer_;      // values that were requested again
  std::vector<hashed_key> keys_;       // of the gets that are read
  std::vector<std::byte> values_;      // that were read
  std::vector<std::size_t> value_at_;  // per operation: the offset, or not_read
  std::vector<reply> replies_;
};

// Bound to the thread of its worker. Any number of calls may overlap; each is a separate task.
// Throws cordma::error if the server cannot be reached, does not admit the client (not_permitted),
// has the maximum of clients (full), has another protocol version (unsupported_version), or does
// not respond in time (timed_out: the operations may have been executed). The outcome of an
// operation is a reply rather than an error.
class client {
 public:
  // `server`: "host:port". The context and the worker outlive the client.
  [[nodiscard]] static cordma::task<std::unique_ptr<client>> connect(cordma::Context* context,
                                                                     cordma::Worker* worker,
                                                                     std::string server,
                                                                     client_options options);
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // Stores the value in `into`, reusing its memory; the reply's view points to it.
  [[nodiscard]] cordma::task<reply> get(std::string_view key, std::string* into);
  [[nodiscard]] cordma::task<reply> set(std::string_view key, std::string_view value,
                                        set_options options);
  [[nodiscard]] cordma::task<reply> erase(std::string_view key);
  // The batch must outlive the task, and must not be used meanwhile.
  [[nodiscard]] cordma::task<void> run(batch* of);
  // For batches that have only gets. Over shm, and with way_of_gets::one_sided, each key is looked
  // for as by get(), many at a time, and those not found are requested in one batch. Keys that were
  // set together may thus be seen partly. Otherwise this is run().
  [[nodiscard]] cordma::task<void> read(batch* of);
  // Returns the state of the server as in Redis's INFO; of that section, if not empty. Throws also
  // invalid_value if the name of the section is too long.
  [[nodiscard]] cordma::task<std::string> info(std::string_view section);
  // Appends some keys to `into`, from `cursor` on (0: from the start). Returns the next cursor; 0:
  // no more keys. A key that exists all the time is returned at least once, possibly twice. Throws
  // also invalid_value if the pattern is too long.
  [[nodiscard]] cordma::task<std::uint64_t> scan(std::uint64_t cursor, scan_options options,
                                                 std::vector<scanned_key>* into);
  // Closes the connection after running operations have ended.
  [[nodiscard]] cordma::task<void> close();

  [[nodiscard]] const client_counters& counters() const noexcept;
  [[nodiscard]] std::string_view transport() const noexcept;
  [[nodiscard]] const std::string& transport_reason() const noexcept;
  // True if the server is on this machine but serves each read itself, although this transport was
  // not requested.
  [[nodiscard]] bool fell_back() const;
  [[nodiscard]] std::uint32_t shards() const noexcept { return shards_count_; }
  [[nodiscard]] bool one_sided() const noexcept { return !shards_.empty(); }
  // True if read() looks for keys one-sidedly.
  [[nodiscard]] bool reads_many() const noexcept;

 private:
  client(cordma::Context& context, cordma::Worker& worker, const client_options& options);
  [[nodiscard]] cordma::task<void> greet(std::string token);
  [[nodiscard]] cordma::task<void> learn(std::uint32_t shard);
  // Sends any request; copies the response to `answer`. The response may have `room_bytes`, and
  // always the size of a buffer.
  [[nodiscard]] cordma::task<void> ask(native::method m, std::span<const std::byte> what,
                                       std::size_t room_bytes, std::vector<std::byte>* answer);
  [[nodiscard]] cordma::task<bool> seen(hashed_key key, std::string* into, reply* found);
  // Looks for these keys immediately if the server's memory is mapped here; the results are in
  // looks_. Returns false if it is not mapped, or if other tasks have to run first.
  [[nodiscard]] bool looks_now(std::span<const hashed_key> keys);
  [[nodiscard]] cordma::task<void> read_awaited(batch* of, std::size_t first, std::size_t last);
  [[nodiscard]] cordma::task<void> read_one(batch* of, std::size_t i);
  [[nodiscard]] cordma::task<void> ask_for_rest(batch* of);
  // Returns an empty batch for one operation; its memory is reused.
  [[nodiscard]] batch take_batch();
  void put_back(batch b);
  // Counts the outcome. Returns true if the key was found.
  [[nodiscard]] bool note(const native::sighting& s, std::string_view key);
  // The same; also stores the value and the reply.
  [[nodiscard]] bool take(const native::sighting& s, std::string_view key, std::string* into,
                          reply* found);
  [[nodiscard]] std::uint32_t shard(const hashed_key& key) const noexcept {
    return shard_of(key.hash, shards_count_);
  }
  [[nodiscard]] cordma::task<void> exchange(batch* of, std::size_t room_bytes);
  [[nodiscard]] cordma::task<void> ask_again(batch* of, std::size_t room_bytes);
  void note_answer(std::size_t bytes) noexcept;
  [[nodiscard]] bool reads_by_itself() const noexcept;
  void remember_use(std::string_view key);

  cordma::Worker& worker_;
  client_options options_;  // without the token
  cordma::BufferPool requests_out_;
  cordma::BufferPool rooms_;
  cordma::BufferPool landings_;
  native::long_memory longer_;  // requests and response rooms
  cordma::Messages messages_;
  cordma::Requests requests_;
  cordma::Endpoint server_;
  std::uint32_t shards_count_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<native::remote_shard> shards_;
  std::vector<native::look> looks_;
  std::vector<bucket> looked_at_;  // landing memory, aligned like a bucket
  mutable client_counters counters_;
  std::uint64_t hits_ = 0;
  std::size_t usual_answer_ = 0;  // bytes; leaves room for long responses in the first request
  std::vector<batch> batches_;    // unused
  batch uses_;                    // hits to report to the server with the next batch
};

}  // namespace kv
