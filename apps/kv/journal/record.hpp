// The file format of changes: the header, the records and the content of a record. All numbers are
// little-endian.
//
//   file    header, then records without gaps
//   header  magic "cordmakv", version u16, kind u8, 0 u8, salt u32, first u64,
//           written u64 (unix ms), 0 u32, crc u32
//   record  length u32, crc u32, sequence u64, then `length` bytes of changes that belong together
//   change  kind u8 and flags, key_bytes u16 and the key unless flag_same_key, then by kind:
//             put           value_bytes u32, expiry u64 if flag_expiry,
//                           version u64 if flag_version, value
//             erased        nothing
//             expiry_set    expiry u64 if flag_expiry
//             field_put     field_bytes u32, value_bytes u32, field, value
//             field_erased  field_bytes u32, field
//             cleared       (no key) hash seed u64, shard u16, shards u16: all keys with a hash in
//                           that shard are erased
//             end           (no key) records before it u64: the file is complete
//
// Sequences increase by one per record, also from one increment to the next; `first` is the
// sequence of the first record. In a base, `first` is that of the increment that follows it. The
// crc of a record is the CRC32C of its changes, then of length, salt and sequence. The salt keeps
// remains of another file on the disk from being read as records of this one.
#pragma once

#include "../keyspace/journal_gate.hpp"
#include "../store/change_sink.hpp"
#include "../store/item.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kv {

enum class log_kind : std::uint8_t {
  base = 1,       // keys during a walk; complete only with the increments that follow
  increment = 2,  // changes
  snapshot = 3,   // complete by itself
};

struct log_header {
  log_kind kind = log_kind::increment;
  std::uint32_t salt = 0;
  std::uint64_t first = 1;
  unix_ms written = 0;
};

inline constexpr std::uint16_t log_version = 1;
inline constexpr std::size_t log_header_bytes = 40;
inline constexpr std::size_t record_header_bytes = 16;

[[nodiscard]] std::array<char, log_header_bytes> encode(const log_header& header) noexcept;
// `bytes` may be anything. Errors: invalid_value, with a sentence that continues after the file's
// name.
[[nodiscard]] cordma::result<log_header> decode_log_header(std::string_view bytes);

struct record_header {
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
  std::uint64_t sequence = 0;
};
[[nodiscard]] std::array<char, record_header_bytes> encode(const record_header& header) noexcept;
// REQUIRES record_header_bytes bytes.
[[nodiscard]] record_header decode_record_header(const char* bytes) noexcept;

// Computes a CRC32C in parts: starts with crc_begin, continues with the returned value.
inline constexpr std::uint32_t crc_begin = 0xFFFF'FFFF;
[[nodiscard]] std::uint32_t crc_more(std::uint32_t so_far, std::string_view bytes) noexcept;
// The crc of a record; `of_changes` is the CRC32C of its changes.
[[nodiscard]] std::uint32_t record_crc(std::uint32_t of_changes, std::uint32_t length,
                                       std::uint32_t salt, std::uint64_t sequence) noexcept;

// A part of all keys: the hash with this seed belongs to shard `shard` of `shards`.
struct hash_part {
  std::uint64_t seed = 0;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
};

// Encodes changes one after the other. Not thread-safe. If memory for a change cannot be allocated,
// it terminates the process: the change has already been made and would be lost.
class change_encoder {
 public:
  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t version) noexcept;
  void erased(std::string_view key) noexcept;
  void expiry_set(std::string_view key, unix_ms expiry) noexcept;
  void field_put(std::string_view key, std::string_view field, std::string_view value) noexcept;
  void field_erased(std::string_view key, std::string_view field) noexcept;
  void cleared(const hash_part& part) noexcept;
  void end(std::uint64_t records) noexcept;

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  // Empties it, and keeps as much memory as most groups need.
  void reset() noexcept;

 private:
  static constexpr std::size_t kept_bytes = std::size_t{256} << 10;
  void begin(std::uint8_t kind, std::string_view key, std::uint8_t flags = 0) noexcept;
  void number(std::uint64_t value, std::size_t bytes) noexcept;

  std::string text_;
  std::size_t key_at_ = 0;  // position of the last key in it
  std::size_t key_bytes_ = 0;
  bool has_key_ = false;
};

// Receiver of the changes in a file. `cleared()` of change_sink is never called; cleared_part() is.
class change_target : public change_sink {
 public:
  void cleared() noexcept final {}
  virtual void cleared_part(const hash_part& part) noexcept = 0;
  virtual void ended(std::uint64_t records) noexcept = 0;
  // A sentence why it can store no more; empty if it can.
  [[nodiscard]] virtual std::string_view obstacle() const noexcept { return {}; }
};

// Returns false if the bytes are invalid from some position on; the changes before it were passed
// to `into`.
[[nodiscard]] bool decode_changes(std::string_view changes, change_target& into) noexcept;

}  // namespace kv
