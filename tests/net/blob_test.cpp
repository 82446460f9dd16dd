// Blobs of memory: an import has the properties of the exported memory, and damaged blobs are
// refused.
#include <doctest/doctest.h>
#include <support/paper_domain.hpp>
#include <support/stage.hpp>

#include <cordma/net/memory/blob.hpp>

#include <algorithm>
#include <array>

using namespace cordma;
using namespace cordma::test;
using detail::blob;
using transport::kind;

namespace {

constexpr kind ninth{9};
constexpr kind last{255};

blob sample() {
  blob b;
  b.addr = 0x7F00'1234'5000;
  b.length = 123'456;
  b.rights = cordma::access::remote_read | access::remote_write | access::local_write;
  b.keys.add(kind::shm, 0x8000'0000'0000'0001);
  b.keys.add(kind::verbs, 7);
  b.keys.add(kind::tcp, 0xFFFF'FFFF'FFFF'FFFF);
  return b;
}

std::vector<std::byte> encoded(const blob& b) {
  std::vector<std::byte> bytes(blob::bytes);
  detail::encode(b, std::span<std::byte, blob::bytes>(bytes));
  return bytes;
}

std::vector<std::byte> with_keys(std::initializer_list<kind> of) {
  blob b = sample();
  b.keys = {};
  std::uint64_t key = 100;
  for (const kind k : of) b.keys.add(k, ++key);
  return encoded(b);
}

// The blob with a correct checksum.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  const auto crc = std::span(bytes).subspan(blob::crc_at, 4);
  std::ranges::fill(crc, std::byte{0});
  const std::uint32_t sum = detail::crc32c(bytes);
  for (std::size_t i = 0; i < 4; ++i) crc[i] = static_cast<std::byte>(sum >> (8 * i));
  return bytes;
}

std::vector<std::byte> changed(std::size_t at, unsigned value) {
  std::vector<std::byte> bytes = encoded(sample());
  bytes[at] = static_cast<std::byte>(value);
  return sealed(std::move(bytes));
}

bool says(const failure& why, std::string_view text) {
  return why.message().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("C3: CRC32C is the one of RFC 3720") {
  std::vector<std::byte> zeros(32);
  CHECK(detail::crc32c(zeros) == 0x8A9136AAU);
  std::vector<std::byte> ones(32, std::byte{0xFF});
  CHECK(detail::crc32c(ones) == 0x62A8AB43U);
}

TEST_CASE("C3: a blob says on the other side what it was made from") {
  const blob b = sample();
  const std::vector<std::byte> bytes = encoded(b);
  CHECK(bytes.size() == RemoteMemory::blob_bytes);
  const RemoteMemory m = RemoteMemory::import(bytes).value();
  CHECK(m.size() == b.length);
  CHECK(m.rights() == b.rights);
  CHECK(m.all().addr() == b.addr);
  CHECK(m.skipped() == 0);
  for (const kind k : transport::kinds) {
    std::uint64_t key = 0;
    CHECK(b.keys.get(k, key) == (k != kind::sim && k != kind::test));
    CHECK(m.all().rkey(k) == key);
  }
}

TEST_CASE("C3: a blob of version 2 lies in memory as its header says") {
  blob b = sample();
  b.memory = 1;
  b.device = 0x0203;
  const std::vector<std::byte> bytes = encoded(b);
  std::vector<std::uint8_t> expected{
      'C',  'R',  'M',  'B',  2,   0,    64,  0,          // magic, version, length
      0,    0x50, 0x34, 0x12, 0,   0x7F, 0,   0,          // address
      0x40, 0xE2, 1,    0,    0,   0,    0,   0,          // length of the memory
      7,    1,    3,    2,                                // rights, kind of memory, device
      0,    0,    0,    0,                                // checksum, compared separately
      3,                                                  // keys
      0,    1,    0,    0,    0,   0,    0,   0,   0x80,  // shm
      3,    7,    0,    0,    0,   0,    0,   0,   0,     // verbs
      1,    255,  255,  255,  255, 255,  255, 255, 255,   // tcp
      0,    0,    0,    0};
  REQUIRE(expected.size() == bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= blob::crc_at && i < blob::count_at) continue;
    CAPTURE(i);
    CHECK(std::to_integer<std::uint8_t>(bytes[i]) == expected[i]);
  }
  CHECK(sealed(bytes) == bytes);
}

TEST_CASE("C3: every three transports have their keys side by side, in the order they were added") {
  constexpr unsigned kinds = transport::kind_count + 2;  // two of them are unknown
  for (unsigned order = 0; order < kinds * kinds * kinds; ++order) {
    const std::array<kind, 3> of{kind(order % kinds), kind(order / kinds % kinds),
                                 kind(order / kinds / kinds)};
    if (of[0] == of[1] || of[0] == of[2] || of[1] == of[2]) continue;
    CAPTURE(order);
    transport::remote_keys keys;
    for (std::size_t i = 0; i < of.size(); ++i) keys.add(of[i], 10 + i);
    for (std::size_t i = 0; i < of.size(); ++i) {
      CHECK(keys.kind_at(i) == of[i]);
      CHECK(keys.key_at(i) == 10 + i);
      std::uint64_t key = 0;
      CHECK(keys.get(of[i], key));
      CHECK(key == 10 + i);
    }
    for (const kind k : transport::kinds) {
      std::uint64_t key = 0;
      CHECK(keys.get(k, key) == keys.has(k));
    }
  }
}

TEST_CASE("C3: a blob cut at any place, or longer, is refused") {
  const std::vector<std::byte> bytes = encoded(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    const result<RemoteMemory> r = RemoteMemory::import(std::span(bytes).first(n));
    REQUIRE(r.code() == errc::invalid_value);
    CHECK_FALSE(r.why().message().empty());
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(RemoteMemory::import(longer).code() == errc::invalid_value);
}

TEST_CASE("C3: a blob with any one bit flipped is refused") {
  const std::vector<std::byte> bytes = encoded(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    const result<RemoteMemory> r = RemoteMemory::import(damaged);
    const bool in_version = bit / 8 == 4 || bit / 8 == 5;
    CHECK(r.code() == (in_version ? errc::unsupported_version : errc::invalid_value));
  }
}

TEST_CASE("C3: a blob of another version is unsupported_version, naming theirs and ours") {
  for (const unsigned version : {0U, 1U, 3U}) {
    CAPTURE(version);
    const result<RemoteMemory> r = RemoteMemory::import(changed(4, version));
    REQUIRE(r.code() == errc::unsupported_version);
    CHECK(says(r.why(), "version " + std::to_string(version)));
    CHECK(says(r.why(), "version 2"));
  }
}

TEST_CASE("C3: a blob whose checksum is right and whose content cannot be is refused") {
  blob wraps = sample();
  wraps.addr = ~std::uint64_t{0} - 10;
  CHECK(RemoteMemory::import(encoded(wraps)).code() == errc::invalid_value);
  blob empty = sample();
  empty.length = 0;
  CHECK(RemoteMemory::import(encoded(empty)).code() == errc::invalid_value);
  blob odd = sample();
  odd.rights = access::remote_write;
  CHECK(RemoteMemory::import(encoded(odd)).code() == errc::invalid_value);
  blob nowhere = sample();
  nowhere.device = 256;
  CHECK(RemoteMemory::import(encoded(nowhere)).code() == errc::invalid_value);
}

TEST_CASE("C3: a blob without a key, or with more than fit, is refused and says how many") {
  const result<RemoteMemory> none = RemoteMemory::import(changed(blob::count_at, 0));
  CHECK(none.code() == errc::invalid_value);
  CHECK(says(none.why(), "no key"));
  for (const unsigned count : {4U, 255U}) {
    CAPTURE(count);
    const result<RemoteMemory> r = RemoteMemory::import(changed(blob::count_at, count));
    CHECK(r.code() == errc::invalid_value);
    CHECK(says(r.why(), std::to_string(count) + " keys"));
    CHECK(says(r.why(), "at most 3"));
  }
}

TEST_CASE("C3: a key of 0, two of one transport, and bytes behind the last are refused") {
  blob two = sample();
  two.keys = {kind::tcp, 5};
  std::vector<std::byte> zero = encoded(two);
  zero[blob::keys_at + 1] = std::byte{0};
  CHECK(RemoteMemory::import(sealed(zero)).code() == errc::invalid_value);
  CHECK(RemoteMemory::import(changed(blob::keys_at, 1)).code() == errc::invalid_value);
  for (std::size_t at = blob::keys_at + blob::key_bytes; at < blob::bytes; ++at) {
    CAPTURE(at);
    std::vector<std::byte> more = encoded(two);
    more[at] = std::byte{1};
    CHECK(RemoteMemory::import(sealed(more)).code() == errc::invalid_value);
  }
}

TEST_CASE("C3: the key of an unknown transport is skipped and counted") {
  const RemoteMemory some = RemoteMemory::import(with_keys({ninth, kind::tcp, last})).value();
  CHECK(some.skipped() == 2);
  CHECK(some.all().rkey(kind::tcp) == 102);
  CHECK(some.slice(1, 2).value().rkey(kind::tcp) == 102);
  for (const kind k : transport::kinds) {
    if (k != kind::tcp) CHECK(some.all().rkey(k) == 0);
  }
  const RemoteMemory none = RemoteMemory::import(with_keys({ninth, last})).value();
  CHECK(none.skipped() == 2);
  for (const kind k : transport::kinds) CHECK(none.all().rkey(k) == 0);
}

TEST_CASE("C3: memory with keys of unknown transports only is not_supported where it is used") {
  stage s({}, kind::tcp);
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    const RemoteMemory remote = RemoteMemory::import(with_keys({ninth, last})).value();
    MemoryRegion mine = client_memory(on, 64);
    const RemoteSlice word = remote.slice(0, 8).value();
    const Slice local = mine.all().first(8);
    const result<void> written = co_await w.client.write(word, local).result();
    const result<void> read = co_await w.client.read(word, local).result();
    const result<std::uint64_t> added = co_await w.client.fetch_add(word, 1).result();
    const result<RemoteView> seen = w.client.view(word);
    for (const failure& why : {written.why(), read.why(), added.why(), seen.why()}) {
      CHECK(why.code() == errc::not_supported);
      CHECK(says(why, "(9, 255)"));
      CHECK(says(why, "none for tcp"));
    }
    // It is another error to use a transport for which the owner did not export the memory.
    const RemoteMemory elsewhere = RemoteMemory::import(with_keys({kind::shm, ninth})).value();
    const result<void> refused =
        co_await w.client.write(elsewhere.slice(0, 8).value(), local).result();
    CHECK(refused.code() == errc::not_permitted);
    CHECK(says(refused.why(), "only for shm, 9"));
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE(
    "C3: a blob that is changed anywhere and sealed again is refused, or means what it says") {
  constexpr std::uint64_t seed = 41;
  dice d(seed);
  std::size_t accepted = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::byte> bytes = encoded(sample());
    const std::size_t changes = 1 + d.below(4);
    for (std::size_t i = 0; i < changes; ++i) {
      bytes[d.below(bytes.size())] = static_cast<std::byte>(d.below(d.below(4) == 0 ? 256 : 5));
    }
    CAPTURE(seed);
    CAPTURE(round);
    const std::vector<std::byte> whole = sealed(std::move(bytes));
    const result<RemoteMemory> m = RemoteMemory::import(whole);
    if (!m) {
      ++refused;
      const bool expected =
          m.code() == errc::invalid_value || m.code() == errc::unsupported_version;
      REQUIRE(expected);
      REQUIRE_FALSE(m.why().message().empty());
      continue;
    }
    ++accepted;
    REQUIRE(encoded(detail::decode(whole).value()) == whole);
    REQUIRE(m->skipped() <= m->all().keys().size());
    REQUIRE(m->slice(0, m->size()).ok());
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

namespace {

context_options papers(std::initializer_list<kind> of) {
  context_options o;
  for (const kind k : of) o.domains.push_back(paper_domain::of(k));
  return o;
}

}  // namespace

TEST_CASE("C3: memory of more transports than a blob has keys for is not exported, and says why") {
  for (const bool fits : {true, false}) {
    Context context(fits ? papers({kind::test, kind::verbs, kind::sim})
                         : papers({kind::test, kind::verbs, kind::sim, kind::shm}));
    MemoryRegion region = context.allocate(64, every_right).value();
    const result<std::vector<std::byte>> exported_as = region.export_blob();
    CHECK(exported_as.code() == (fits ? errc::ok : errc::invalid_value));
    if (!fits) CHECK(says(exported_as.why(), "4 transports, a blob holds 3"));
    if (!fits) continue;
    // In the order of preference of the Context.
    const transport::remote_keys keys = RemoteMemory::import(*exported_as).value().all().keys();
    REQUIRE(keys.size() == 3);
    CHECK(keys.kind_at(0) == kind::test);
    CHECK(keys.kind_at(1) == kind::verbs);
    CHECK(keys.kind_at(2) == kind::sim);
  }
}
