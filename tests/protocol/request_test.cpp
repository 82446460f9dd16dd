// Requests: every byte at its specified position, and invalid requests refused with the reason.
#include <doctest/doctest.h>

#include <cordma/net/protocol/request.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::protocol;

namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

std::vector<std::byte> encoded(const request_header& h) {
  std::vector<std::byte> out(bytes_of(h));
  encode(h, out);
  return out;
}

// The error for the header with one byte changed, or with `less` bytes missing at its end.
failure complaint(const request_header& h, std::size_t at, int value) {
  std::vector<std::byte> changed = encoded(h);
  changed[at] = static_cast<std::byte>(value);
  return decode_request(changed).why();
}

failure complaint(const request_header& h, std::size_t less = 0) {
  std::vector<std::byte> cut = encoded(h);
  cut.resize(cut.size() - less);
  return decode_request(cut).why();
}

bool names(const failure& f, const char* what) {
  return f.code() == errc::connection_aborted && f.message().find(what) != std::string::npos;
}

constexpr request_header asks{.kind = request_kind::request,
                              .flags = request_flag::writable,
                              .given = 0x0102,
                              .method = 0x0304,
                              .id = 0x05060708090A0B0C,
                              .microseconds_left = 0x11,
                              .room_bytes = 0x22,
                              .room_addr = 0x33,
                              .room_rkey = 0x44};
constexpr request_header answers{
    .kind = request_kind::response, .given = 1, .id = 2, .bytes = 0x0304};

}  // namespace

TEST_CASE("headers are little-endian, as they are drawn") {
  const auto request = bytes({1,    2, 4, 0, 2, 1, 4, 3, 0xC,  0xB, 0xA, 9, 8, 7, 6, 5,  //
                              0x11, 0, 0, 0, 0, 0, 0, 0, 0x22, 0,   0,   0, 0, 0, 0, 0,  //
                              0x33, 0, 0, 0, 0, 0, 0, 0, 0x44, 0,   0,   0, 0, 0, 0, 0});
  CHECK(encoded(asks) == request);
  const auto response = bytes({1, 3, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,  //
                               4, 3, 0, 0, 0, 0, 0, 0});
  CHECK(encoded(answers) == response);
  const request_header moved{
      .kind = request_kind::response, .outcome = request_outcome::redirected, .address = "a:1"};
  CHECK(encoded(moved).size() == response_bytes + 3);
  const request_header word{.kind = request_kind::hello, .given = 7};
  CHECK(encoded(word) == bytes({1, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("what was encoded is decoded, field by field") {
  const request_header r = decode_request(encoded(asks)).value();
  CHECK(r.kind == asks.kind);
  CHECK(r.flags == asks.flags);
  CHECK(r.given == asks.given);
  CHECK(r.method == asks.method);
  CHECK(r.id == asks.id);
  CHECK(r.microseconds_left == asks.microseconds_left);
  CHECK(r.room_bytes == asks.room_bytes);
  CHECK(r.room_addr == asks.room_addr);
  CHECK(r.room_rkey == asks.room_rkey);
  for (int i = 0; i <= static_cast<int>(last_outcome); ++i) {
    request_header said = answers;
    said.outcome = static_cast<request_outcome>(i);
    if (said.outcome == request_outcome::redirected) said.address = "host:80";
    const std::vector<std::byte> wire = encoded(said);
    const request_header a = decode_request(wire).value();
    CHECK(a.outcome == said.outcome);
    CHECK(a.bytes == answers.bytes);
    CHECK(a.address == said.address);
  }
}

TEST_CASE("what is no request is refused, and it is said why") {
  CHECK(names(decode_request({}).why(), "cut off"));
  CHECK(names(complaint(asks, 1, 0), "kind 0"));
  CHECK(names(complaint(asks, 1, 6), "kind 6"));
  CHECK(names(complaint(asks, 2, 8), "flags 8"));
  CHECK(names(complaint(answers, 2, 2), "flags 2"));
  CHECK(names(complaint(asks, 2, 2), "a receipt for what is answered"));
  CHECK(names(complaint(asks, 3, 1), "an outcome of no response"));
  CHECK(names(complaint(answers, 3, 8), "outcome 8"));
  CHECK(names(complaint(answers, 6, 1), "a method of no request"));
  CHECK(names(complaint(asks, 1), "another length"));
  CHECK(names(complaint(answers, 1), "cut off"));
  CHECK(names(complaint({.kind = request_kind::given, .id = 1}), "an id where there is none"));
  CHECK(names(complaint({.kind = request_kind::cancel}, 1), "cut off"));
  CHECK(names(complaint(asks, 2, 1 | 4), "room for an answer that it does not want"));
  CHECK(names(complaint(asks, 2, 0), "not writable"));
  request_header wraps = asks;
  wraps.room_addr = ~std::uint64_t{0};
  CHECK(names(complaint(wraps), "wraps"));
  request_header moved = answers;
  moved.outcome = request_outcome::redirected;
  CHECK(names(complaint(moved), "another length"));
  request_header odd = answers;
  odd.flags = response_flag::written;
  odd.outcome = request_outcome::failed;
  CHECK(names(complaint(odd), "failed and is written"));
  std::vector<std::byte> long_word = encoded({.kind = request_kind::hello, .given = 1});
  long_word.emplace_back();
  CHECK(names(decode_request(long_word).why(), "another length"));
}

TEST_CASE("another version is told of, with mine and theirs") {
  const failure why = complaint(asks, 0, 9);
  CHECK(why.code() == errc::unsupported_version);
  CHECK(why.message().find("mine 1, theirs 9") != std::string::npos);
}

TEST_CASE(
    "the address of a redirect is found, whatever follows it, and nothing else is taken for one") {
  std::array<std::byte, longest_redirect_data> data{};
  encode_redirect("host:80", data);
  CHECK(redirect_of(data) == "host:80");
  CHECK(redirect_of(std::span(data).first(redirect_head_bytes + 7)) == "host:80");
  CHECK(redirect_of(std::span(data).first(redirect_head_bytes + 6)).empty());
  CHECK(redirect_of(std::span(data).first(5)).empty());
  const std::string longest(longest_redirect, 'x');
  encode_redirect(longest, data);
  CHECK(redirect_of(data) == longest);
  data[5] = std::byte{longest_redirect + 1};
  CHECK(redirect_of(data).empty());
  encode_redirect("a:1", data);
  data[4] = std::byte{2};
  CHECK(redirect_of(data).empty());
  encode_redirect("a:1", data);
  data[0] = std::byte{0};
  CHECK(redirect_of(data).empty());
}
