// A malicious sender that follows the protocol. Nothing outside of the target changes, each fault
// is reported as a problem by its name, and all other entries are created.
#include "../../apps/cp/tree/describe.hpp"
#include "hostile.hpp"

#include <deque>

#include <fcntl.h>
#include <sys/stat.h>

using namespace copy;
using namespace copy::test;

namespace {

constexpr std::string_view four = "1234";

std::uint64_t sum_of(std::uint32_t file, std::uint64_t index, std::uint64_t digest) {
  manifest m;
  m.add(file, index, digest);
  return m.sum();
}

// Sends the test's list of entries, sends the four bytes for each requested file, and ends in
// order.
task<void> send_four_each(villain& v) {
  const slot_memory at = co_await v.hear_memory();
  const frames list = v.told;
  co_await v.say(list);
  co_await v.put(at, 0, four);  // once: the slot is read while the next chunk is announced
  manifest sent;
  std::deque<std::uint32_t> wanted;
  bool is_free = true;
  for (;;) {
    const heard h = co_await v.hear_any();
    if (h.kind == frame_kind::finished) break;
    if (h.kind == frame_kind::credit) is_free = true;
    if (h.kind == frame_kind::wants) {
      frame_reader in = h.reader();
      wanted.push_back(decode_want(in).file);
    }
    if (!is_free || wanted.empty()) continue;
    is_free = false;
    const std::uint32_t file = wanted.front();
    wanted.pop_front();
    const frames told = encoded(bundle_frame{0, digest_of_text(four), {{file, 4}}});
    co_await v.say(told);
    sent.add(file, 0, 4);
  }
  const frames end = number_frame(frame_kind::all_sent, sent.sum());
  co_await v.say(end);
  v.finish();
}

// A target, and beside it data that the peer must not access.
struct ground {
  temporary_tree here;
  ground() {
    here.directory("target");
    here.directory("outside");
    here.file("outside/secret", "mine");
    REQUIRE(::chmod(here.at("outside").c_str(), 0700) == 0);
    REQUIRE(::chmod(here.at("outside/secret").c_str(), 0600) == 0);
  }
  [[nodiscard]] std::string target() const { return here.at("target"); }
  void check_untouched() const {
    struct stat s{};
    REQUIRE(::lstat(here.at("outside").c_str(), &s) == 0);
    CHECK((s.st_mode & 07777) == 0700);
    CHECK(s.st_mtim.tv_sec != file_entry("", 0).modified.s);
    REQUIRE(::lstat(here.at("outside/secret").c_str(), &s) == 0);
    CHECK((s.st_mode & 07777) == 0600);
    CHECK(s.st_nlink == 1);
    CHECK(read_file(here.at("outside/secret")) == "mine");
    std::size_t names = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(here.at("outside"))) {
      ++names;
    }
    CHECK(names == 1);
  }
};

}  // namespace

TEST_CASE("no symlink leads out of the target, whether it was sent or was there") {
  for (const cordma::transport::kind over : transports) {
    const ground g;
    g.here.symlink("target/planted", g.here.at("outside"));
    const std::string outside = g.here.at("outside");
    const ending e = attack_receiver(
        over, g.target(),
        {send_four_each,
         listed({
             link_entry(entry_kind::symlink, "sent", outside),
             file_entry("sent/loot", 4),
             directory_entry("turned"),  // replaces a symlink, and is then replaced by one
             link_entry(entry_kind::symlink, "turned", "../outside"),
             file_entry("turned/loot", 4),
             file_entry("turned/secret", 4),
             directory_entry("turned/made"),
             file_entry("planted/secret", 4),
             link_entry(entry_kind::symlink, "planted/link", "x"),
             link_entry(entry_kind::hard_link, "stolen", "sent/loot"),
             file_entry("good", 4),
             link_entry(entry_kind::hard_link, "sent/stolen", "good"),
             link_entry(entry_kind::hard_link, "name of a link", "sent"),
         })});
    INFO(text_of(e));
    CHECK(e.error.empty());
    CHECK(read_file(g.here.at("target/good")) == four);
    for (const char* const bad :
         {"sent/loot: ", "turned/loot: ", "turned/secret: ", "turned/made: ", "planted/secret: ",
          "planted/link: ", "stolen: ", "sent/stolen: "}) {
      CHECK_MESSAGE(e.names(bad), std::string(bad));
    }
    g.check_untouched();
  }
}

TEST_CASE("a single file that was asked for is all that comes") {
  const ground g;
  const script two{send_four_each, listed({file_entry("a", 4), file_entry("b", 4)})};
  const ending more =
      attack_receiver(cordma::transport::kind::shm, g.target(), two, usual_options(), "x");
  CHECK(more.error.find("more than the one file") != std::string::npos);
  const script tree{send_four_each, listed({directory_entry("a")})};
  const ending another =
      attack_receiver(cordma::transport::kind::shm, g.target(), tree, usual_options(), "x");
  CHECK(another.error.find("more than the one file") != std::string::npos);
  // A file with any name at the source.
  const script named{send_four_each, listed({file_entry("deep/er", 4)})};
  const ending one =
      attack_receiver(cordma::transport::kind::shm, g.target(), named, usual_options(), "x");
  CHECK(one.error.empty());
  CHECK(read_file(g.here.at("target/x")) == four);
}

TEST_CASE("one name for several things") {
  const ground g;
  const ending e = attack_receiver(
      cordma::transport::kind::shm, g.target(),
      {send_four_each,
       listed({file_entry("a", 4), file_entry("a", 4), directory_entry("a"), file_entry("a/b", 4),
               link_entry(entry_kind::symlink, "a", "x"), file_entry("a", 4),
               link_entry(entry_kind::hard_link, "a", "a"), directory_entry("."),
               directory_entry("."), file_entry("good", 4)})});
  INFO(text_of(e));
  CHECK(e.error.empty());
  CHECK(read_file(g.here.at("target/good")) == four);
}

TEST_CASE("files of sizes that no disk has are problems") {
  for (const std::uint64_t size : {1ULL << 62, 1ULL << 50, 1ULL << 43}) {
    const ground g;
    CAPTURE(size);
    entry hollow = file_entry("hollow", size);
    hollow.allocated = 0;
    const ending e = attack_receiver(
        cordma::transport::kind::shm, g.target(),
        {[](villain& v) -> task<void> {
           const frames list = v.told;
           co_await v.say(list);
           for (;;) {
             const heard h = co_await v.hear_any();
             if (h.kind == frame_kind::finished) break;
             if (h.kind != frame_kind::wants) continue;
             frame_reader in = h.reader();
             const want w = decode_want(in);
             const frames none = encoded(file_end{w.file, file_end::how::failed, "not today"});
             co_await v.say(none);
           }
           const frames end = number_frame(frame_kind::all_sent, 0);
           co_await v.say(end);
           v.finish();
         },
         listed({file_entry("full", size), hollow})});
    INFO(text_of(e));
    CHECK(e.error.empty());
    CHECK(e.names("full: "));
    CHECK(e.names("hollow: "));
    CHECK(std::filesystem::is_empty(g.target()));
  }
}

TEST_CASE("in place of itself a file is not written, whatever became of it since it was listed") {
  const ground g;
  g.here.file("target/a", "precious");
  struct stat s{};
  REQUIRE(::stat(g.here.at("target/a").c_str(), &s) == 0);
  entry empty = file_entry("a", 0);
  empty.device = describe(s, entry_kind::file).device;
  transfer_options o = usual_options();
  o.inplace = true;
  const ending e = attack_receiver(cordma::transport::kind::shm, g.target(),
                                   {send_four_each, listed({empty, file_entry("b", 4)})}, o);
  INFO(text_of(e));
  CHECK(e.error.empty());
  CHECK(e.names("it is the source itself"));
  CHECK(read_file(g.here.at("target/a")) == "precious");
  CHECK(read_file(g.here.at("target/b")) == four);
}

TEST_CASE("the names that transfers work under are nobody's") {
  const ground g;
  const ending e = attack_receiver(
      cordma::transport::kind::shm, g.target(),
      {send_four_each,
       listed({file_entry(".large.cordma-part", 4), file_entry(".large.cordma-state", 4),
               directory_entry(".x.cordma-part"),
               link_entry(entry_kind::symlink, ".y.cordma-part", "/etc"), file_entry("good", 4),
               link_entry(entry_kind::hard_link, ".z.cordma-state", "good")})});
  INFO(text_of(e));
  CHECK(e.error.empty());
  CHECK(read_file(g.here.at("target/good")) == four);
  for (const char* const bad : {".large.cordma-part: ", ".large.cordma-state: ", ".x.cordma-part: ",
                                ".y.cordma-part: ", ".z.cordma-state: "}) {
    CHECK_MESSAGE(e.names(bad), std::string(bad));
  }
}

TEST_CASE("what comes damaged for ever is given up, as a chunk and in a bundle") {
  for (const frames& lie :
       {encoded(chunk_frame{0, 0, 0, 4, 0, 1}), encoded(bundle_frame{0, 1, {{0, 4}}})}) {
    const ground g;
    const auto act = [](villain& v) -> task<void> {
      const slot_memory at = co_await v.hear_memory();
      const frames list = listed({file_entry("bad", 4), file_entry("good", 4)});
      co_await v.say(list);
      co_await v.hear(frame_kind::wants);
      const frames bad = v.told;
      for (int i = 0; i < 17; ++i) {
        co_await v.say(bad);
        co_await v.hear(frame_kind::credit);
      }
      co_await v.put(at, 1, four);
      const frames rest = encoded(file_end{0, file_end::how::whole, ""}) +
                          encoded(bundle_frame{1, digest_of_text(four), {{1, 4}}});
      co_await v.say(rest);
      co_await v.hear(frame_kind::finished);
      const std::uint64_t lied = v.told[4] == static_cast<std::byte>(frame_kind::chunk) ? 1 : 4;
      const frames end = number_frame(frame_kind::all_sent, sum_of(0, 0, lied) + sum_of(1, 0, 4));
      co_await v.say(end);
      v.finish();
    };
    const ending e = attack_receiver(cordma::transport::kind::shm, g.target(), {act, lie});
    INFO(text_of(e));
    CHECK(e.error.empty());
    CHECK(e.names("bad: it came damaged again and again"));
    CHECK(e.result.problems.size() == 1);
    CHECK_FALSE(std::filesystem::exists(g.here.at("target/bad")));
    CHECK(read_file(g.here.at("target/good")) == four);
  }
}

TEST_CASE("a sum over other chunks than those that came is a problem") {
  const ground g;
  const auto act = [](villain& v) -> task<void> {
    const frames list = listed({});
    co_await v.say(list);
    co_await v.hear(frame_kind::finished);
    const frames end = number_frame(frame_kind::all_sent, 1);
    co_await v.say(end);
    v.finish();
  };
  const ending e = attack_receiver(cordma::transport::kind::shm, g.target(), {act});
  CHECK(e.error.empty());
  CHECK(e.names("the manifests differ"));
}
