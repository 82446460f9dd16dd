// The protocol between the two sides of a transfer: frames on the streams of their lanes. All
// integers are little-endian. README.md describes the exchange.
//
//   frame    u32 bytes of the payload (at most longest_payload), u8 frame_kind, payload
//   text     u16 bytes, the bytes;  long text: u32 bytes, the bytes
#pragma once

#include "../../support/little_endian.hpp"
#include "../files/digest.hpp"
#include "../files/failed_place.hpp"
#include "../tree/entry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace copy {

inline constexpr std::uint16_t protocol_version = 6;
inline constexpr std::size_t frame_head_bytes = 5;
inline constexpr std::uint32_t longest_payload = 1U << 20;
inline constexpr std::size_t longest_text = (std::size_t{1} << 16) - 1;
inline constexpr std::uint32_t most_rules = 65536;  // in one hello
inline constexpr std::uint32_t smallest_chunk = 64U << 10;
inline constexpr std::uint32_t largest_chunk = 16U << 20;
inline constexpr std::uint32_t most_slots = 1024;  // of one lane
inline constexpr std::uint32_t most_lanes = 16;
inline constexpr std::uint32_t most_entries = 1U << 28;       // in one transfer
inline constexpr std::uint32_t longest_silence_s = 1U << 24;  // for --timeout
inline constexpr std::size_t most_slots_of_all = std::size_t{most_slots} * most_lanes;
inline constexpr std::size_t nonce_bytes = 32;
using nonce = std::array<std::byte, nonce_bytes>;

enum class frame_kind : std::uint8_t {
  // The handshake, on lane 0.
  hello = 1,      // client
  challenge = 2,  // server
  proof = 3,      // client
  welcome = 4,    // server
  refusal = 5,    // either side: ends the exchange, with a reason
  // Over TLS, on the other lanes.
  join = 6,    // client: this lane belongs to that session
  joined = 7,  // server
  // In both directions on each lane.
  memory = 10,  // receiver: the memory for chunks of this lane
  data = 11,    // sender, over TLS: bytes for a slot follow the frame
  alive = 12,   // either side, with --timeout: no contents
  // Sender.
  entries = 20,      // entry, entry, ...; numbered from 0 in the order of arrival
  entries_end = 21,  // the number of entries
  problems = 22,     // problem, problem, ...; either side
  chunk = 23,        // a part of a file is in a slot
  bundle = 24,       // complete small files are in a slot
  file_end = 25,     // no more data of this file follows
  compared = 27,     // whether a file has that digest
  all_sent = 26,
  // Receiver.
  wants = 30,    // wanted files, and their present chunks
  credit = 32,   // slots that are free again
  again = 33,    // a chunk that arrived damaged
  compare = 36,  // a file that may be the same: digest of the receiver's file
  items = 34,    // changes of entries, for display
  finished = 35,
  done = 37,  // on request: the finished files and the totals
};

// Appends one frame to a buffer.
class frame_writer : public support::byte_writer<frame_writer> {
 public:
  frame_writer(std::vector<std::byte>& out, frame_kind kind);
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;
  // Sets the length. REQUIRES: the payload is not longer than longest_payload.
  ~frame_writer();
  frame_writer& bytes(std::span<const std::byte> value);
  [[nodiscard]] std::size_t payload() const noexcept {
    return out_.size() - began_ - frame_head_bytes;
  }

 private:
  std::vector<std::byte>& out_;
  std::size_t began_;
};

// Reads a payload. Throws cordma::error (invalid_value) if it ends too early or contains an invalid
// value.
class frame_reader : public support::byte_reader<frame_reader> {
 public:
  frame_reader(frame_kind kind, std::span<const std::byte> payload) noexcept
      : byte_reader(payload), kind_(kind) {}
  [[nodiscard]] frame_kind kind() const noexcept { return kind_; }
  // Throws unless everything was read.
  void end() const;
  [[noreturn]] void too_short() const;

 private:
  frame_kind kind_;
};
// Throws cordma::error: invalid_value, with the kind of the frame.
[[noreturn]] void refuse(frame_kind kind, std::string_view what);

// Throws the error of a refusal frame: failed_place, or, if the peer refused the request,
// cordma::error: rejected, in the name of `who`.
[[noreturn]] void throw_refusal(frame_reader& in, const char* who);
void encode_refusal(std::vector<std::byte>& out, failing what, std::string_view why);

struct frame_head {
  std::uint32_t payload = 0;
  frame_kind kind = frame_kind::hello;
};
// Throws if the payload is too long or the kind is unknown.
[[nodiscard]] frame_head decode_head(std::span<const std::byte, frame_head_bytes> bytes);

// Direction of the files, from the client's view.
enum class direction : std::uint8_t { push = 1, pull = 2 };

// Options of a request that both sides need.
struct transfer_options {
  bool recursive = false;
  bool links = false;
  bool hard_links = false;
  bool devices = false;
  bool specials = false;  // FIFOs and sockets
  bool mode = false;
  bool times = false;
  bool owner = false;
  bool group = false;
  // Owner and group only as far as permitted, without a problem.
  bool owner_if_may = false;
  bool group_if_may = false;
  bool attributes = false;
  bool dry_run = false;
  bool delete_others = false;
  bool checksum = false;      // compare contents also if size and time are the same
  bool ignore_times = false;  // transfer files also if size and time are the same
  bool sparse = false;
  bool inplace = false;
  bool direct = true;  // long files bypass the page cache
  bool resume = true;
  bool sync = false;             // sync to the disk before a file has its name
  bool items = false;            // report the change of each entry
  bool acknowledge = false;      // the receiver sends `done` frames
  bool directory = false;        // the target is a directory, whether or not it exists
  bool update = false;           // skip files that are newer at the target
  bool size_only = false;        // files of the same size count as the same
  bool existing = false;         // skip entries that do not exist at the target
  bool ignore_existing = false;  // skip entries that exist at the target
  bool one_file_system = false;
  bool listed = false;  // --files-from: send only the other paths, which are below the first
  bool follow = false;  // -L: used by the sender only, and not sent
  std::uint64_t most_deleted = ~std::uint64_t{0};  // limit of --delete; making way does not count
  std::uint32_t chunk_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t bytes_per_s = 0;  // 0: no limit
  std::uint32_t silence_s = 0;    // silence of the peer that ends the transfer; 0: no limit
  friend bool operator==(const transfer_options&, const transfer_options&) = default;
};
static_assert(std::is_trivially_destructible_v<transfer_options>);

struct hello {
  std::uint16_t version = protocol_version;
  direction way = direction::push;
  std::string module;
  std::vector<std::string> paths;  // below the module: the target, or the sources (see listed)
  // Rules of the filter, in order, each "+ pattern" or "- pattern".
  std::vector<std::string> rules;
  transfer_options options;
  std::uint32_t lanes = 1;
  nonce random{};
  // Common id of all connections of one transfer: each ends the one before it. Zeros: no others.
  nonce transfer{};
  friend bool operator==(const hello&, const hello&) = default;
};

struct chunk_frame {
  std::uint32_t file = 0;  // number of the entry
  std::uint32_t slot = 0;
  std::uint64_t index = 0;   // number of the chunk, which begins at index * chunk_bytes
  std::uint32_t bytes = 0;   // in the slot
  std::uint8_t is_hole = 0;  // 1: `bytes` zeros; they are in no slot
  std::uint64_t digest = 0;  // XXH3, 64 bits, of the bytes
  friend bool operator==(const chunk_frame&, const chunk_frame&) = default;
};

struct bundled {
  std::uint32_t file = 0;
  std::uint32_t bytes = 0;
  friend bool operator==(const bundled&, const bundled&) = default;
};
struct bundle_frame {
  std::uint32_t slot = 0;
  std::uint64_t digest = 0;  // of all bytes in the slot, where the files are adjacent
  std::vector<bundled> files;
  friend bool operator==(const bundle_frame&, const bundle_frame&) = default;
};

// A wanted file, except for its present chunks.
struct want {
  std::uint32_t file = 0;
  std::vector<std::uint8_t> here;  // a bit per chunk, lowest first, set if present; empty: none
  friend bool operator==(const want&, const want&) = default;
};

// --checksum: the receiver sends the digest of its file, and the sender reports whether its file
// has it.
struct compare_frame {
  std::uint32_t file = 0;
  file_digest digest;
  friend bool operator==(const compare_frame&, const compare_frame&) = default;
};
struct compared_frame {
  std::uint32_t file = 0;
  bool same = false;
  friend bool operator==(const compared_frame&, const compared_frame&) = default;
};

struct file_end {
  enum class how : std::uint8_t { whole = 0, failed = 1, vanished = 2, changed = 3 };
  std::uint32_t file = 0;
  how outcome = how::whole;
  std::string why;          // if it is not whole
  std::uint64_t bytes = 0;  // of a stream that is whole
  friend bool operator==(const file_end&, const file_end&) = default;
};

// The result of a receiver at its end.
struct tally {
  std::uint64_t files = 0;  // transferred files
  std::uint64_t bytes = 0;  // received bytes of them, in chunks and bundles
  std::uint64_t same = 0;   // files that were unchanged
  std::uint64_t directories = 0;
  std::uint64_t links = 0;
  std::uint64_t specials = 0;  // including devices
  std::uint64_t deleted = 0;
  std::uint64_t resumed_bytes = 0;  // that an earlier transfer left
  std::uint64_t damaged = 0;        // chunks that arrived damaged, and were sent again
  std::uint64_t manifest = 0;       // see class manifest
  friend bool operator==(const tally&, const tally&) = default;
};

// The work of a receiver so far. Sent if the client may reconnect.
struct done_frame {
  tally so_far;               // without the manifest
  std::uint64_t durable = 0;  // bytes and entries that a further connection need not send again
  std::vector<std::uint32_t> files;  // files named since the last of these frames
  friend bool operator==(const done_frame&, const done_frame&) = default;
};

// A change of an entry, or of an existing file at the target; one line for people.
struct item {
  enum class change : std::uint8_t { made = 1, updated = 2, deleted = 3, metadata = 4 };
  // Bits of `differs`: the differences from the existing entry.
  static constexpr std::uint16_t contents = 1;
  static constexpr std::uint16_t size = 2;
  static constexpr std::uint16_t time = 4;
  static constexpr std::uint16_t mode = 8;
  static constexpr std::uint16_t owner = 16;
  static constexpr std::uint16_t group = 32;
  static constexpr std::uint16_t attributes = 64;
  static constexpr std::uint16_t everything = 127;  // an entry of another kind was there
  change what = change::made;
  entry_kind kind = entry_kind::file;
  std::string path;
  std::uint16_t differs = 0;
  bool is_device = false;
  friend bool operator==(const item&, const item&) = default;
};

void encode(std::vector<std::byte>& out, const hello& h);
[[nodiscard]] hello decode_hello(frame_reader& in);
void encode(frame_writer& out, const entry& e);
// Also throws if its path leads out of the target.
[[nodiscard]] entry decode_entry(frame_reader& in);
void encode(frame_writer& out, const problem& p);
[[nodiscard]] problem decode_problem(frame_reader& in);
void encode(std::vector<std::byte>& out, const chunk_frame& c);
[[nodiscard]] chunk_frame decode_chunk(frame_reader& in);
void encode(std::vector<std::byte>& out, const bundle_frame& b);
[[nodiscard]] bundle_frame decode_bundle(frame_reader& in);
void encode(frame_writer& out, const want& w);
[[nodiscard]] want decode_want(frame_reader& in);
void encode(std::vector<std::byte>& out, const compare_frame& c);
[[nodiscard]] compare_frame decode_compare(frame_reader& in);
void encode(std::vector<std::byte>& out, const compared_frame& c);
[[nodiscard]] compared_frame decode_compared(frame_reader& in);
void encode(std::vector<std::byte>& out, const file_end& f);
[[nodiscard]] file_end decode_file_end(frame_reader& in);
void encode(std::vector<std::byte>& out, const tally& t);
[[nodiscard]] tally decode_tally(frame_reader& in);
void encode(std::vector<std::byte>& out, const done_frame& d);
[[nodiscard]] done_frame decode_done(frame_reader& in);
void encode(frame_writer& out, const item& i);
[[nodiscard]] item decode_item(frame_reader& in);

}  // namespace copy
