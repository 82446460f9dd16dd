// A client of the native protocol: gets values by reading the server's memory, and asks for all else.
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

// How gets find values. One-sidedly, a bucket and an item are read out of the server's memory. Over a transport without
// capabilities::target_idle(), as tcp is, the server's worker serves each of these reads, so that two take longer than
// to ask it once.
enum class way_of_gets : std::uint8_t { what_is_faster, one_sided, asked };

struct client_options {
  std::string_view token = {};  // copied
  std::optional<cordma::transport::kind> transport =
      {};  // empty: the first that reaches the server
  // One-sided only where the server lets its clients.
  way_of_gets gets = way_of_gets::what_is_faster;
  // For each thing that is asked; zero: for ever.
  cordma::duration timeout = std::chrono::seconds(5);
};
static_assert(std::is_trivially_destructible_v<client_options>);

struct client_counters {
  std::uint64_t one_sided = 0;  // gets that nobody was asked for
  std::uint64_t asked = 0;      // operations that the server was asked for
  std::uint64_t batches = 0;    // by which it was
  // Gets that were looked for one-sidedly first, and why the server was asked after all.
  std::uint64_t absent = 0;
  std::uint64_t torn = 0;
  std::uint64_t expiring = 0;
  std::uint64_t longer = 0;
  std::uint64_t unmapped = 0;
  std::uint64_t late = 0;
  std::uint64_t unsafe = 0;
  std::uint64_t silent = 0;
  std::uint64_t torn_reads = 0;  // all of them, also those that a further look made good
  std::uint64_t reads = 0;       // one-sided
  // Memory for requests and answers above 64 KiB, which is kept: in the long run there are no more.
  std::uint64_t registrations = 0;
};

// What became of one operation. `value` is of the batch, or the client's own: see there.
struct reply {
  native::status outcome = native::status::malformed;
  std::uint64_t version = 0;
  unix_ms expiry = never_expires;
  std::string_view value = {};
  std::uint32_t value_bytes = 0;  // of one that is too_long, how long it is

  [[nodiscard]] explicit operator bool() const noexcept { return outcome == native::status::done; }
};

struct set_options {
  unix_ms expiry = never_expires;  // milliseconds since 1970, by the server's clock
  std::uint8_t flags = 0;          // native::op_head::if_absent and so on
  std::uint64_t version = 0;       // with if_version
};
static_assert(std::is_trivially_destructible_v<set_options>);

struct scan_options {
  std::string_view pattern = {};               // as Redis has them; empty: all keys
  std::uint32_t count = native::most_scanned;  // keys looked at, about
};
static_assert(std::is_trivially_destructible_v<scan_options>);
struct scanned_key {
  std::string key;
  native::kind what = native::kind::string;
};

// Operations that are sent together: one request, one response, atomic on the server. Reusable: clear() keeps the
// memory. At most native::most_operations, and longest_batch bytes with their heads, keys and values.
class batch {
 public:
  // Each false, and nothing is added: it is full, or key or value are longer than is allowed.
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
  // After client::run(): as many as there are operations. Views end with clear(), and the batch.
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
  // Of gets that are looked for one by one.
  void begin_reading(std::uint64_t seed);
  void has_read(std::size_t i, const reply& r, std::string_view value);
  void end_reading() noexcept;
  [[nodiscard]] std::size_t room_for_longer() const noexcept;

  std::vector<std::byte> request_;
  std::size_t operations_ = 0;
  std::size_t gets_ = 0;  // of them
  std::vector<std::byte> answer_;
  std::vector<std::byte> longer_;      // values that were asked for again
  std::vector<hashed_key> keys_;       // of those that are read
  std::vector<std::byte> values_;      // that were read
  std::vector<std::size_t> value_at_;  // by operation: where, or not_read
  std::vector<reply> replies_;
};

// Bound to the thread of its worker. Calls may overlap, as many as one likes: each is a task of its own. Throws
// cordma::error where the server cannot be reached, does not admit it (not_permitted), has as many clients as it takes
// (full), speaks another version (unsupported_version), or does not answer in time (timed_out: what was asked may have
// been done); what became of an operation is no error but a reply.
class client {
 public:
  // `server`: "host:port". Context and worker outlive it.
  [[nodiscard]] static cordma::task<std::unique_ptr<client>> connect(cordma::Context* context,
                                                                     cordma::Worker* worker,
                                                                     std::string server,
                                                                     client_options options);
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // The value goes to `into`, whose memory is used again; the reply's view is of it.
  [[nodiscard]] cordma::task<reply> get(std::string_view key, std::string* into);
  [[nodiscard]] cordma::task<reply> set(std::string_view key, std::string_view value,
                                        set_options options);
  [[nodiscard]] cordma::task<reply> erase(std::string_view key);
  // The batch outlives it, and nobody else uses it meanwhile.
  [[nodiscard]] cordma::task<void> run(batch* of);
  // A batch of gets alone: over shm, and with way_of_gets::one_sided, each is found as get() finds it, many at a time,
  // and those that are not are asked for in one batch. So what was set together may be found partly. Else this is run().
  [[nodiscard]] cordma::task<void> read(batch* of);
  // How the server fares, in the words of Redis's INFO; of that section, where it is not empty. Throws also
  // invalid_value: no section has so long a name.
  [[nodiscard]] cordma::task<std::string> info(std::string_view section);
  // Some keys, from `cursor` on (0: from the start), to the end of `into`; returns where to go on, 0 where there are no
  // more. What is there all the time is given at least once, some twice. Throws also invalid_value: the pattern is too
  // long.
  [[nodiscard]] cordma::task<std::uint64_t> scan(std::uint64_t cursor, scan_options options,
                                                 std::vector<scanned_key>* into);
  // Closes the connection; what is under way ends first.
  [[nodiscard]] cordma::task<void> close();

  [[nodiscard]] const client_counters& counters() const noexcept;
  [[nodiscard]] std::string_view transport() const noexcept;
  [[nodiscard]] const std::string& transport_reason() const noexcept;
  // Whether the server is on this machine and nevertheless serves each read, though nobody chose its transport.
  [[nodiscard]] bool fell_back() const;
  [[nodiscard]] std::uint32_t shards() const noexcept { return shards_count_; }
  [[nodiscard]] bool one_sided() const noexcept { return !shards_.empty(); }
  // Of read().
  [[nodiscard]] bool reads_many() const noexcept;

 private:
  client(cordma::Context& context, cordma::Worker& worker, const client_options& options);
  [[nodiscard]] cordma::task<void> greet(std::string token);
  [[nodiscard]] cordma::task<void> learn(std::uint32_t shard);
  // All that is asked goes this way: `answer` has what the server says, in memory of its own. The answer may be
  // `room_bytes` long, and a buffer's in any case.
  [[nodiscard]] cordma::task<void> ask(native::method m, std::span<const std::byte> what,
                                       std::size_t room_bytes, std::vector<std::byte>* answer);
  [[nodiscard]] cordma::task<bool> seen(hashed_key key, std::string* into, reply* found);
  // Looks for these at once, where the server's memory is mapped here: looks_ has what was found. False: it is not, or
  // others have to have their turn first.
  [[nodiscard]] bool looks_now(std::span<const hashed_key> keys);
  [[nodiscard]] cordma::task<void> read_awaited(batch* of, std::size_t first, std::size_t last);
  [[nodiscard]] cordma::task<void> read_one(batch* of, std::size_t i);
  [[nodiscard]] cordma::task<void> ask_for_rest(batch* of);
  // For one operation: an empty batch, whose memory is used again.
  [[nodiscard]] batch take_batch();
  void put_back(batch b);
  // Whether it was found; and counts it.
  [[nodiscard]] bool note(const native::sighting& s, std::string_view key);
  // Likewise, and what was found.
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
  client_options options_;  // but the token
  cordma::BufferPool requests_out_;
  cordma::BufferPool rooms_;
  cordma::BufferPool landings_;
  native::long_memory longer_;  // requests and rooms
  cordma::Messages messages_;
  cordma::Requests requests_;
  cordma::Endpoint server_;
  std::uint32_t shards_count_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<native::remote_shard> shards_;
  std::vector<native::look> looks_;
  std::vector<bucket> looked_at_;  // memory, aligned as buckets are: where what they load lands
  mutable client_counters counters_;
  std::uint64_t hits_ = 0;
  std::size_t usual_answer_ = 0;  // bytes; for long ones there is room the first time
  std::vector<batch> batches_;    // that nobody uses
  batch uses_;                    // of which the server is told with the next batch
};

}  // namespace kv
