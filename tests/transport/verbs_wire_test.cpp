// Control messages of verbs connections: encoded and decoded, and refused if damaged. Needs no
// device.
#include <doctest/doctest.h>

#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/wire.hpp>

#include <algorithm>

using namespace cordma;
using namespace cordma::transport::verbs;
using rights_bits = cordma::transport::access;
using transport::service;

namespace {

std::vector<std::byte> some(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::span<const std::byte> sent(const private_data& p) { return {p.bytes.data(), p.length}; }

}  // namespace

TEST_CASE("private data: the head and the user's bytes come back, padding does not") {
  for (hello_kind kind : {hello_kind::request, hello_kind::accept, hello_kind::reject}) {
    const std::size_t most = kind == hello_kind::request ? most_request_data : most_accept_data;
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, most}) {
      for (unsigned rights = 0; rights < 8; ++rights) {
        const hello h{.kind = kind,
                      .type = size == 1 ? service::uc : service::rc,
                      .mtu = 3,
                      .rnr_timer = 31,
                      .rights = static_cast<rights_bits>(rights << 1),
                      .control_pair = 0xABCDEF};
        const std::vector<std::byte> user = some(size);
        const private_data p = encode(h, user);
        const std::size_t carried = kind == hello_kind::request ? cm_request_bytes : p.length;
        const decoded_hello d = decode(std::span(p.bytes).first(carried));
        REQUIRE(d.what == decoded_hello::outcome::good);
        CHECK(d.value.kind == h.kind);
        CHECK(d.value.type == h.type);
        CHECK(d.value.mtu == 3);
        CHECK(d.value.rnr_timer == 31);
        CHECK(d.value.rights == h.rights);
        CHECK(d.value.control_pair == 0xABCDEF);
        CHECK(std::equal(d.user.begin(), d.user.end(), user.begin(), user.end()));
      }
    }
  }
}

TEST_CASE("private data: another version is told apart from what is not ours") {
  private_data p = encode(hello{.version = 2, .mtu = 1}, {});
  CHECK(decode(sent(p)).what == decoded_hello::outcome::other_version);
  CHECK(decode(sent(p)).value.version == 2);
  p.bytes[0] = std::byte{0x41};
  CHECK(decode(sent(p)).what == decoded_hello::outcome::not_ours);
  CHECK(decode({}).what == decoded_hello::outcome::not_ours);
  const private_data answer = encode(hello{.kind = hello_kind::accept, .mtu = 1}, {});
  CHECK(decode_request(sent(answer), transport::peer_kind::cordma).what ==
        decoded_hello::outcome::not_ours);
  CHECK(decode_request(sent(answer), transport::peer_kind::plain).user.size() ==
        sent(answer).size());
  private_data no_mtu = encode(hello{.mtu = 0}, {});
  CHECK(decode(sent(no_mtu)).what == decoded_hello::outcome::not_ours);
  private_data longer = encode(hello{.mtu = 1}, some(4));
  CHECK(decode(sent(longer).first(hello_bytes + 3)).what == decoded_hello::outcome::not_ours);
}

TEST_CASE("private data for a peer without cordma: the user's bytes and nothing else") {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, most_accept_data}) {
    const std::vector<std::byte> user = some(length);
    const private_data p = without_head(user);
    REQUIRE(p.length == length);
    CHECK(std::equal(user.begin(), user.end(), p.bytes.begin()));
  }
}

TEST_CASE("control datagrams: what was said comes back; anything else is dropped") {
  const control_message m{.what = word::sent,
                          .count = 0xFEDC,
                          .to_pair = 17,
                          .from_pair = 0xFFFFFE,
                          .to_token = 0x0123456789ABCDEF,
                          .from_token = 42};
  std::array<std::byte, control_bytes> bytes{};
  encode(m, bytes);
  control_message back;
  REQUIRE(decode(bytes, back));
  CHECK(back.what == m.what);
  CHECK(back.count == m.count);
  CHECK(back.to_pair == m.to_pair);
  CHECK(back.from_pair == m.from_pair);
  CHECK(back.to_token == m.to_token);
  CHECK(back.from_token == m.from_token);
  CHECK_FALSE(decode(std::span(bytes).first(31), back));
  for (std::size_t at : {0U, 4U, 5U}) {  // magic, version, kind
    std::array<std::byte, control_bytes> damaged = bytes;
    damaged[at] = std::byte{0x77};
    CHECK_FALSE(decode(damaged, back));
  }
}

TEST_CASE("descriptors: every field comes back, and every flipped bit is noticed") {
  pair_descriptor d{.type = service::uc,
                    .mtu = 5,
                    .rnr_timer = 9,
                    .rights = rights_bits::remote_read,
                    .lid = 0x1234,
                    .read_depth = 16,
                    .pair = 0x10203,
                    .first_psn = 0xFFFFFF,
                    .control_pair = 2,
                    .token = 0xFEDCBA9876543210};
  d.gid[15] = std::byte{1};
  const std::vector<std::byte> bytes = encode(d);
  REQUIRE(bytes.size() == descriptor_bytes);
  const pair_descriptor back = decode_descriptor(bytes).value();
  CHECK(back.type == d.type);
  CHECK(back.mtu == d.mtu);
  CHECK(back.rnr_timer == d.rnr_timer);
  CHECK(back.rights == d.rights);
  CHECK(back.lid == d.lid);
  CHECK(back.read_depth == d.read_depth);
  CHECK(back.pair == d.pair);
  CHECK(back.first_psn == d.first_psn);
  CHECK(back.control_pair == d.control_pair);
  CHECK(back.token == d.token);
  CHECK(back.gid == d.gid);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK(decode_descriptor(damaged).code() == errc::connection_aborted);
  }
  CHECK(decode_descriptor(std::span(bytes).first(59)).code() == errc::connection_aborted);
}

TEST_CASE("who sent a datagram: an IPv4 header, a GRH, and one that looks like both") {
  std::array<std::byte, grh_bytes> v4{};
  constexpr std::array<unsigned, 20> header{0x45, 0, 0,  60, 0x1C, 0x46, 0x40, 0,  64, 17,
                                            0,    0, 10, 77, 0,    1,    10,   77, 0,  2};
  for (std::size_t i = 0; i < header.size(); ++i) v4[20 + i] = static_cast<std::byte>(header[i]);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += (header[i] << 8) | header[i + 1];
  sum = (sum & 0xFFFF) + (sum >> 16);
  v4[30] = static_cast<std::byte>(~sum >> 8 & 0xFF);
  v4[31] = static_cast<std::byte>(~sum & 0xFF);
  const std::array<std::byte, 16> from_v4 = sender_of(v4);
  CHECK(from_v4[10] == std::byte{0xFF});
  CHECK(from_v4[12] == std::byte{10});
  CHECK(from_v4[15] == std::byte{1});
  v4[0] = std::byte{0x60};  // the bytes in front of the header may have any value
  CHECK(sender_of(v4) == from_v4);
  std::array<std::byte, grh_bytes> v6{};
  v6[0] = std::byte{0x60};
  for (std::size_t i = 0; i < 16; ++i) v6[8 + i] = static_cast<std::byte>(i + 1);
  const std::array<std::byte, 16> from_v6 = sender_of(v6);
  CHECK(from_v6[0] == std::byte{1});
  CHECK(from_v6[15] == std::byte{16});
}

TEST_CASE("work ids: every part comes back, at its limits too") {
  for (std::uint32_t n : {0U, 1U, 0x12345U, twenty_bits}) {
    const work_id id{.what = work::receive, .generation = n, .place = twenty_bits - n, .number = n};
    const work_id back = unpack(pack(id));
    CHECK(back.what == work::receive);
    CHECK(back.generation == n);
    CHECK(back.place == twenty_bits - n);
    CHECK(back.number == n);
  }
}

TEST_CASE("timers and sizes: the code is the nearest that keeps the promise") {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  for (std::uint8_t code = 1; code < 32; ++code) {
    CHECK(rnr_code(std::chrono::microseconds(rnr_microseconds[code])) == code);
  }
  CHECK(rnr_code(milliseconds(2)) == 16);
  CHECK(rnr_code(milliseconds(600)) == 0);  // 655 ms
  CHECK(rnr_code(seconds(10)) == 0);
  for (milliseconds whole : {milliseconds(1), milliseconds(100), milliseconds(5000)}) {
    const std::uint8_t code = timeout_code(whole, 7);
    const duration silence = silence_of(whole, code, 7);
    CHECK(silence >= whole / least_silence);
    CHECK(silence + tries_last(code, 7) <= whole);
    CHECK(tries_last(code + 1, 7) + whole / least_silence > whole);
  }
  CHECK(timeout_code(duration(1), 7) == 1);
  CHECK(timeout_code(std::chrono::hours(100), 0) == longest_timeout);
  CHECK(mtu_code(1024) == 3);
  CHECK(mtu_code(1500) == 0);
  CHECK(mtu_bytes(mtu_code(4096)) == 4096);
}

TEST_CASE("datagram addresses: those of another transport are not taken for ours") {
  datagram_address a{.lid = 7, .group = true};
  a.gid[0] = std::byte{0xFE};
  const transport::datagram_peer p = encode(a, 5, 9);
  datagram_address back;
  REQUIRE(decode(p, back));
  CHECK(back.gid == a.gid);
  CHECK(back.lid == 7);
  CHECK(back.group);
  CHECK(p.queue_pair == 5);
  CHECK(p.qkey == 9);
  transport::datagram_peer other = p;
  other.address_length = 12;
  CHECK_FALSE(decode(other, back));
}
