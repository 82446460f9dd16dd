// A sidecar never vouches for a chunk that was not added to it, regardless of changes to the file.
#include "target_tree.hpp"

#include "../../apps/cp/target/resume.hpp"

#include <support/applies.hpp>

#include <xxhash.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>

using namespace copy;
using namespace copy::test;
using cordma::errc;
using cordma::unique_fd;
using cordma::test::applies;

namespace {

using chunks = std::map<std::uint64_t, std::uint64_t>;  // digests

constexpr std::size_t head_bytes = 64;
constexpr std::size_t record_bytes = 32;
constexpr source_identity source{
    .size = 1000 * 4096 + 1, .modified = {.s = 1'700'000'000, .ns = 5}, .chunk_bytes = 4096};

unique_fd open_file(const fs::path& path) {
  unique_fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(fd);
  return fd;
}

struct sidecar {
  temporary_directory all;
  fs::path path = all.path() / "state";
  unique_fd part = open_file(all.path() / "part");
  [[nodiscard]] unique_fd open() const { return open_file(path); }
  [[nodiscard]] resume_state state(const source_identity& of = source) const {
    auto opened = resume_state::open(open(), part.get(), of);
    REQUIRE(opened.ok());
    return std::move(*opened);
  }
  void put(const std::string& bytes) const {
    const unique_fd fd = open();
    REQUIRE(::ftruncate(fd.get(), 0) == 0);
    REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
  }
};

chunks chunks_of(const resume_state& s) {
  chunks all;
  for (std::uint64_t i = 0; i < s.here().size(); ++i) {
    if (s.here()[i]) all[i] = s.digest(i);
  }
  CHECK(all.size() == s.count_here());
  return all;
}

// Records of a sidecar, in this order; the last record is that of the last chunk.
const std::vector<std::pair<std::uint64_t, std::uint64_t>> records{{3, 33}, {0, 0},   {999, ~0ULL},
                                                                   {3, 34}, {500, 1}, {1000, 7}};

chunks first(std::size_t count) {
  chunks all;
  for (std::size_t i = 0; i < count; ++i) all[records[i].first] = records[i].second;
  return all;
}

std::string whole(const sidecar& side) {
  {
    resume_state s = side.state();
    for (const auto& [chunk, digest] : records) REQUIRE(s.add(chunk, digest).ok());
  }
  std::string bytes = read(side.path);
  REQUIRE(bytes.size() == head_bytes + records.size() * record_bytes);
  return bytes;
}

}  // namespace

TEST_CASE("what was added is here at once, and again in the next transfer") {
  const sidecar side;
  {
    resume_state s = side.state();
    CHECK(s.here().size() == 1001);
    CHECK(chunks_of(s).empty());
    CHECK(s.add(7, 70).ok());
    CHECK(chunks_of(s) == chunks{{7, 70}});
    CHECK(chunks_of(side.state()) == chunks{{7, 70}});  // as after a kill of this one
    CHECK(s.add(8, 80).ok());
    CHECK(s.add(7, 71).ok());
  }
  resume_state s = side.state();
  CHECK(chunks_of(s) == chunks{{7, 71}, {8, 80}});
  CHECK(s.add(1000, 5).ok());
  CHECK(chunks_of(side.state()) == chunks{{7, 71}, {8, 80}, {1000, 5}});
}

TEST_CASE("the file is what its format says") {
  const sidecar side;
  const std::string bytes = whole(side);
  CHECK(bytes.substr(0, 8) == "cordmacp");
  CHECK(bytes.substr(8, 8) == std::string("\3\0\0\0\0\x10\0\0", 8));
  CHECK(bytes.substr(16, 8) == std::string("\1\x80\x3e\0\0\0\0\0", 8));
  CHECK(bytes.substr(24, 8) == std::string("\0\xf1\x53\x65\0\0\0\0", 8));
  CHECK(bytes.substr(32, 8) == std::string("\5\0\0\0\0\0\0\0", 8));
  CHECK(bytes.substr(64, 16) == std::string("\3\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0", 16));
  struct stat now{};
  REQUIRE(::fstat(side.part.get(), &now) == 0);
  std::int64_t changed = 0;
  std::memcpy(&changed, bytes.data() + 80, 8);
  CHECK(changed == now.st_ctim.tv_sec * 1'000'000'000 + now.st_ctim.tv_nsec);
}

TEST_CASE("a sidecar that is cut off anywhere has the records before, and goes on from there") {
  const sidecar side;
  const std::string bytes = whole(side);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    CAPTURE(length);
    side.put(bytes.substr(0, length));
    const std::size_t left = length < head_bytes ? 0 : (length - head_bytes) / record_bytes;
    resume_state s = side.state();
    CHECK(chunks_of(s) == first(left));
    CHECK(fs::file_size(side.path) == head_bytes + left * record_bytes);
    CHECK(s.add(42, length).ok());
    chunks expected = first(left);
    expected[42] = length;
    CHECK(chunks_of(side.state()) == expected);
  }
}

TEST_CASE("whichever byte is damaged, the records before it are read and no other") {
  const sidecar side;
  const std::string bytes = whole(side);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flipped : {0x01, 0x80, 0xff}) {
      CAPTURE(at);
      CAPTURE(flipped);
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flipped);
      side.put(damaged);
      const std::size_t left = at < head_bytes ? 0 : (at - head_bytes) / record_bytes;
      CHECK(chunks_of(side.state()) == first(left));
      CHECK(chunks_of(side.state()) == first(left));
    }
  }
}

namespace {

// A part of the source's size, and its sidecar with all records, created after it.
struct part_and_sidecar {
  sidecar side;
  fs::path path = side.all.path() / "part";
  part_and_sidecar() {
    REQUIRE(::ftruncate(side.part.get(), source.size) == 0);
    (void)whole(side);
  }
  [[nodiscard]] int part() const { return side.part.get(); }
  // Continues with the chunks that the sidecar vouches for, as a transfer does that is then killed.
  [[nodiscard]] bool vouched() const {
    resume_state s = side.state();
    if (s.vouches()) REQUIRE(s.confirm(s.here()).ok());
    return s.vouches();
  }
  // Waits until new changes have a later time than changes that may still have been in progress.
  void let_time_pass() const {
    struct stat s{};
    struct stat now{};
    REQUIRE(::stat(path.c_str(), &s) == 0);
    const auto ns = [](const struct stat& of) {
      return of.st_ctim.tv_sec * 1'000'000'000 + of.st_ctim.tv_nsec;
    };
    const fs::path clock = side.all.path() / "clock";
    do {
      std::ofstream(clock) << "tick";
      REQUIRE(::stat(clock.c_str(), &now) == 0);
    } while (ns(now) - ns(s) <= 25'000'000);
  }
  // Sets the sidecar's time, as if the part could not have changed since the last note.
  void touch_sidecar() const { REQUIRE(::utimensat(AT_FDCWD, side.path.c_str(), nullptr, 0) == 0); }
};

// True if a sidecar can vouch on this system. (No REQUIRE: it runs before any test case.)
bool vouches() {
  const temporary_directory all;
  const auto open = [&](const char* name) {
    return unique_fd(::open((all.path() / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  };
  const unique_fd part = open("part");
  if (::ftruncate(part.get(), source.size) != 0 ||
      !resume_state::open(open("state"), part.get(), source)) {
    return false;
  }
  const auto again = resume_state::open(open("state"), part.get(), source);
  return again && again->vouches();
}
constexpr const char* no_names =
    "its temporary files are not in memory, and Linux is older than 6.8";

}  // namespace

TEST_CASE("a sidecar vouches for a part that nobody has changed since, and for no other" *
          applies(vouches(), no_names)) {
  part_and_sidecar p;
  CHECK(p.vouched());
  p.let_time_pass();
  CHECK(p.vouched());
  SUBCASE("a byte that was written") { REQUIRE(::pwrite(p.part(), "x", 1, 5) == 1); }
  SUBCASE("cut off and made as long again") {
    REQUIRE(::ftruncate(p.part(), 5) == 0);
    REQUIRE(::ftruncate(p.part(), source.size) == 0);
  }
  SUBCASE("written, with its time set back") {
    struct stat s{};
    REQUIRE(::stat(p.path.c_str(), &s) == 0);
    REQUIRE(::pwrite(p.part(), "x", 1, 5) == 1);
    const std::array<timespec, 2> times{s.st_atim, s.st_mtim};
    REQUIRE(::futimens(p.part(), times.data()) == 0);
  }
  SUBCASE("another file of that name") {
    fs::remove(p.path);
    p.side.part = open_file(p.path);
    REQUIRE(::ftruncate(p.part(), source.size) == 0);
  }
  p.touch_sidecar();
  CHECK_FALSE(p.vouched());
  CHECK_FALSE(p.vouched());
  resume_state compared = p.side.state();
  REQUIRE(compared.confirm(compared.here()).ok());
  CHECK(p.vouched());
}

TEST_CASE("a copy of a part is another, even where it is copied before its sidecar's last record" *
          applies(vouches(), no_names)) {
  part_and_sidecar p;
  const fs::path copied = p.side.all.path() / "copy";
  fs::copy_file(p.path, copied);
  p.side.part = open_file(copied);
  CHECK_FALSE(p.vouched());
}

TEST_CASE("too short a part is not vouched for, nor any of another run of the machine, or mount" *
          applies(vouches(), no_names)) {
  const part_and_sidecar p;
  const auto compare = [&] {
    resume_state s = p.side.state();
    REQUIRE(s.confirm(s.here()).ok());
  };
  REQUIRE(::ftruncate(p.part(), source.size - 1) == 0);
  compare();
  CHECK_FALSE(p.vouched());
  REQUIRE(::ftruncate(p.part(), source.size) == 0);
  compare();
  CHECK(p.vouched());
  // A record of another run, with a matching hash.
  std::string bytes = read(p.side.path);
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  const std::uint64_t hash = XXH3_64bits(bytes.data(), 56);
  std::memcpy(bytes.data() + 56, &hash, 8);
  p.side.put(bytes);
  CHECK_FALSE(p.vouched());
  compare();
  CHECK(p.vouched());
  CHECK(chunks_of(p.side.state()) == first(records.size()));
}

TEST_CASE("whenever who compares a part is killed, what is vouched for then is what is there" *
          applies(vouches(), no_names)) {
  const part_and_sidecar p;
  p.let_time_pass();
  REQUIRE(::pwrite(p.part(), "x", 1, 5) == 1);
  const auto looks_right = [&] {
    const std::string bytes = read(p.side.path);
    {
      const resume_state next = p.side.state();
      chunks here = chunks_of(next);
      if (next.vouches()) CHECK((!here.contains(0) || here[0] == 5));
      if (next.vouches()) CHECK_FALSE(here.contains(1000));
    }
    p.side.put(bytes);
  };
  resume_state s = p.side.state();
  CHECK_FALSE(s.vouches());
  looks_right();
  REQUIRE(::ftruncate(p.part(), source.size) == 0);  // as the next transfer does
  looks_right();
  std::vector<bool> found = s.here();
  found[0] = found[1000] = false;
  const std::string compared = read(p.side.path);
  REQUIRE(s.confirm(found).ok());
  const std::string confirmed = read(p.side.path);
  REQUIRE(confirmed.size() == compared.size() + 2 * record_bytes);
  REQUIRE(s.add(0, 5).ok());
  const std::string added = read(p.side.path);
  for (std::size_t length = compared.size(); length <= added.size(); ++length) {
    CAPTURE(length);
    const bool has_head = length >= confirmed.size();
    p.side.put((has_head ? confirmed : compared).substr(0, head_bytes) +
               added.substr(head_bytes, length - head_bytes));
    looks_right();
  }
  CHECK(p.side.state().vouches());
}

TEST_CASE("what was not found as it was noted is not here, nor in the next transfer") {
  const sidecar side;
  (void)whole(side);
  {
    resume_state s = side.state();
    std::vector<bool> found = s.here();
    found[3] = found[1000] = false;
    found[4] = true;  // never was
    CHECK(s.confirm(found).ok());
    CHECK(chunks_of(s) == chunks{{0, 0}, {999, ~0ULL}, {500, 1}});
  }
  resume_state s = side.state();
  CHECK(chunks_of(s) == chunks{{0, 0}, {999, ~0ULL}, {500, 1}});
  CHECK(s.add(3, 35).ok());
  CHECK(chunks_of(side.state()) == chunks{{0, 0}, {3, 35}, {999, ~0ULL}, {500, 1}});
}

TEST_CASE("bytes that are no records end it: zeros, text, records one byte off") {
  const sidecar side;
  const std::string bytes = whole(side);
  const std::string one_off = bytes.substr(0, head_bytes) + "x" + bytes.substr(head_bytes);
  side.put(one_off);
  CHECK(chunks_of(side.state()).empty());
  for (const std::string& behind : {std::string(100'000, '\0'), std::string(100'000, 'x')}) {
    side.put(bytes + behind);
    CHECK(chunks_of(side.state()) == first(records.size()));
    CHECK(fs::file_size(side.path) == bytes.size());
  }
}

TEST_CASE("of another source nothing is here, nor of the first afterwards") {
  const sidecar side;
  source_identity larger = source;
  larger.size += 1;
  source_identity later = source;
  later.modified.ns += 1;
  source_identity earlier = source;
  earlier.modified.s -= 1;
  source_identity in_others = source;
  in_others.chunk_bytes *= 2;
  for (const source_identity& other : {larger, later, earlier, in_others}) {
    side.put("");
    (void)whole(side);
    CHECK(chunks_of(side.state(other)).empty());
    CHECK(fs::file_size(side.path) == head_bytes);
    CHECK(chunks_of(side.state()).empty());
  }
}

TEST_CASE("records of chunks that the file has not are passed over, however large their number") {
  const sidecar side;
  constexpr std::uint64_t far_off = resume_state::most_chunks - 1;
  source_identity large = source;
  large.size = resume_state::most_chunks * large.chunk_bytes;
  {
    resume_state s = side.state(large);
    for (const std::uint64_t chunk :
         {std::uint64_t{1}, std::uint64_t{1001}, far_off, std::uint64_t{2}}) {
      REQUIRE(s.add(chunk, chunk).ok());
    }
  }
  // The same records, after the head of a sidecar for a file with fewer chunks.
  const std::string others = read(side.path).substr(head_bytes);
  side.put("");
  (void)side.state();
  side.put(read(side.path) + others);
  CHECK(chunks_of(side.state()) == chunks{{1, 1}, {2, 2}});
}

TEST_CASE("a hundred thousand records are read as they were written") {
  const sidecar side;
  constexpr std::uint64_t count = 100'000;
  source_identity large = source;
  large.size = count * large.chunk_bytes;
  {
    resume_state s = side.state(large);
    std::uint64_t added = 0;
    for (std::uint64_t i = 0; i < count; ++i) added += s.add(i * 7919 % count, i).ok();
    REQUIRE(added == count);
  }
  CHECK(fs::file_size(side.path) == head_bytes + count * record_bytes);
  const resume_state s = side.state(large);
  CHECK(s.count_here() == count);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += s.digest(i * 7919 % count) != i;
  CHECK(wrong == 0);
}

TEST_CASE("an empty file has no chunks; chunks that cannot be counted are refused") {
  const sidecar side;
  CHECK(side.state({.size = 0, .modified = {}, .chunk_bytes = 1}).here().empty());
  for (const source_identity& bad :
       {source_identity{.size = 5, .modified = {}, .chunk_bytes = 0},
        source_identity{.size = ~0ULL, .modified = {}, .chunk_bytes = 4096},
        source_identity{.size = resume_state::most_chunks + 1, .modified = {}, .chunk_bytes = 1}}) {
    CHECK(resume_state::open(side.open(), side.part.get(), bad).code() == errc::invalid_value);
  }
}

TEST_CASE(
    "what could not be written does not spoil what is, nor what is written when there is room "
    "again" *
    applies(can_mount(), no_mounts)) {
  const place_to_write here;
  in_thread([&] {
    REQUIRE(mount_small(here.root, "size=64k"));
    const unique_fd part = open_file(here.root / "part");
    const auto open = [&] { return open_file(here.root / "state"); };
    const auto right = [&](std::uint64_t least) {
      const auto s = resume_state::open(open(), part.get(), source);
      REQUIRE(s.ok());
      CHECK(s->count_here() >= least);
      for (const auto& [chunk, digest] : chunks_of(*s)) CHECK(digest == chunk * 11);
      return s->count_here();
    };
    auto s = resume_state::open(open(), part.get(), source);
    REQUIRE(s.ok());
    const unique_fd filler = open_file(here.root / "filler");
    const std::string block(4096, 'f');
    while (::write(filler.get(), block.data(), block.size()) > 0) {}
    std::uint64_t written = 0;
    int why = 0;
    for (std::uint64_t i = 1; i < 900; ++i) {
      const auto added = s->add(i, i * 11);
      written += added.ok();
      if (!added.ok()) why = errno_of(added);
    }
    CHECK(why == ENOSPC);
    CHECK(s->count_here() == 899);
    CHECK(right(written) == written);
    REQUIRE(::ftruncate(filler.get(), 0) == 0);
    CHECK(s->add(900, 9900).ok());
    CHECK(right(written + 1) == written + 1);
  });
}
