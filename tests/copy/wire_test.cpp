// Frames decode to the encoded values, and frames of any other length are refused.
#include "../../apps/cp/protocol/wire.hpp"
#include "../../apps/cp/protocol/lane.hpp"

#include <cordma/runtime/result.hpp>

#include <doctest/doctest.h>

#include <string>
#include <tuple>

using namespace copy;

namespace {

using bytes = std::vector<std::byte>;

frame_reader reader_of(const bytes& frame) {
  const std::span<const std::byte> all(frame);
  const frame_head head = decode_head(all.first<frame_head_bytes>());
  REQUIRE(head.payload == frame.size() - frame_head_bytes);
  return {head.kind, all.subspan(frame_head_bytes)};
}

hello a_hello() {
  hello h;
  h.way = direction::pull;
  h.module = "box";
  h.paths = {"a/b/", "c\nd"};
  h.rules = {"- *.o", "+ /x/"};
  h.options.recursive = h.options.times = h.options.resume = true;
  h.options.chunk_bytes = 1U << 20;
  h.options.memory_bytes = 1U << 25;
  h.options.silence_s = 30;
  h.lanes = 3;
  h.random[7] = std::byte{9};
  h.transfer[31] = std::byte{8};
  h.options.acknowledge = true;
  return h;
}

entry an_entry() {
  entry e;
  e.kind = entry_kind::symlink;
  e.mode = 04755;
  e.uid = 1000;
  e.size = 5;
  e.finished = true;
  e.modified = {-3, 999'999'999};
  e.path = "dir/\xff";
  e.target = "../elsewhere";
  e.attributes = {{"user.x", std::string("\0y", 2)}};
  return e;
}

template <class Decode>
void refuses_every_other_length(const bytes& frame, Decode decode) {
  const std::span<const std::byte> payload = std::span(frame).subspan(frame_head_bytes);
  const frame_kind kind = reader_of(frame).kind();
  for (std::size_t n = 0; n < payload.size(); ++n) {
    CAPTURE(n);
    frame_reader shorter(kind, payload.first(n));
    CHECK_THROWS_AS(std::ignore = decode(shorter), cordma::error);
  }
  bytes longer(payload.begin(), payload.end());
  longer.push_back({});
  frame_reader more(kind, longer);
  CHECK_THROWS_AS(std::ignore = decode(more), cordma::error);
}

}  // namespace

TEST_CASE("a hello is what it was") {
  bytes out;
  encode(out, a_hello());
  frame_reader in = reader_of(out);
  CHECK(decode_hello(in) == a_hello());
  refuses_every_other_length(out, [](frame_reader& r) { return decode_hello(r); });
}

TEST_CASE("a hello of another version says which") {
  hello h = a_hello();
  h.version = protocol_version + 1;
  bytes out;
  encode(out, h);
  frame_reader in = reader_of(out);
  const std::string said = "version " + std::to_string(protocol_version + 1) + ", this one " +
                           std::to_string(protocol_version);
  CHECK_THROWS_WITH_AS(std::ignore = decode_hello(in), doctest::Contains(said.c_str()),
                       cordma::error);
}

TEST_CASE("chunks, bundles, ends and tallies are what they were") {
  const chunk_frame c{7, 3, 1ULL << 40, 12345, 0, 0x0123456789abcdef};
  bytes out;
  encode(out, c);
  frame_reader in = reader_of(out);
  CHECK(decode_chunk(in) == c);
  refuses_every_other_length(out, [](frame_reader& r) { return decode_chunk(r); });

  const bundle_frame b{5, 99, {{1, 10}, {2, 0}, {9, 4096}}};
  out.clear();
  encode(out, b);
  frame_reader bundles = reader_of(out);
  CHECK(decode_bundle(bundles) == b);
  refuses_every_other_length(out, [](frame_reader& r) { return decode_bundle(r); });

  const file_end f{8, file_end::how::vanished, "No such file"};
  out.clear();
  encode(out, f);
  frame_reader ends = reader_of(out);
  CHECK(decode_file_end(ends) == f);
  refuses_every_other_length(out, [](frame_reader& r) { return decode_file_end(r); });

  tally t;
  t.files = 1;
  t.manifest = ~0ULL;
  out.clear();
  encode(out, t);
  frame_reader tallies = reader_of(out);
  CHECK(decode_tally(tallies) == t);
  refuses_every_other_length(out, [](frame_reader& r) { return decode_tally(r); });

  const done_frame d{t, 123'456'789'012, {4, 0, 0xffffffff}};
  out.clear();
  encode(out, d);
  frame_reader done = reader_of(out);
  CHECK(decode_done(done) == d);
}

TEST_CASE("of a problem that takes many words the first are told") {
  const std::string much(100'000, 'x');
  bytes out;
  {
    frame_writer w(out, frame_kind::problems);
    encode(w, problem{problem::kind::failed, much, much, "."});
  }
  frame_reader in = reader_of(out);
  const problem p = decode_problem(in);
  CHECK(in.empty());
  for (const std::string& text : {p.path, p.why}) CHECK(text == much.substr(0, 4096));
  out.clear();
  {
    frame_writer w(out, frame_kind::items);
    encode(w, item{.what = item::change::deleted, .path = much});
  }
  frame_reader items = reader_of(out);
  CHECK(decode_item(items).path == much.substr(0, 4096));
}

TEST_CASE("a problem of a place that is not in the target is refused") {
  for (const char* const place : {"..", "./..", "a/../..", "/etc", "a/"}) {
    bytes out;
    {
      frame_writer w(out, frame_kind::problems);
      encode(w, problem{problem::kind::left_out, "x", "y", place});
    }
    frame_reader in = reader_of(out);
    CHECK_THROWS_AS(std::ignore = decode_problem(in), cordma::error);
  }
}

TEST_CASE("an entry is what it was") {
  bytes out;
  {
    frame_writer w(out, frame_kind::entries);
    encode(w, an_entry());
  }
  frame_reader in = reader_of(out);
  const entry e = decode_entry(in);
  CHECK(in.empty());
  CHECK(e.path == an_entry().path);
  CHECK(e.target == an_entry().target);
  CHECK(e.mode == an_entry().mode);
  CHECK(e.finished);
  CHECK(e.modified == an_entry().modified);
  CHECK(e.attributes == an_entry().attributes);
}

TEST_CASE("an entry that would leave the target, or cannot be, is refused") {
  const auto refused = [](auto change) {
    entry e = an_entry();
    change(e);
    bytes out;
    {
      frame_writer w(out, frame_kind::entries);
      encode(w, e);
    }
    frame_reader in = reader_of(out);
    CHECK_THROWS_AS(std::ignore = decode_entry(in), cordma::error);
  };
  refused([](entry& e) { e.path = "../x"; });
  refused([](entry& e) { e.attributes = {{"", "x"}}; });
  refused([](entry& e) { e.attributes = {{std::string("user.\0x", 7), "x"}}; });
  refused([](entry& e) { e.attributes = {{std::string(256, 'x'), "x"}}; });
  refused([](entry& e) { e.path = "/etc/passwd"; });
  refused([](entry& e) { e.path = "."; });
  refused([](entry& e) { e.kind = entry_kind::hard_link; });  // to "../elsewhere"
  refused([](entry& e) { e.target = std::string("a\0b", 3); });
  refused([](entry& e) { e.mode = 010000; });
  refused([](entry& e) { e.modified.ns = 1'000'000'000; });
  refused([](entry& e) { e.size = ~0ULL; });
}

TEST_CASE("a frame longer than one may be, or of no kind, is refused") {
  bytes head(frame_head_bytes);
  head[4] = static_cast<std::byte>(frame_kind::chunk);
  head[3] = std::byte{1};
  CHECK_THROWS_AS(
      std::ignore = decode_head(std::span<const std::byte>(head).first<frame_head_bytes>()),
      cordma::error);
  head[3] = {};
  head[4] = std::byte{99};
  CHECK_THROWS_AS(
      std::ignore = decode_head(std::span<const std::byte>(head).first<frame_head_bytes>()),
      cordma::error);
}
