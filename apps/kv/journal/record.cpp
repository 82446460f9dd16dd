#include "record.hpp"

#include "../store/checksum.hpp"

#include <bit>
#include <cstring>
#include <optional>

namespace kv {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::string_view magic = "cordmakv";
constexpr std::size_t header_crc_at = log_header_bytes - sizeof(std::uint32_t);

enum change : std::uint8_t {
  change_put = 1,
  change_erased = 2,
  change_expiry_set = 3,
  change_field_put = 4,
  change_field_erased = 5,
  change_cleared = 6,
  change_end = 7,
};
constexpr std::uint8_t change_mask = 0x0F;
constexpr std::uint8_t flag_same_key = 0x10;  // the same key as the previous change in the record
constexpr std::uint8_t flag_expiry = 0x20;
constexpr std::uint8_t flag_version = 0x40;

template <class T>
void store_at(char* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T load_at(const char* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Reads from the front of a text, never beyond its end.
class cursor {
 public:
  explicit cursor(std::string_view rest) noexcept : rest_(rest) {}
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
  template <class T>
  [[nodiscard]] bool number(T& into) noexcept {
    if (rest_.size() < sizeof(T)) return false;
    into = load_at<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  [[nodiscard]] bool text(std::size_t bytes, std::string_view& into) noexcept {
    if (rest_.size() < bytes) return false;
    into = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

 private:
  std::string_view rest_;
};

class decoder {
 public:
  decoder(std::string_view changes, change_target& into) noexcept : in_(changes), into_(into) {}
  [[nodiscard]] bool all() noexcept {
    while (!in_.at_end()) {
      if (!one()) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] bool one() noexcept {
    std::uint8_t head = 0;
    if (!in_.number(head)) return false;
    flags_ = static_cast<std::uint8_t>(head & ~change_mask);
    const std::uint8_t kind = head & change_mask;
    if (kind == change_cleared) return flags_ == 0 && cleared();
    if (kind == change_end) return flags_ == 0 && end();
    if (!key()) return false;
    switch (kind) {
      case change_put: return put();
      case change_erased: return only(0) && (into_.erased(key_), true);
      case change_expiry_set: return only(flag_expiry) && expiry_set();
      case change_field_put: return only(0) && field_put();
      case change_field_erased: return only(0) && field_erased();
      default: return false;
    }
  }
  // True if no other flags are set.
  [[nodiscard]] bool only(std::uint8_t allowed) const noexcept {
    return (flags_ & ~(allowed | flag_same_key)) == 0;
  }
  [[nodiscard]] bool key() noexcept {
    if ((flags_ & flag_same_key) != 0) return has_key_;
    std::uint16_t bytes = 0;
    has_key_ = in_.number(bytes) && in_.text(bytes, key_);
    return has_key_;
  }
  [[nodiscard]] bool optional_number(std::uint8_t flag, std::uint64_t& into) noexcept {
    return (flags_ & flag) == 0 || in_.number(into);
  }
  [[nodiscard]] bool put() noexcept {
    std::uint32_t bytes = 0;
    unix_ms expiry = never_expires;
    std::uint64_t version = 0;
    std::string_view value;
    if (!only(flag_expiry | flag_version) || !in_.number(bytes) || bytes > max_value_bytes ||
        !optional_number(flag_expiry, expiry) || !optional_number(flag_version, version) ||
        !in_.text(bytes, value)) {
      return false;
    }
    into_.put(key_, value, expiry, version);
    return true;
  }
  [[nodiscard]] bool expiry_set() noexcept {
    unix_ms expiry = never_expires;
    if (!optional_number(flag_expiry, expiry)) return false;
    into_.expiry_set(key_, expiry);
    return true;
  }
  [[nodiscard]] bool field_put() noexcept {
    std::uint32_t field_bytes = 0;
    std::uint32_t value_bytes = 0;
    std::string_view field;
    std::string_view value;
    if (!in_.number(field_bytes) || !in_.number(value_bytes) || field_bytes > max_value_bytes ||
        value_bytes > max_value_bytes || !in_.text(field_bytes, field) ||
        !in_.text(value_bytes, value)) {
      return false;
    }
    into_.field_put(key_, field, value);
    return true;
  }
  [[nodiscard]] bool field_erased() noexcept {
    std::uint32_t bytes = 0;
    std::string_view field;
    if (!in_.number(bytes) || bytes > max_value_bytes || !in_.text(bytes, field)) return false;
    into_.field_erased(key_, field);
    return true;
  }
  [[nodiscard]] bool cleared() noexcept {
    hash_part part;
    std::uint16_t shard = 0;
    std::uint16_t shards = 0;
    if (!in_.number(part.seed) || !in_.number(shard) || !in_.number(shards) || shard >= shards) {
      return false;
    }
    part.shard = shard;
    part.shards = shards;
    into_.cleared_part(part);
    return true;
  }
  [[nodiscard]] bool end() noexcept {
    std::uint64_t records = 0;
    if (!in_.number(records)) return false;
    into_.ended(records);
    return true;
  }

  cursor in_;
  change_target& into_;
  std::string_view key_;
  bool has_key_ = false;
  std::uint8_t flags_ = 0;
};

}  // namespace

std::uint32_t crc_more(std::uint32_t so_far, std::string_view bytes) noexcept {
  // crc32c() passes the length on as an int
  static_assert(max_record_bytes < std::size_t{1} << 31);
  return crc32c(bytes.data(), bytes.size(), so_far);
}

std::uint32_t record_crc(std::uint32_t of_changes, std::uint32_t length, std::uint32_t salt,
                         std::uint64_t sequence) noexcept {
  std::array<char, 16> rest;
  store_at(rest.data(), length);
  store_at(&rest[4], salt);
  store_at(&rest[8], sequence);
  return ~crc_more(of_changes, {rest.data(), rest.size()});
}

std::array<char, log_header_bytes> encode(const log_header& header) noexcept {
  std::array<char, log_header_bytes> out{};
  std::memcpy(out.data(), magic.data(), magic.size());
  store_at(&out[8], log_version);
  store_at(&out[10], header.kind);
  store_at(&out[12], header.salt);
  store_at(&out[16], header.first);
  store_at(&out[24], header.written);
  store_at(&out[header_crc_at], ~crc_more(crc_begin, {out.data(), header_crc_at}));
  return out;
}

cordma::result<log_header> decode_log_header(std::string_view bytes) {
  const auto broken = [](std::string why) {
    return cordma::failure(cordma::errc::invalid_value, std::move(why));
  };
  if (bytes.size() < log_header_bytes) return broken("is too short for a file of cordma-kv");
  if (bytes.substr(0, magic.size()) != magic) {
    return broken("is no file of cordma-kv: it does not begin with \"cordmakv\"");
  }
  const auto version = load_at<std::uint16_t>(&bytes[8]);
  if (version != log_version) {
    return broken("has format " + std::to_string(version) + ", and this cordma-kv reads " +
                  std::to_string(log_version) + ": use the version that wrote it");
  }
  const std::uint32_t crc = ~crc_more(crc_begin, bytes.substr(0, header_crc_at));
  if (crc != load_at<std::uint32_t>(&bytes[header_crc_at])) {
    return broken("has a damaged header: its checksum is wrong");
  }
  log_header header;
  header.kind = load_at<log_kind>(&bytes[10]);
  if (header.kind < log_kind::base || header.kind > log_kind::snapshot) {
    return broken("is of a kind that this cordma-kv does not know");
  }
  header.salt = load_at<std::uint32_t>(&bytes[12]);
  header.first = load_at<std::uint64_t>(&bytes[16]);
  header.written = load_at<unix_ms>(&bytes[24]);
  if (header.first == 0) return broken("has a header that makes no sense: no record has number 0");
  return header;
}

std::array<char, record_header_bytes> encode(const record_header& header) noexcept {
  std::array<char, record_header_bytes> out;
  store_at(out.data(), header.length);
  store_at(&out[4], header.crc);
  store_at(&out[8], header.sequence);
  return out;
}

record_header decode_record_header(const char* bytes) noexcept {
  return {load_at<std::uint32_t>(bytes), load_at<std::uint32_t>(bytes + 4),
          load_at<std::uint64_t>(bytes + 8)};
}

void change_encoder::number(std::uint64_t value, std::size_t bytes) noexcept {
  text_.append(reinterpret_cast<const char*>(&value), bytes);
}

void change_encoder::begin(std::uint8_t kind, std::string_view key, std::uint8_t flags) noexcept {
  const bool same = has_key_ && std::string_view(text_).substr(key_at_, key_bytes_) == key;
  text_.push_back(static_cast<char>(kind | flags | (same ? flag_same_key : 0)));
  if (same) return;
  number(key.size(), sizeof(std::uint16_t));
  key_at_ = text_.size();
  key_bytes_ = key.size();
  has_key_ = true;
  text_.append(key);
}

void change_encoder::put(std::string_view key, std::string_view value, unix_ms expiry,
                         std::uint64_t version) noexcept {
  const bool expires = expiry != never_expires;
  const bool versioned = version != 0;
  begin(change_put, key,
        static_cast<std::uint8_t>((expires ? flag_expiry : 0) | (versioned ? flag_version : 0)));
  number(value.size(), sizeof(std::uint32_t));
  if (expires) number(expiry, sizeof expiry);
  if (versioned) number(version, sizeof version);
  text_.append(value);
}

void change_encoder::erased(std::string_view key) noexcept { begin(change_erased, key); }

void change_encoder::expiry_set(std::string_view key, unix_ms expiry) noexcept {
  const bool expires = expiry != never_expires;
  begin(change_expiry_set, key, expires ? flag_expiry : 0);
  if (expires) number(expiry, sizeof expiry);
}

void change_encoder::field_put(std::string_view key, std::string_view field,
                               std::string_view value) noexcept {
  begin(change_field_put, key);
  number(field.size(), sizeof(std::uint32_t));
  number(value.size(), sizeof(std::uint32_t));
  text_.append(field);
  text_.append(value);
}

void change_encoder::field_erased(std::string_view key, std::string_view field) noexcept {
  begin(change_field_erased, key);
  number(field.size(), sizeof(std::uint32_t));
  text_.append(field);
}

void change_encoder::cleared(const hash_part& part) noexcept {
  text_.push_back(change_cleared);
  number(part.seed, sizeof part.seed);
  number(part.shard, sizeof(std::uint16_t));
  number(part.shards, sizeof(std::uint16_t));
}

void change_encoder::end(std::uint64_t records) noexcept {
  text_.push_back(change_end);
  number(records, sizeof records);
}

void change_encoder::reset() noexcept {
  if (text_.capacity() > kept_bytes) {
    text_ = std::string();
  } else {
    text_.clear();
  }
  has_key_ = false;
}

bool decode_changes(std::string_view changes, change_target& into) noexcept {
  return decoder(changes, into).all();
}

}  // namespace kv
