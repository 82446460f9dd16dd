// How changes lie in a file: its header, its records, and what a record holds. All numbers little-endian.
//
//   file    header, then records without gaps
//   header  magic "cordmakv", version u16, kind u8, 0 u8, salt u32, first u64, written u64 (unix ms), 0 u32, crc u32
//   record  length u32, crc u32, sequence u64, then `length` bytes of changes that belong together
//   change  kind u8 and flags, key_bytes u16 and the key unless flag_same_key, then by kind:
//             put           value_bytes u32, expiry u64 if flag_expiry, version u64 if flag_version, value
//             erased        nothing
//             expiry_set    expiry u64 if flag_expiry
//             field_put     field_bytes u32, value_bytes u32, field, value
//             field_erased  field_bytes u32, field
//             cleared       (no key) hash seed u64, shard u16, shards u16: nothing is left whose hash lies there
//             end           (no key) records before it u64: the file is complete
//
// Sequences go up by one from record to record, also from an increment to the next one; `first` is the first record's.
// In a base, `first` is that of the increment which follows it. A record's crc is CRC32C of its changes, then of
// length, salt and sequence: what another file left on the disk is never taken for this one's.
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
  base = 1,       // what was there at some time; complete only with the increments that follow
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
// Errors: invalid_value, a sentence that goes on after the file's name. `bytes` may be any.
[[nodiscard]] cordma::result<log_header> decode_log_header(std::string_view bytes);

struct record_header {
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
  std::uint64_t sequence = 0;
};
[[nodiscard]] std::array<char, record_header_bytes> encode(const record_header& header) noexcept;
// REQUIRES record_header_bytes.
[[nodiscard]] record_header decode_record_header(const char* bytes) noexcept;

// CRC32C in parts: begins with crc_begin, goes on with what it returned.
inline constexpr std::uint32_t crc_begin = 0xFFFF'FFFF;
[[nodiscard]] std::uint32_t crc_more(std::uint32_t so_far, std::string_view bytes) noexcept;
// Of a record whose changes have given `of_changes`.
[[nodiscard]] std::uint32_t record_crc(std::uint32_t of_changes, std::uint32_t length,
                                       std::uint32_t salt, std::uint64_t sequence) noexcept;

// Where a change is of a part of all keys: those whose hash with this seed is of that one of so many shards.
struct hash_part {
  std::uint64_t seed = 0;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
};

// Writes changes behind each other. Not thread-safe. Where there is no memory for a change it ends the process:
// it would be lost, and was made already.
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
  // What it holds is forgotten; of its memory as much is kept as most groups need.
  void reset() noexcept;

 private:
  static constexpr std::size_t kept_bytes = std::size_t{256} << 10;
  void begin(std::uint8_t kind, std::string_view key, std::uint8_t flags = 0) noexcept;
  void number(std::uint64_t value, std::size_t bytes) noexcept;

  std::string text_;
  std::size_t key_at_ = 0;  // of the last key in it
  std::size_t key_bytes_ = 0;
  bool has_key_ = false;
};

// Who is told what a file says. `cleared()` of change_sink is never called: cleared_part() is.
class change_target : public change_sink {
 public:
  void cleared() noexcept final {}
  virtual void cleared_part(const hash_part& part) noexcept = 0;
  virtual void ended(std::uint64_t records) noexcept = 0;
  // Why it can take no more, in a sentence; empty: it can.
  [[nodiscard]] virtual std::string_view obstacle() const noexcept { return {}; }
};

// False: they are none, from some byte on; those before it were told.
[[nodiscard]] bool decode_changes(std::string_view changes, change_target& into) noexcept;

}  // namespace kv
