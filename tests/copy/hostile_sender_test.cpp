// A sender that sends invalid frames: the receiver reports the fault by name, writes nothing
// outside of its target, and ends.
#include "hostile.hpp"

#include <sys/stat.h>

using namespace copy;
using namespace copy::test;

namespace {

// Expects the receiver to fail with an error that contains `what`, over every transport.
void refuses(std::string_view what, const script& s,
             const transfer_options& options = usual_options()) {
  for (const cordma::transport::kind over : transports) {
    const temporary_tree here;
    here.directory("target");
    const ending e = attack_receiver(over, here.at("target"), s, options);
    INFO(text_of(e));
    CHECK_MESSAGE(e.error.find(what) != std::string::npos, std::string(what));
  }
}
void refuses(std::string_view what, frames told) { refuses(what, {say_told, std::move(told)}); }

frames chunk_told(std::uint32_t file, std::uint32_t slot, std::uint64_t index, std::uint32_t bytes,
                  std::uint64_t digest = 0) {
  return encoded(chunk_frame{file, slot, index, bytes, 0, digest});
}

// Sends the test's frames once the receiver has requested all files.
task<void> say_when_wanted(villain& v) {
  const frames list = listed({file_entry("a", 200'000), file_entry("b", 40'000),
                              file_entry("c", 40'000), directory_entry("d")});
  co_await v.say(list);
  co_await v.hear(frame_kind::wants);
  co_await v.hear(frame_kind::wants);
  co_await v.hear(frame_kind::wants);
  const frames rest = v.told;
  co_await v.say(rest);
}
void refuses_when_wanted(std::string_view what, frames told) {
  refuses(what, {say_when_wanted, std::move(told)});
}

}  // namespace

TEST_CASE("a sender whose entries lead out of the target is refused") {
  constexpr std::string_view out = "leads out of the target";
  for (const char* const path : {"../x", "/etc/x", "a/../../x", "..", "", "a//x", "./x", "a/"}) {
    CAPTURE(path);
    refuses(out, listed({file_entry(path, 4)}));
  }
  refuses(out, listed({directory_entry("..")}));
  refuses(out, listed({link_entry(entry_kind::symlink, "../x", "y")}));
  for (const char* const to : {"../x", "/etc/passwd", "a/../../x", "", ".."}) {
    refuses(out, listed({file_entry("a", 4), link_entry(entry_kind::hard_link, "b", to)}));
  }
  refuses("a file that is the target", listed({file_entry(".", 4)}));
}

TEST_CASE("a sender of what was not asked for is refused") {
  const entry a = file_entry("a", 4);
  transfer_options o = usual_options();
  o.hard_links = false;
  refuses("a hard link that was not asked for: b",
          {say_told, listed({a, link_entry(entry_kind::hard_link, "b", "a")})}, o);
  o = usual_options();
  o.links = false;
  refuses("a symlink that was not asked for: b",
          {say_told, listed({link_entry(entry_kind::symlink, "b", "a")})}, o);
  entry fifo = file_entry("b", 0);
  fifo.kind = entry_kind::special;
  fifo.type = S_IFIFO;
  refuses("a FIFO or socket that was not asked for: b", listed({fifo}));
  entry marked = a;
  marked.attributes = {{"user.x", "y"}};
  refuses("an attribute that was not asked for: a", listed({marked}));
  o = usual_options();
  o.recursive = false;
  refuses("a directory that was not asked for: d", {say_told, listed({directory_entry("d")})}, o);
  refuses("a name in a directory that was not asked for: d/a",
          {say_told, listed({file_entry("d/a", 4)})}, o);
}

TEST_CASE("a sender of another name of what it has not sent is refused") {
  constexpr std::string_view why = "another name of what has not come: b";
  for (const char* const to : {"private", "b", "a/x", "d", "other", "."}) {
    CAPTURE(to);
    refuses(why, listed({file_entry("a", 4), directory_entry("d"),
                         link_entry(entry_kind::hard_link, "other", "a"),
                         link_entry(entry_kind::hard_link, "b", to)}));
  }
  refuses(why, listed({link_entry(entry_kind::hard_link, "b", "a"), file_entry("a", 4)}));
}

TEST_CASE("a server that sends other names than it was asked for, or excluded ones, is refused") {
  const auto refuses_pull = [](std::string_view what, const named_sources& named,
                               const std::vector<entry>& all, bool listing = false) {
    transfer_options o = usual_options();
    o.listed = listing;
    filter chosen;
    chosen.add(filter::decision::exclude, "*.key");
    chosen.add(filter::decision::exclude, "secret/");
    const temporary_tree here;
    here.directory("target");
    const ending e = attack_receiver(cordma::transport::kind::shm, here.at("target"),
                                     {say_told, listed(all)}, o, {}, chosen, &named);
    INFO(text_of(e));
    CHECK_MESSAGE(e.error.find(what) != std::string::npos, std::string(what));
  };
  constexpr std::string_view excluded = "what the rules exclude that was not asked for";
  refuses_pull(excluded, {}, {file_entry("a.key", 4)});
  refuses_pull(excluded, {}, {directory_entry("secret")});
  refuses_pull(excluded, {}, {file_entry("secret/a", 4)});
  refuses_pull(excluded, {{"d"}}, {directory_entry("d"), file_entry("d/secret/e/a", 4)});
  refuses_pull("a name that was not asked for: e", {{"d"}}, {directory_entry("e")});
  refuses_pull("a name that was not asked for: d/f", {{}, {"d/e"}}, {file_entry("d/f", 4)}, true);
  entry stream = file_entry("a", 0);
  stream.kind = entry_kind::stream;
  refuses_pull("a stream that was not asked for: a", {}, {stream});
}

TEST_CASE("a sender that is refused is told why") {
  static std::string heard_by_it;
  const script s{[](villain& v) -> task<void> {
                   const frames all = v.told;
                   co_await v.say(all);
                   const heard h = co_await v.hear(frame_kind::refusal);
                   frame_reader in = h.reader();
                   heard_by_it = in.text();
                 },
                 listed({link_entry(entry_kind::hard_link, "b", "a")})};
  for (const cordma::transport::kind over : transports) {
    heard_by_it.clear();
    const temporary_tree here;
    here.directory("target");
    const ending e = attack_receiver(over, here.at("target"), s);
    CHECK(e.error.find("another name of what has not come: b") != std::string::npos);
    CHECK(heard_by_it == e.error);
  }
}

TEST_CASE("what others may not look into is closed to them before anything is in it") {
  entry top = directory_entry(".");
  entry made = directory_entry("made");
  entry there = directory_entry("there");
  top.mode = made.mode = 0700;
  there.mode = 0750;
  entry file = file_entry("made/file", 2 * chunk);
  file.mode = 0640;
  const auto half = [](villain& v) -> task<void> {
    const slot_memory at = co_await v.hear_memory();
    const frames list = v.told;
    co_await v.say(list);
    co_await v.hear(frame_kind::wants);
    const std::string bytes(chunk, 'x');
    co_await v.put(at, 0, bytes);
    const frames first = chunk_told(3, 0, 0, chunk, digest_of_text(bytes));
    co_await v.say(first);
    co_await v.hear(frame_kind::credit);
    v.go();
  };
  const script s{half, entries_frame({top, made, there, file})};
  transfer_options o = usual_options();
  o.inplace = true;
  const mode_t before = ::umask(022);
  const temporary_tree here;
  here.directory("target/there");
  REQUIRE(::chmod(here.at("target/there").c_str(), 0777) == 0);
  const ending e = attack_receiver(cordma::transport::kind::shm, here.at("target"), s, o);
  ::umask(before);
  INFO(text_of(e));
  const auto mode_of = [&](const char* path) {
    struct stat now{};
    REQUIRE(::stat(here.at(path).c_str(), &now) == 0);
    return now.st_mode & 07777;
  };
  CHECK(mode_of("target") == 0700);
  CHECK(mode_of("target/made") == 0700);
  CHECK(mode_of("target/there") == 0750);
  CHECK(mode_of("target/made/file") == 0640);
}

TEST_CASE("a sender of chunks and bundles that cannot be is refused") {
  constexpr std::string_view nowhere = "a place that was not wanted";
  refuses_when_wanted(nowhere, chunk_told(0, 0, 3, chunk));      // longer than the file
  refuses_when_wanted(nowhere, chunk_told(0, 0, 0, chunk + 1));  // longer than a chunk
  refuses_when_wanted(nowhere, chunk_told(0, 0, 0, ~0U));        // the largest length
  refuses_when_wanted(nowhere, chunk_told(0, 0, 4, 0));          // behind its end
  refuses_when_wanted(nowhere, chunk_told(0, 0, ~0ULL, chunk));  // far behind
  refuses_when_wanted(nowhere, chunk_told(0, 0, 0, chunk) + chunk_told(0, 1, 0, chunk));
  constexpr std::string_view unwanted = "a file that was not wanted";
  refuses_when_wanted(unwanted, chunk_told(3, 0, 0, 0));  // a directory
  refuses_when_wanted(unwanted, chunk_told(99, 0, 0, 4));
  refuses_when_wanted(unwanted, chunk_told(~0U, 0, 0, 4));
  constexpr std::string_view no_slot = "a slot that there is not";
  refuses_when_wanted(no_slot, chunk_told(0, slots, 0, chunk));
  refuses_when_wanted(no_slot, chunk_told(0, ~0U, 0, chunk));

  refuses_when_wanted("more than a slot holds",
                      encoded(bundle_frame{0, 0, {{1, 40'000}, {2, 40'000}}}));
  refuses_when_wanted("a file of another size", encoded(bundle_frame{0, 0, {{1, 4}}}));
  refuses_when_wanted("a file of another size",
                      encoded(bundle_frame{0, 0, {{1, 40'000}, {1, 40'000}}}));
  refuses_when_wanted("a file of another size", encoded(bundle_frame{0, 0, {{0, 200'000}}}));
  refuses_when_wanted(unwanted, encoded(bundle_frame{0, 0, {{3, 0}}}));
  refuses_when_wanted(no_slot, encoded(bundle_frame{slots, 0, {{1, 40'000}}}));
  refuses_when_wanted(unwanted, encoded(file_end{3, file_end::how::whole, ""}));
}

TEST_CASE("a sender whose frames come where they have no place is refused") {
  const frames end = number_frame(frame_kind::entries_end, 0);
  refuses("entries behind their end", end + entries_frame({file_entry("a", 4)}));
  refuses("another number of entries", end + end);
  refuses("another number of entries", number_frame(frame_kind::entries_end, 1));
  refuses("files missing that were wanted",
          listed({file_entry("a", 4)}) + number_frame(frame_kind::all_sent, 0));
  refuses("files missing that were wanted", number_frame(frame_kind::all_sent, 0));
  constexpr std::string_view misplaced = "no place in what a sender says";
  refuses(misplaced, number_frame(frame_kind::credit, 0));
  refuses(misplaced, frame_of(frame_kind::wants, [](frame_writer& w) { encode(w, want{}); }));
  refuses(misplaced, encoded(tally{}));
  refuses(misplaced, encoded(slot_memory{0, 4, chunk, 0}));
  refuses("a kind that this version does not have", number_frame(static_cast<frame_kind>(99), 0));
  refuses("the other side: so it is",
          frame_of(frame_kind::refusal, [](frame_writer& w) { w.text("so it is").u8(1); }));
  // A file that is reported as complete, without a byte of it.
  refuses_when_wanted(
      "files missing that were wanted",
      encoded(file_end{0, file_end::how::whole, ""}) + number_frame(frame_kind::all_sent, 0));
}

TEST_CASE("what is sent before it is wanted is refused") {
  // Another transfer holds the part, so the receiver has not requested the file yet.
  for (const frames& early :
       {chunk_told(0, 0, 0, chunk), encoded(file_end{0, file_end::how::failed, "x"})}) {
    const temporary_tree here;
    target other = target::open(here.root(), target::missing::is_error).value();
    const cordma::unique_fd part = other.open_part("large", O_RDWR).value();
    const ending e = attack_receiver(cordma::transport::kind::shm, here.root(),
                                     {say_told, listed({file_entry("large", 16U << 20)}) + early});
    INFO(text_of(e));
    CHECK(e.error.find("a file that was not wanted") != std::string::npos);
  }
}

TEST_CASE("a sender of files beyond number, or of problems, costs the receiver little") {
  // Each would take 32 MiB before its first byte has arrived.
  const std::uint64_t size = std::uint64_t{chunk} << 28;
  std::vector<entry> files;
  for (int i = 0; i < 12; ++i) {
    files.push_back(file_entry("f" + std::to_string(i), size));
    files.back().allocated = 0;
  }
  const auto list_and_go = [](villain& v) -> task<void> {
    const frames list = v.told;
    co_await v.say(list);
    for (int wanted = 0; wanted < 4; ++wanted) co_await v.hear(frame_kind::wants);
    for (int refused = 0; refused < 8; ++refused) co_await v.hear(frame_kind::problems);
    v.go();
  };
  const temporary_tree here;
  here.directory("target");
  const ending e = attack_receiver(cordma::transport::kind::shm, here.at("target"),
                                   {list_and_go, entries_frame(files)});
  INFO(text_of(e));
  CHECK(e.error.find("truncated") == std::string::npos);
  CHECK(std::filesystem::is_empty(here.at("target")));

  frames told;
  // Longer than a correct sender makes it.
  const frames one = frame_of(frame_kind::problems, [](frame_writer& w) {
    w.u8(static_cast<std::uint8_t>(problem::kind::failed)).text(std::string(4000, 'x'));
    w.text(std::string(60'000, 'y')).text("");
  });
  for (int i = 0; i < 1200; ++i) told.insert(told.end(), one.begin(), one.end());
  const auto end = number_frame(frame_kind::entries_end, 0);
  const auto tell_all = [](villain& v) -> task<void> {
    const frames all = v.told;
    co_await v.say(all);
    co_await v.hear(frame_kind::finished);
    const frames over = number_frame(frame_kind::all_sent, 0);
    co_await v.say(over);
    v.finish();
  };
  const ending many = attack_receiver(cordma::transport::kind::shm, here.at("target"),
                                      {tell_all, std::move(told) + end});
  CHECK(many.error.empty());
  CHECK(many.result.problems.not_remembered() > 100);
  CHECK(many.result.problems.any_failed());
  refuses("problems behind the end of entries", end + one);
}
