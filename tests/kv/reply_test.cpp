// Replies, byte for byte, in both protocols; numbers and patterns in the format of Redis.
#include "../../apps/kv/resp/reply.hpp"
#include "../../apps/kv/resp/glob.hpp"
#include "../../apps/kv/resp/number.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace kv;

namespace {

template <class Write>
std::string written(reply_writer::protocol version, Write write) {
  byte_buffer out;
  reply_writer w(out);
  w.speak(version);
  write(w);
  return std::string(out.view());
}

}  // namespace

TEST_CASE("RESP2 and RESP3 have the same replies in their own words") {
  struct row {
    void (*write)(reply_writer&);
    std::string_view resp2;
    std::string_view resp3;
  };
  const row rows[] = {
      {[](reply_writer& w) { w.null(); }, "$-1\r\n", "_\r\n"},
      {[](reply_writer& w) { w.null_array(); }, "*-1\r\n", "_\r\n"},
      {[](reply_writer& w) { w.map(2); }, "*4\r\n", "%2\r\n"},
      {[](reply_writer& w) { w.set(12); }, "*12\r\n", "~12\r\n"},
      {[](reply_writer& w) { w.push(1); }, "*1\r\n", ">1\r\n"},
      {[](reply_writer& w) { w.real(1.5); }, "$3\r\n1.5\r\n", ",1.5\r\n"},
      {[](reply_writer& w) { w.real(std::numeric_limits<double>::infinity()); }, "$3\r\ninf\r\n",
       ",inf\r\n"},
      {[](reply_writer& w) { w.verbatim("ab"); }, "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"},
      {[](reply_writer& w) { w.bulk(""); }, "$0\r\n\r\n", "$0\r\n\r\n"},
      {[](reply_writer& w) { w.integer(-12); }, ":-12\r\n", ":-12\r\n"},
      {[](reply_writer& w) { w.bulk_integer(1234); }, "$4\r\n1234\r\n", "$4\r\n1234\r\n"},
      {[](reply_writer& w) { w.error("ERR a\r\nb"); }, "-ERR a  b\r\n", "-ERR a  b\r\n"},
  };
  for (const row& r : rows) {
    CHECK(written(reply_writer::protocol::resp2, r.write) == r.resp2);
    CHECK(written(reply_writer::protocol::resp3, r.write) == r.resp3);
  }
}

TEST_CASE("a reply can be taken back") {
  byte_buffer out;
  reply_writer w(out);
  w.ok();
  const std::size_t mark = w.mark();
  w.error("ERR no");
  CHECK(w.is_error_at(mark));
  w.rewind(mark);
  CHECK(out.view() == "+OK\r\n");
}

TEST_CASE("integers are read strictly") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  for (const std::string_view bad :
       {"", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "x"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_integer(bad));
  }
}

TEST_CASE("floats are read and printed as INCRBYFLOAT has them") {
  for (const std::string_view bad : {"", " 1", "1 ", "nan", "x", "1e5000", "1x"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_float(bad));
  }
  CHECK(format_float(*parse_float("3.0e3")) == "3000");
  CHECK(format_float(*parse_float("10.5")) == "10.5");
  CHECK(format_float(*parse_float("-0")) == "0");
  CHECK(format_float(*parse_float("0.1")) == "0.1");
  CHECK(parse_memory("1gb") == std::uint64_t{1} << 30);
  CHECK(parse_memory("2K") == 2000);
  CHECK_FALSE(parse_memory("-1"));
  CHECK_FALSE(parse_memory("1xb"));
  CHECK_FALSE(parse_memory("99999999999999gb"));
}

TEST_CASE("patterns match as Redis's do") {
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("h?llo", "hallo"));
  CHECK_FALSE(matches_glob("h?llo", "hllo"));
  CHECK(matches_glob("h*llo", "heeeello"));
  CHECK(matches_glob("h[ae]llo", "hello"));
  CHECK_FALSE(matches_glob("h[^e]llo", "hello"));
  CHECK(matches_glob("h[a-c]llo", "hbllo"));
  CHECK(matches_glob("h[c-a]llo", "hbllo"));
  CHECK(matches_glob("a\\*b", "a*b"));
  CHECK_FALSE(matches_glob("a\\*b", "axb"));
  CHECK(matches_glob("a[bc", "ab"));
  CHECK_FALSE(matches_glob("abc", "ABC"));
  CHECK(matches_glob("abc", "ABC", letter_case::ignored));
  // Matching takes at most the product of both lengths.
  CHECK_FALSE(matches_glob(std::string(200, '*') + "b", std::string(20'000, 'a')));
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "a*";
  CHECK_FALSE(matches_glob(stars + "b", std::string(10'000, 'a')));
}
