// The journal's files as bytes: written records are read back, and incomplete ones are not.
#include "journal_ground.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include "../../apps/kv/journal/log_reader.hpp"
#include "../../apps/kv/journal/manifest.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include <sys/mman.h>

using namespace kv;
using namespace kv::test;
using cordma::test::dice;

namespace {

std::string record(std::string_view changes, std::uint64_t sequence, std::uint32_t salt) {
  const auto length = static_cast<std::uint32_t>(changes.size());
  const std::uint32_t crc = record_crc(crc_more(crc_begin, changes), length, salt, sequence);
  const auto head = encode(record_header{length, crc, sequence});
  return std::string(head.data(), head.size()) + std::string(changes);
}

constexpr std::uint32_t salt = 0x5a17;

std::string header(log_kind kind = log_kind::increment, std::uint64_t first = 1) {
  const auto bytes = encode(log_header{kind, salt, first, 0});
  return {bytes.data(), bytes.size()};
}

struct outcome {
  bool opened = false;
  log_reader::outcome end = log_reader::outcome::end;
  std::uint64_t records = 0;
  std::uint64_t valid = 0;
  contents all;
};

outcome read(std::string_view file) {
  cordma::unique_fd fd(::memfd_create("journal", MFD_CLOEXEC));
  REQUIRE(::write(fd.get(), file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  cordma::result<log_reader> in = log_reader::of(std::move(fd), "it");
  outcome got;
  got.opened = in.ok();
  if (!in) return got;
  model_target model;
  for (;;) {
    got.end = (*in).next();
    if (got.end != log_reader::outcome::record) break;
    REQUIRE(decode_changes((*in).changes(), model));
    ++got.records;
  }
  got.valid = (*in).offset();
  got.all = model.all;
  return got;
}

// Records, and the known contents after each number of bytes.
struct small_file {
  std::string bytes = header();
  std::vector<std::pair<std::size_t, contents>> states;

  small_file() {
    model_target model;
    states.emplace_back(bytes.size(), model.all);
    const std::array<std::string, 3> keys{"a", std::string("\0\r\n\xff", 4), ""};
    std::uint64_t sequence = 0;
    for (const std::string& key : keys) {
      change_encoder changes;
      changes.put(key, "value of " + key, sequence * 1000, sequence);
      changes.field_put("hash", key, "1");
      if (sequence == 2) changes.erased("a");
      bytes += record(changes.text(), ++sequence, salt);
      REQUIRE(decode_changes(changes.text(), model));
      states.emplace_back(bytes.size(), model.all);
    }
  }
  [[nodiscard]] bool was_a_state(std::size_t valid, const contents& all) const {
    for (const auto& [at, state] : states) {
      if (at == valid) return state == all;
    }
    return false;
  }
};

}  // namespace

TEST_CASE(
    "every kind of change comes back as it was noted [keys: empty, zeros, 64 KiB, as before]") {
  const std::string long_key(max_key_bytes, 'k');
  const std::string zeros("\0\0\r\n", 4);
  change_encoder changes;
  changes.put("", "", never_expires, 0);
  changes.put(zeros, zeros, 77, 9);
  changes.put(long_key, std::string(100'000, 'v'), UINT64_MAX, UINT64_MAX);
  changes.expiry_set(long_key, 5);
  changes.field_put("h", "", "");
  changes.field_put("h", zeros, long_key);
  changes.field_put("h", "gone", "");
  changes.field_erased("h", "gone");
  changes.expiry_set("h", 99);
  changes.put("gone", "1", 0, 1);
  changes.erased("gone");
  model_target model;
  REQUIRE(decode_changes(changes.text(), model));
  contents want;
  want[""] = {};
  want[zeros] = {zeros, {}, 77};
  want[long_key] = {std::string(100'000, 'v'), {}, 5};
  want["h"] = {"", {{"", ""}, {zeros, long_key}}, 99};
  CHECK(model.all == want);

  changes.reset();
  changes.expiry_set("h", never_expires);
  changes.cleared({7, 0, 2});
  changes.end(12);
  REQUIRE(decode_changes(changes.text(), model));
  CHECK(model.end == 12);
  for (const auto& [key, c] : want) {
    CHECK((shard_of(hash_key(key, 7).hash, 2) == 0) == !model.all.contains(key));
  }
}

TEST_CASE("a key that is changed again in the same record is not written again") {
  change_encoder changes;
  const std::string key(1000, 'k');
  changes.field_put(key, "a", "1");
  const std::size_t first = changes.text().size();
  changes.field_put(key, "b", "2");
  CHECK(changes.text().size() - first < 20);
}

TEST_CASE(
    "changes that end early, or have unknown kinds and flags, are none [each cut, each byte]") {
  change_encoder changes;
  changes.put("key", "value", 5, 6);
  changes.field_put("key", "field", "value");
  changes.field_erased("key", "field");
  changes.cleared({1, 1, 3});
  const std::string whole = changes.text();
  dice d(3);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    model_target model;
    (void)decode_changes(std::string_view(whole).substr(0, cut), model);
    std::string other = whole;
    other[cut] = static_cast<char>(d.below(256));
    (void)decode_changes(other, model);
  }
  model_target model;
  CHECK_FALSE(decode_changes(std::string_view("\x00", 1), model));
  CHECK_FALSE(decode_changes("\x0f", model));
  CHECK_FALSE(decode_changes("\x12", model));  // same key as before, but there is none
  CHECK_FALSE(decode_changes(std::string_view(whole).substr(0, whole.size() - 1), model));
}

TEST_CASE("a header says what it is, or why it is none") {
  const std::string whole = header(log_kind::base, 17);
  const cordma::result<log_header> read_back = decode_log_header(whole);
  REQUIRE(read_back.ok());
  CHECK((*read_back).kind == log_kind::base);
  CHECK((*read_back).first == 17);
  std::string newer = whole;
  newer[8] = 2;
  CHECK(decode_log_header(newer).why().message() ==
        "has format 2, and this cordma-kv reads 1: use the version that wrote it");
  CHECK(decode_log_header("REDIS0009 and so on, for some more bytes")
            .why()
            .message()
            .find("is no file of cordma-kv") == 0);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string other = whole;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    CHECK_FALSE_MESSAGE(decode_log_header(other).ok(), bit);
  }
}

TEST_CASE(
    "a file that is cut anywhere gives what was whole before the cut, and says where that ends") {
  const small_file f;
  for (std::size_t cut = log_header_bytes; cut <= f.bytes.size(); ++cut) {
    const outcome got = read(std::string_view(f.bytes).substr(0, cut));
    REQUIRE(got.opened);
    CHECK_MESSAGE(f.was_a_state(got.valid, got.all), cut);
    CHECK_MESSAGE((got.end == log_reader::outcome::end) == (got.valid == cut), cut);
    CHECK_MESSAGE(got.end != log_reader::outcome::broken, cut);
  }
}

TEST_CASE(
    "a flipped bit anywhere is noticed: refused, cut off, or broken, and never a wrong value") {
  const small_file f;
  for (std::size_t bit = 0; bit < f.bytes.size() * 8; ++bit) {
    std::string other = f.bytes;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    const outcome got = read(other);
    if (bit / 8 < log_header_bytes) {
      CHECK_FALSE_MESSAGE(got.opened, bit);
      continue;
    }
    REQUIRE(got.opened);
    CHECK_MESSAGE(got.end != log_reader::outcome::end, bit);
    CHECK_MESSAGE(f.was_a_state(got.valid, got.all), bit);
    CHECK_MESSAGE(got.valid <= bit / 8, bit);
    // After the last record there is no complete record.
    const bool in_last = bit / 8 >= f.states[f.states.size() - 2].first;
    CHECK_MESSAGE((got.end == log_reader::outcome::torn) == in_last, bit);
  }
}

TEST_CASE(
    "zeros at the end, as a crash leaves them, are cut off; a record that is missing is not") {
  const small_file f;
  const outcome zeros = read(f.bytes + std::string(5000, '\0'));
  CHECK(zeros.end == log_reader::outcome::torn);
  CHECK(zeros.valid == f.bytes.size());
  change_encoder changes;
  changes.put("late", "1", 0, 0);
  const outcome gap = read(f.bytes + record(changes.text(), 5, salt));
  CHECK(gap.end == log_reader::outcome::broken);
  // A record of another file that was stored there before.
  const outcome foreign = read(f.bytes + record(changes.text(), 4, salt + 1));
  CHECK(foreign.end == log_reader::outcome::torn);
  CHECK(foreign.valid == f.bytes.size());
}

TEST_CASE("a manifest is read as it is written, and a line that leads elsewhere is refused") {
  manifest m;
  m.base = journal_file{"a.1.base.ckv", 1};
  m.history = {{"a.0.incr.ckv", 0}};
  m.increments = {{"a.1.incr.ckv", 1}, {"a.2.incr.ckv", 2}};
  const cordma::result<manifest> again = parse_manifest(m.text());
  REQUIRE(again.ok());
  CHECK((*again).text() == m.text());
  CHECK((*again).last_number() == 2);
  for (const char* bad : {"", "# nothing\n", "file a seq 1 type h\n", "file ../a seq 1 type b\n",
                          "file a seq x type b\n", "file a seq 4611686018427387905 type b\n",
                          "file a seq 18446744073709551615 type i\n", "file a seq 1 type z\n",
                          "rubbish\n", "file a seq 1 type b\nfile b seq 2 type b\n",
                          "file a seq 2 type i\nfile b seq 1 type i\n"}) {
    CHECK_FALSE_MESSAGE(parse_manifest(bad).ok(), bad);
  }
  CHECK(parse_manifest("file a seq 4611686018427387904 type b\n").ok());
  const std::string_view damaged("file a\0b seq 1 type b\n\x1b", 23);
  CHECK(parse_manifest(damaged).why().message() ==
        "line 1 is not as it should be: \"file a\\x00b seq 1 type b\"");
}
