// Frames: every byte at its specified position, and invalid frames refused with the reason.
#include <doctest/doctest.h>

#include <cordma/net/protocol/frame.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

using namespace cordma;
using namespace cordma::protocol;

namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

std::vector<std::byte> framed(const frame_head& h, std::size_t body) {
  std::array<std::byte, head_bytes> head{};
  encode(h, head);
  std::vector<std::byte> out(head.begin(), head.end());
  out.resize(head_bytes + body);
  return out;
}

offer two_parts() {
  offer o{.total = 30, .number = 0x01020304, .parts = 2, .keys = 3};
  o.part[0] = {.addr = 0x1000, .bytes = 10, .rkeys = {0xAABB, 1, 2}};
  o.part[1] = {.addr = 0x2000, .bytes = 20, .rkeys = {0xCCDD, 3, 4}};
  return o;
}

std::vector<std::byte> encoded(const offer& o) {
  std::vector<std::byte> out(bytes_of(o));
  encode(o, out);
  return out;
}

failure complaint(const offer& o) { return decode_offer(encoded(o)).why(); }

constexpr hello usual{.eager_bytes = 8192, .credits = 64, .offers = 32, .rails = 3, .devices = 2};

std::vector<std::byte> encoded(const hello& h) {
  std::array<std::byte, hello_bytes> out{};
  encode(h, out);
  return {out.begin(), out.end()};
}

result<hello> said(std::span<const std::byte> body, std::uint64_t version = frame_version) {
  return decode_hello({.kind = frame_kind::hello, .word = version}, body);
}

result<void> look_at(std::span<const std::byte> frame) {
  frame_head unused;
  return decode(frame, unused);
}

bool names(const failure& f, const char* what) {
  return f.message().find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a head is 16 bytes, little-endian, as it is drawn") {
  std::array<std::byte, head_bytes> out{};
  encode({.kind = frame_kind::tag_ready,
          .given = 0x0102,
          .body = 0x03040506,
          .word = 0x0708090A0B0C0D0E},
         out);
  const auto drawn = bytes({2, 0, 2, 1, 6, 5, 4, 3, 0xE, 0xD, 0xC, 0xB, 0xA, 9, 8, 7});
  CHECK(std::ranges::equal(out, drawn));
}

TEST_CASE("what is no frame is refused, and it is said why") {
  CHECK(names(look_at(bytes({1, 0, 0})).why(), "shorter than a head"));
  CHECK(names(look_at(framed({.kind = static_cast<frame_kind>(0)}, 0)).why(), "kind 0"));
  CHECK(names(look_at(framed({.kind = static_cast<frame_kind>(12)}, 0)).why(), "kind 12"));
  CHECK(names(look_at(framed({.kind = frame_kind::tag_eager, .body = 3}, 4)).why(), "says 3"));
  for (const frame_kind empty : {frame_kind::done, frame_kind::given, frame_kind::wrote}) {
    CHECK(names(look_at(framed({.kind = empty, .body = 1}, 1)).why(), "there is none"));
  }
  const frame_head longest{.kind = frame_kind::rail, .body = longest_descriptor};
  CHECK(look_at(framed(longest, longest_descriptor)).ok());
  CHECK(look_at(framed({.kind = frame_kind::rail}, 0)).ok());
  const frame_head longer{.kind = frame_kind::rail, .body = longest_descriptor + 1};
  CHECK(names(look_at(framed(longer, longest_descriptor + 1)).why(), "of 257 bytes"));
  const std::uint64_t long_header = to_word(am_word{.id = 1, .header = 5});
  const frame_head active{.kind = frame_kind::am_eager, .body = 4, .word = long_header};
  CHECK(names(look_at(framed(active, 4)).why(), "longer than its body"));
  CHECK(look_at(framed({.kind = frame_kind::tag_eager, .body = 4}, 4)).ok());
}

TEST_CASE("words of the head hold their parts") {
  const am_word active = am_of(to_word(am_word{.id = 0xFFFE, .header = 0x1234}));
  CHECK(active.id == 0xFFFE);
  CHECK(active.header == 0x1234);
  const result<done_word> done =
      done_of(to_word(done_word{.offer = 0xFFFFFFFE, .outcome = offer_outcome::refused}));
  REQUIRE(done.ok());
  CHECK(done->offer == 0xFFFFFFFE);
  CHECK(done->outcome == offer_outcome::refused);
  CHECK(names(done_of(std::uint64_t{4} << 32).why(), "outcome 4"));
}

TEST_CASE("an offer comes back as it went, whatever follows it; cut off anywhere it is refused") {
  std::vector<std::byte> in = encoded(two_parts());
  for (std::size_t length = 0; length < in.size(); ++length) {
    CAPTURE(length);
    CHECK(names(decode_offer(std::span(in).first(length)).why(), "cut off"));
  }
  in.resize(in.size() + 5);
  const result<offer> out = decode_offer(in);
  REQUIRE(out.ok());
  CHECK(out->total == 30);
  CHECK(out->number == 0x01020304);
  REQUIRE(out->parts == 2);
  CHECK(out->part[1].addr == 0x2000);
  CHECK(out->keys == 3);
  CHECK(out->part[0].rkeys[0] == 0xAABB);
  CHECK(out->part[1].rkeys[0] == 0xCCDD);
  CHECK(out->part[1].rkeys[2] == 4);
  CHECK(out->part[1].bytes == 20);
}

TEST_CASE("an offer that does not add up, or is of no memory, is refused") {
  offer o = two_parts();
  o.total = 29;
  CHECK(names(complaint(o), "more than its sum"));
  o.total = 31;
  CHECK(names(complaint(o), "less than its sum"));
  o = two_parts();
  o.part[0].bytes = 0;
  CHECK(names(complaint(o), "no memory"));
  o = two_parts();
  o.part[1].addr = ~std::uint64_t{0};
  CHECK(names(complaint(o), "no memory"));
  std::vector<std::byte> in = encoded(two_parts());
  in[12] = std::byte{9};
  CHECK(names(decode_offer(in).why(), "9 parts"));
  for (const int keys : {0, 9}) {
    in = encoded(two_parts());
    in[14] = static_cast<std::byte>(keys);
    CHECK(names(decode_offer(in).why(), (std::to_string(keys) + " keys").c_str()));
  }
  CHECK(names(complaint({.total = 0}), "of nothing"));
  // An offer that cannot be read has no parts.
  const result<offer> sent = decode_offer(encoded(offer{.total = 7, .number = 2}));
  REQUIRE(sent.ok());
  CHECK(sent->total == 7);
  CHECK(sent->parts == 0);
}

TEST_CASE("a want comes back as it went; cut off, longer, or of no memory it is refused") {
  std::array<std::byte, want_bytes> out{};
  encode({.bytes = 0x0102, .addr = 0x0304, .rkey = 0x0506}, out);
  CHECK(out[0] == std::byte{2});
  CHECK(out[8] == std::byte{4});
  CHECK(out[16] == std::byte{6});
  const result<want> w = decode_want(out);
  REQUIRE(w.ok());
  CHECK(w->bytes == 0x0102);
  CHECK(w->addr == 0x0304);
  CHECK(w->rkey == 0x0506);
  for (std::size_t length = 0; length < want_bytes; ++length) {
    CHECK(names(decode_want(std::span(out).first(length)).why(), "cut off"));
  }
  std::vector<std::byte> longer(out.begin(), out.end());
  longer.resize(want_bytes + 1);
  CHECK(names(decode_want(longer).why(), "cut off"));
  encode({.bytes = 2, .addr = ~std::uint64_t{0}, .rkey = 1}, out);
  CHECK(names(decode_want(out).why(), "no memory"));
}

TEST_CASE("a hello tells what each side has; unknown parameters are passed over") {
  std::vector<std::byte> in = encoded(usual);
  const std::vector<std::byte> unknown = bytes({99, 0, 0, 0, 1, 2, 3, 4});
  in.insert(in.begin(), unknown.begin(), unknown.end());
  const result<hello> out = said(in);
  REQUIRE(out.ok());
  CHECK(out->eager_bytes == usual.eager_bytes);
  CHECK(out->credits == usual.credits);
  CHECK(out->offers == usual.offers);
  CHECK(out->rails == usual.rails);
  CHECK(out->devices == usual.devices);
}

TEST_CASE(
    "rails: the lesser of both wishes; one for each common device where a side leaves it open") {
  const auto agreed = [](std::uint32_t mine, std::uint32_t have, std::uint32_t theirs,
                         std::uint32_t they_have) {
    const agreed_rails one =
        agree({.rails = mine, .devices = have}, {.rails = theirs, .devices = they_have});
    const agreed_rails other =
        agree({.rails = theirs, .devices = they_have}, {.rails = mine, .devices = have});
    CHECK(one.rails == other.rails);
    CHECK(one.devices == other.devices);
    return std::pair(one.rails, one.devices);
  };
  using pair = std::pair<std::uint32_t, std::uint32_t>;
  CHECK(agreed(0, 1, 0, 1) == pair(1, 1));
  CHECK(agreed(0, 2, 0, 3) == pair(2, 2));
  CHECK(agreed(0, 2, 8, 1) == pair(1, 1));
  CHECK(agreed(3, 1, 5, 1) == pair(3, 1));
  CHECK(agreed(5, 4, 0, 4) == pair(4, 4));
  CHECK(agreed(1, 4, 8, 4) == pair(1, 4));
}

TEST_CASE("a hello of another version, or out of bounds, is refused by what is wrong with it") {
  const std::vector<std::byte> in = encoded(usual);
  const result<hello> newer = said(in, frame_version + 1);
  CHECK(newer.code() == errc::unsupported_version);
  CHECK(names(newer.why(), "mine 3, theirs 4"));
  CHECK(names(said(std::span(in).first(in.size() - 1)).why(), "cut off"));
  CHECK(names(said(std::span(in).first(2 * parameter_bytes)).why(), "offers is not said"));
  std::vector<std::byte> twice = in;
  twice.insert(twice.end(), in.begin(), in.begin() + parameter_bytes);
  CHECK(names(said(twice).why(), "eager_bytes is said twice"));
  CHECK(names(said(encoded({.eager_bytes = 100, .credits = 1, .offers = 1, .devices = 1})).why(),
              "eager_bytes is 100, not between 512"));
  CHECK(
      names(said(encoded({.eager_bytes = 8192, .credits = 0, .offers = 1})).why(), "credits is 0"));
  hello h = usual;
  h.rails = most_rails + 1;
  CHECK(names(said(encoded(h)).why(), "rails is 9, not between 0"));
  h = usual;
  h.devices = 0;
  CHECK(names(said(encoded(h)).why(), "devices is 0, not between 1"));
}
