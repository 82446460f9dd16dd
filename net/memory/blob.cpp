#include <cordma/net/memory/blob.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace cordma::detail {
namespace {

constexpr std::array<std::byte, 4> magic{std::byte{'C'}, std::byte{'R'}, std::byte{'M'},
                                         std::byte{'B'}};
constexpr std::array<std::byte, 4> sync_magic{std::byte{'C'}, std::byte{'R'}, std::byte{'S'},
                                              std::byte{'E'}};
static_assert(blob::bytes <= UINT16_MAX && sync_blob::bytes <= UINT16_MAX);

template <class T>
void put(std::byte* at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <class T>
T get(const std::byte* at) noexcept {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) v |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  return static_cast<T>(v);
}

constexpr auto crc_table = [] {
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ 0x82F63B78U : c >> 1;
    t[i] = c;
  }
  return t;
}();
static_assert(crc_table[1] == 0xF26B8303U && crc_table[255] == 0xAD7D5351U, "of RFC 3720");

template <class Blob>
std::uint32_t checksum(std::span<const std::byte> in) noexcept {
  std::array<std::byte, Blob::bytes> copy{};
  std::copy_n(in.begin(), Blob::bytes, copy.begin());
  std::fill_n(copy.begin() + static_cast<std::ptrdiff_t>(Blob::crc_at), 4, std::byte{0});
  return crc32c(copy);
}

failure damaged(const std::string& what) {
  return {errc::invalid_value, "not a usable blob: " + what + "; have it exported and sent again"};
}

// Checks the common beginning of each form, and its checksum.
template <class Blob>
result<void> check(std::span<const std::byte> in, const std::array<std::byte, 4>& begins) {
  if (in.size() < 8) return damaged(std::to_string(in.size()) + " bytes are too few");
  if (!std::equal(begins.begin(), begins.end(), in.begin())) {
    return damaged("it does not start with " +
                   std::string(reinterpret_cast<const char*>(begins.data()), begins.size()));
  }
  const auto version = get<std::uint16_t>(&in[4]);
  if (version != Blob::version) {
    return failure{errc::unsupported_version,
                   "blob of version " + std::to_string(version) + ", this build reads version " +
                       std::to_string(Blob::version) + ": run the same release on both sides"};
  }
  if (in.size() != Blob::bytes || get<std::uint16_t>(&in[6]) != Blob::bytes) {
    return damaged(std::to_string(in.size()) + " bytes instead of " + std::to_string(Blob::bytes));
  }
  if (get<std::uint32_t>(&in[Blob::crc_at]) != checksum<Blob>(in)) {
    return damaged("its checksum is wrong");
  }
  return {};
}

bool is_zero(std::span<const std::byte> bytes) noexcept {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

// REQUIRES a complete blob.
result<transport::remote_keys> keys_in(std::span<const std::byte> in) {
  constexpr std::size_t most = transport::remote_keys::most;
  const auto count = get<std::uint8_t>(&in[blob::count_at]);
  if (count == 0) return damaged("it has no key");
  if (count > most) {
    return damaged("it has " + std::to_string(count) + " keys, at most " + std::to_string(most) +
                   " fit");
  }
  transport::remote_keys keys;
  std::size_t at = blob::keys_at;
  for (std::size_t i = 0; i < count; ++i, at += blob::key_bytes) {
    const auto of = static_cast<transport::kind>(get<std::uint8_t>(&in[at]));
    const auto key = get<std::uint64_t>(&in[at + 1]);
    if (key == 0) return damaged("a key of it is 0");
    if (keys.has(of)) return damaged("it has two keys for one transport");
    keys.add(of, key);
  }
  if (!is_zero(in.subspan(at))) return damaged("reserved bytes are set");
  return keys;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data) noexcept {
  std::uint32_t c = 0xFFFFFFFFU;
  for (const std::byte b : data)
    c = crc_table[(c ^ std::to_integer<std::uint32_t>(b)) & 255U] ^ (c >> 8);
  return ~c;
}

void encode(const blob& b, std::span<std::byte, blob::bytes> out) noexcept {
  // decode() refuses others.
  CORDMA_ASSERT_OP(static_cast<unsigned>(b.rights) & ~unsigned{blob::rights_bits}, ==, 0U);
  CORDMA_REQUIRE_OP(b.keys.size(), >, 0);
  std::fill(out.begin(), out.end(), std::byte{0});
  std::copy(magic.begin(), magic.end(), out.begin());
  put<std::uint16_t>(&out[4], blob::version);
  put<std::uint16_t>(&out[6], blob::bytes);
  put<std::uint64_t>(&out[8], b.addr);
  put<std::uint64_t>(&out[16], b.length);
  put<std::uint8_t>(&out[blob::rights_at], static_cast<std::uint8_t>(b.rights));
  put<std::uint8_t>(&out[blob::memory_at], b.memory);
  put<std::uint16_t>(&out[blob::device_at], b.device);
  put<std::uint8_t>(&out[blob::count_at], static_cast<std::uint8_t>(b.keys.size()));
  std::size_t at = blob::keys_at;
  for (std::size_t i = 0; i < b.keys.size(); ++i, at += blob::key_bytes) {
    put<std::uint8_t>(&out[at], static_cast<std::uint8_t>(b.keys.kind_at(i)));
    put<std::uint64_t>(&out[at + 1], b.keys.key_at(i));
  }
  put<std::uint32_t>(&out[blob::crc_at], checksum<blob>(out));
}

void encode(const sync_blob& b, std::span<std::byte, sync_blob::bytes> out) noexcept {
  CORDMA_ASSERT_OP(b.word.length, ==, 8U);
  CORDMA_ASSERT_OP(b.word.addr % 8, ==, 0U);
  std::fill(out.begin(), out.end(), std::byte{0});
  std::copy(sync_magic.begin(), sync_magic.end(), out.begin());
  put<std::uint16_t>(&out[4], sync_blob::version);
  put<std::uint16_t>(&out[6], sync_blob::bytes);
  put<std::uint32_t>(&out[12], b.imm);
  put<std::uint8_t>(&out[16], b.notices ? 1 : 0);
  encode(b.word, out.subspan<sync_blob::word_at>());
  put<std::uint32_t>(&out[sync_blob::crc_at], checksum<sync_blob>(out));
}

result<blob> decode(std::span<const std::byte> in) {
  const result<void> whole = check<blob>(in, magic);
  if (!whole) return whole.why();
  blob b;
  b.addr = get<std::uint64_t>(&in[8]);
  b.length = get<std::uint64_t>(&in[16]);
  const auto rights = get<std::uint8_t>(&in[blob::rights_at]);
  if ((rights & ~blob::rights_bits) != 0) return damaged("unknown rights");
  b.rights = static_cast<transport::access>(rights);
  if (transport::normalized(b.rights) != b.rights) return damaged("inconsistent rights");
  if (b.length == 0 || b.addr + b.length < b.addr) return damaged("an impossible range");
  b.memory = get<std::uint8_t>(&in[blob::memory_at]);
  b.device = get<std::uint16_t>(&in[blob::device_at]);
  if (b.memory == 0 && b.device != 0) return damaged("the host's memory has a device");
  const result<transport::remote_keys> keys = keys_in(in);
  if (!keys) return keys.why();
  b.keys = *keys;
  return b;
}

result<sync_blob> decode_sync(std::span<const std::byte> in) {
  const result<void> whole = check<sync_blob>(in, sync_magic);
  if (!whole) return whole.why();
  const result<blob> word = decode(in.subspan(sync_blob::word_at));
  if (!word) return word.why();
  const auto notices = get<std::uint8_t>(&in[16]);
  const bool zero = is_zero(in.subspan(17, sync_blob::word_at - 17));
  if (notices > 1 || !zero) return damaged("reserved bytes are set");
  if (word->length != 8 || word->addr % 8 != 0) return damaged("its counter is no aligned word");
  sync_blob b;
  b.word = *word;
  b.imm = get<std::uint32_t>(&in[12]);
  b.notices = notices == 1;
  return b;
}

}  // namespace cordma::detail
