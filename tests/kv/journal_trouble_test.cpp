// A disk that accepts no more writes: the error is reported, no data is lost, and writing resumes
// when it is possible again.
#include "journal_ground.hpp"

#include "../../apps/kv/command/service.hpp"
#include "../../apps/kv/command/session.hpp"

#include <doctest/doctest.h>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <fcntl.h>
#include <sys/resource.h>

using namespace kv;
using namespace kv::test;

namespace {

// Simulates a full disk by a limit on the size of files.
class file_limit {
 public:
  explicit file_limit(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit now = before_;
    now.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~file_limit() { lift(); }
  void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

// A client of a scene, without a socket.
class served {
 public:
  served(scene& p, service& of) : p_(p), session_(of, here(), [](void*) noexcept {}, nullptr) {}
  void send(std::initializer_list<std::string> words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& w : words) text += "$" + std::to_string(w.size()) + "\r\n" + w + "\r\n";
    session_.received(text);
  }
  // Returns the output sent to the client so far.
  std::string take() {
    session_.resume();
    const std::span<const char> said = session_.pending();
    std::string text(said.data(), said.size());
    session_.sent(said.size());
    return text;
  }
  std::string wait_for_reply() {
    std::string text;
    p_.until([&] { return !(text = take()).empty(); });
    return text;
  }
  [[nodiscard]] bool wants_input() const { return session_.wants_input(); }

 private:
  static session_origin here() {
    session_origin o;
    o.loopback = true;
    return o;
  }
  scene& p_;
  session session_;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

contents reloaded(const temporary_tree& tree, journal_options options) {
  scene p(tree, 1, std::move(options));
  const cordma::result<load_report> done = p.load();
  REQUIRE_MESSAGE(done.ok(), (done ? "" : done.why().describe()));
  return contents_of(p.keys);
}

// Returns the contents that a restart would find after a kill at this point.
contents killed(const temporary_tree& tree, const journal_options& options) {
  temporary_tree copy;
  std::filesystem::copy(tree.at("appendonlydir"), copy.at("appendonlydir"));
  return reloaded(copy, options);
}

cordma::task<void> note_end(cordma::task<void> work, std::string* how) {
  try {
    co_await std::move(work);
    *how = "done";
  } catch (const cordma::error& e) {
    *how = e.what();
  }
}

}  // namespace

TEST_CASE(
    "a full disk is trouble until there is room; what was appended is kept, and written then") {
  for (const sync_policy policy : {sync_policy::every_second, sync_policy::always}) {
    for (const bool ring : {true, false}) {
      temporary_tree tree;
      journal_options o;
      o.appendonly = true;
      o.appendfsync = policy;
      o.io_uring = ring;
      o.most_pending = 50'000;
      contents want;
      {
        scene p(tree, 1, o);
        p.begin();
        const file_limit limit(10'000);
        for (int i = 0; i < 30; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
        p.until([&] { return p.written.trouble().has_value(); });
        CHECK(*p.written.trouble() == "File too large");
        CHECK(p.written.durable() < p.written.appended());
        CHECK_FALSE(p.written.backlogged());
        for (int i = 0; i < 30; ++i) p.put("more" + std::to_string(i), std::string(1000, 'v'));
        CHECK(p.written.backlogged());
        p.until([&] { return p.last_line().find("File too large") != std::string_view::npos; });
        want = contents_of(p.keys);
        // After a kill at this point, the records that were complete before are present.
        const contents cut = killed(tree, o);
        CHECK(cut.size() >= 8);
        CHECK(cut.size() < want.size());
        limit.lift();
        p.time.skip(std::chrono::seconds(1));  // the write is retried
        p.until([&] { return !p.written.trouble(); });
        CHECK_FALSE(p.written.backlogged());
        p.time.skip(std::chrono::seconds(1));  // it is synced
        p.until([&] { return p.written.durable() == p.written.appended(); });
        p.close();
        CHECK(p.last_line() == "the journal can be written again");
        CHECK(p.warned("File too large") == 1);
        CHECK(p.warned("the journal can be written again") == 0);
      }
      CHECK(reloaded(tree, o) == want);
    }
  }
}

TEST_CASE(
    "a disk that takes nothing is waited for while there is patience, at the end for one more "
    "try") {
  temporary_tree tree;
  journal_options o;
  o.appendonly = true;
  scene p(tree, 1, o);
  p.begin();
  const file_limit limit(10'000);
  for (int i = 0; i < 30; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
  p.until([&] { return p.written.trouble().has_value(); });
  std::string end;
  cordma::scope tasks(p.loop);
  // Runs the reactor for as many passes as a tick of the journal can need.
  const auto settle = [&p] {
    for (int i = 0; i < 300; ++i) cordma::run(p.loop, scene::pause());
  };
  tasks.spawn(note_end(p.written.until_durable(), &end));
  p.time.skip(journal::usual_patience / 2);
  settle();
  CHECK(end.empty());
  p.time.skip(journal::usual_patience);
  p.until([&] { return !end.empty(); });
  CHECK(end.find("bytes of the journal could not be written: File too large") != std::string::npos);
  end.clear();
  tasks.spawn(note_end(p.written.close(), &end));
  cordma::run(p.loop, scene::pause());
  CHECK(end.empty());
  p.time.skip(journal::brief_patience);
  p.until([&] { return !end.empty(); });
  CHECK(end.find("bytes of the journal could not be written: File too large") != std::string::npos);
  limit.lift();
}

TEST_CASE(
    "a snapshot that does not fit fails with its reason, leaves nothing, and the next one works") {
  temporary_tree tree;
  scene p(tree, 1);
  p.begin();
  for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
  {
    const file_limit limit(100'000);
    p.background(background::snapshot);
  }
  REQUIRE(p.ends.back().failed);
  CHECK(p.ends.back().failed->find("temp-dump.ckv") != std::string::npos);
  CHECK(p.ends.back().failed->find("File too large") != std::string::npos);
  CHECK(p.written.info().last_snapshot_failed);
  CHECK(std::filesystem::is_empty(tree.root()));
  p.background(background::snapshot);
  CHECK_FALSE(p.ends.back().failed);
  CHECK_FALSE(p.written.info().last_snapshot_failed);
  CHECK(reloaded(tree, {}) == contents_of(p.keys));
}

TEST_CASE("a rewrite that does not fit fails, and the journal is as whole as before") {
  temporary_tree tree;
  journal_options o;
  o.appendonly = true;
  contents want;
  {
    scene p(tree, 1, o);
    p.begin();
    for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
    p.until([&] { return p.written.info().pending_bytes == 0; });
    {
      const file_limit limit(100'000);
      p.background(background::rewrite);
    }
    CHECK(p.ends.back().failed);
    p.put("after", "1");
    want = contents_of(p.keys);
    CHECK(killed(tree, o).size() >= 1000);
    p.background(background::rewrite);
    CHECK_FALSE(p.ends.back().failed);
    p.close();
  }
  CHECK(reloaded(tree, o) == want);
}

TEST_CASE("appendonly that is turned on and gets no base is off again, and its increment is gone") {
  temporary_tree tree;
  journal_options o;
  o.appendfsync = sync_policy::always;
  scene p(tree, 1, o);
  p.begin();
  for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
  p.written.set_appendonly(true);
  {
    const file_limit limit(100'000);
    p.until([&] { return !p.ends.empty(); });
  }
  CHECK(p.ends.back().failed);
  CHECK_FALSE(p.written.waits());
  CHECK(std::filesystem::is_empty(tree.at("appendonlydir")));
  // An explicit request retries at once.
  p.background(background::rewrite);
  CHECK_FALSE(p.ends.back().failed);
  CHECK(p.written.waits());
  p.put("after", "1");
  p.close();
  o.appendonly = true;
  CHECK(killed(tree, o).size() == 1001);
}

TEST_CASE("a directory that cannot be written to is said with its name when the journal opens") {
  temporary_tree tree;
  tree.file("appendonlydir", "a file where the directory should be");
  journal_options o;
  o.appendonly = true;
  scene p(tree, 1, o);
  const cordma::result<load_report> loaded = p.load();
  if (loaded) {
    CHECK_THROWS_WITH_AS(p.open(), doctest::Contains("appendonlydir"), cordma::error);
  } else {
    CHECK(loaded.why().message().find("appendonlydir") != std::string::npos);
  }
}

TEST_CASE(
    "appendonly that cannot be turned on is tried again and again, said once, and then works") {
  temporary_tree tree;
  journal_options o;
  o.appendfsync = sync_policy::always;
  contents want;
  {
    scene p(tree, 1, o);
    p.begin();
    p.put("before", "1");
    p.written.set_appendonly(true);
    {
      const file_limit limit(0);
      // The last retry is automatic, after its interval on a monotonic clock.
      for (std::size_t tries = 1; tries <= 4; ++tries) {
        p.until([&] { return p.ends.size() == tries; });
        CHECK(p.ends.back().failed);
        p.put("try" + std::to_string(tries), "1");
        if (tries < 3) CHECK(p.written.ask_for(background::rewrite) == journal::asked::begun);
        if (tries == 3) p.time.skip(std::chrono::minutes(1));
      }
      CHECK_FALSE(p.written.waits());
      CHECK_FALSE(p.written.refuses());
      CHECK(p.written.info().pending_bytes == 0);
      CHECK_FALSE(p.written.info().appendonly);
      CHECK(p.written.info().last_error.find("File too large") != std::string::npos);
    }
    const auto told = std::ranges::count_if(
        p.lines, [](const std::string& line) { return line.find("appendonly") == 0; });
    CHECK(told == 1);
    const auto advice = [](const std::string& line) {
      return line.find("Make room in ") != std::string::npos;
    };
    CHECK(std::ranges::count_if(p.lines, advice) == 1);
    p.written.set_appendonly(true);
    p.until([&] { return p.written.info().appendonly; });
    CHECK(p.written.waits());
    p.put("after", "1");
    want = contents_of(p.keys);
    p.close();
  }
  o.appendonly = true;
  CHECK(reloaded(tree, o) == want);
}

TEST_CASE("appendonly that cannot be turned on for a damaged manifest is said with what to do") {
  temporary_tree tree;
  scene p(tree, 1);
  p.begin();
  std::filesystem::create_directory(tree.at("appendonlydir"));
  tree.file("appendonlydir/appendonly.aof.manifest", "");
  p.written.set_appendonly(true);
  p.until([&] { return !p.ends.empty(); });
  const std::string why = p.ends.back().failed.value_or("");
  CHECK(why.find("appendonlydir/appendonly.aof.manifest: it names no file of a journal. Put a "
                 "copy in its place, or move it away") != std::string::npos);
  CHECK(p.last_line().find("See to what it failed for, or do without") != std::string_view::npos);
  for (const std::string& line : p.lines) CHECK(line.find("Make room") == std::string::npos);
  p.close();
}

TEST_CASE("appendonly that goes off and on while the disk is full keeps what was noted before") {
  temporary_tree tree;
  journal_options o;
  o.appendonly = true;
  contents want;
  {
    scene p(tree, 1, o);
    p.begin();
    {
      const file_limit limit(200);
      p.put("noted", std::string(1000, 'v'));
      p.until([&] { return p.written.refuses(); });
      CHECK(p.written.ask_for(background::rewrite) == journal::asked::begun);
      p.until([&] { return p.written.info().running == background::rewrite; });
      p.written.set_appendonly(false);  // the rewrite no longer waits for the disk
      p.until([&] { return !p.written.info().appendonly; });
      CHECK(p.ends.size() == 1);
      CHECK_FALSE(p.written.refuses());
      for (std::size_t tries = 2; tries < 5; ++tries) {
        p.written.set_appendonly(true);
        p.until([&] { return p.ends.size() == tries; });
        CHECK(p.ends.back().failed);
      }
      p.written.set_appendonly(true);
    }
    p.time.skip(std::chrono::seconds(1));
    p.until([&] { return p.written.info().appendonly; });
    want = contents_of(p.keys);
    p.close();
  }
  CHECK(reloaded(tree, o) == want);
}

TEST_CASE("a file that is given up keeps what is being written to it until that has ended") {
  cordma::reactor loop(cordma::reactor_options{.mode = cordma::wait_mode::event});
  disk on(loop, {.io_uring = false});
  // All but one of the disk's threads are busy, so that the failure precedes the write.
  std::promise<void> enough;
  const std::shared_future<void> wait = enough.get_future().share();
  std::array<disk::job, 2> busy{disk::job([](disk::job&) noexcept {}),
                                disk::job([](disk::job&) noexcept {})};
  for (disk::job& j : busy) on.run(j, [wait] { wait.wait(); });
  std::mutex guard;
  std::optional<std::size_t> kept;
  {
    std::unique_ptr<stream> s;
    s = std::make_unique<stream>(on, guard, stream_options{}, [&] {
      if (s->failed() != 0 && !kept) kept = s->pending();
    });
    const auto append = [&](std::string_view text) {
      const std::lock_guard lock(guard);
      (void)s->append({std::span(&text, 1), text.size(), crc_more(crc_begin, text)});
    };
    {
      const std::lock_guard lock(guard);  // writable, but fsync fails
      s->go_to(cordma::unique_fd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), log_kind::snapshot);
    }
    append("first");
    while (s->pending() != 0) loop.turn();
    s->flush();
    append(std::string(100'000, 'v'));
    while (s->pending() != 0) loop.turn();
    CHECK(s->failed() == EINVAL);
  }
  enough.set_value();
  on.settle();
  REQUIRE(kept);
  CHECK(*kept > 100'000);
}

TEST_CASE("a manifest that cannot be written leaves a journal that is whole [first, second time]") {
  for (const bool second : {false, true}) {
    CAPTURE(second);
    temporary_tree tree;
    journal_options o;
    o.appendonly = true;
    o.appendfsync = sync_policy::always;
    contents want;
    {
      scene p(tree, 1, o);
      p.begin();
      p.put("before", "1");
      const std::string manifest = tree.at("appendonlydir/appendonly.aof.manifest");
      const std::string obstacle = tree.at("appendonlydir/temp-appendonly.aof.manifest");
      p.advanced = [&] {
        const bool now = second
                             ? text_of(manifest).find("type h") != std::string::npos
                             : std::filesystem::exists(tree.at("appendonlydir/temp-rewrite.ckv"));
        if (now && p.ends.empty()) std::filesystem::create_directory(obstacle);
      };
      p.background(background::rewrite);
      CHECK(p.ends.back().failed.has_value() == !second);
      CHECK(p.written.info().last_error.find("temp-appendonly.aof.manifest") != std::string::npos);
      std::filesystem::remove(obstacle);
      p.put("meanwhile", "1");
      p.until([&] { return p.written.durable() == p.written.appended(); });
      CHECK(killed(tree, o) == contents_of(p.keys));
      // The files that a kill in the middle of the next rewrite would leave.
      temporary_tree midway;
      p.advanced = [&] {
        if (!std::filesystem::exists(tree.at("appendonlydir/temp-rewrite.ckv"))) return;
        std::filesystem::copy(tree.at("appendonlydir"), midway.at("appendonlydir"));
        p.advanced = {};
      };
      p.background(background::rewrite);
      CHECK_FALSE(p.ends.back().failed);
      CHECK(reloaded(midway, o) == contents_of(p.keys));
      p.put("after", "1");
      want = contents_of(p.keys);
      p.close();
      CHECK(text_of(manifest).find("type h") == std::string::npos);
    }
    CHECK(reloaded(tree, o) == want);
    const std::filesystem::directory_iterator files(tree.at("appendonlydir"));
    CHECK(std::distance(begin(files), end(files)) == 3);
  }
}

TEST_CASE("a snapshot without a journal holds back who changes more than is written") {
  temporary_tree tree;
  scene p(tree, 1);
  p.begin();
  service of(p.keys, {}, {});
  of.journal = &p.written;
  p.put("there", "1");
  // More data than may wait to be written, so that the walk is in progress when its first part is
  // written.
  for (int i = 0; i < 120; ++i) p.put("key" + std::to_string(i), std::string(100'000, 'v'));
  served c(p, of);
  served reader(p, of);
  const auto set = [&](std::size_t number) {
    c.send({"SET", "more" + std::to_string(number), std::string(1'000'000, 'v')});
  };
  std::size_t sent = 0;
  const auto flood = [&] {
    while (!p.written.backlogged()) set(sent++);
    const std::size_t first = sent;
    for (int i = 0; i < 20; ++i) set(sent++);
    CHECK_FALSE(
        p.of("more" + std::to_string(first)).peek(p.keys.key("more" + std::to_string(first))));
    CHECK_FALSE(c.wants_input());
    reader.send({"GET", "there"});
    CHECK(reader.take() == "$1\r\n1\r\n");
  };
  std::string told;
  p.advanced = [&] {
    if (sent == 0 && p.written.info().running != background::snapshot) return;
    if (sent == 0) flood();
    of.journal_advanced(0);
    told += c.take();
  };
  (void)p.written.ask_for(background::snapshot);
  p.until([&] { return sent != 0 && told.size() == 5 * sent; });
  p.advanced = {};
  CHECK(c.wants_input());
  p.until([&] { return !p.ends.empty(); });
  CHECK_FALSE(p.ends.back().failed);
  p.close();
}

TEST_CASE(
    "a disk that is full while clients wait for it: errors for what comes, and nothing is lost") {
  temporary_tree tree;
  journal_options o;
  o.appendonly = true;
  o.appendfsync = sync_policy::always;
  {
    scene p(tree, 1, o);
    p.begin();
    service of(p.keys, {}, {});
    of.journal = &p.written;
    served first(p, of);
    served other(p, of);
    first.send({"SET", "before", "1"});
    CHECK(first.wait_for_reply() == "+OK\r\n");
    {
      const file_limit limit(
          std::filesystem::file_size(tree.at("appendonlydir/appendonly.aof.1.incr.ckv")) + 50);
      first.send({"SET", "during", std::string(1000, 'v')});
      p.until([&] { return p.written.refuses(); });
      CHECK(first.take().empty());  // the outcome is not known yet
      const std::string refusal = "-MISCONF Errors writing to the AOF file: File too large\r\n";
      other.send({"SET", "refused", "1"});
      CHECK(other.take() == refusal);
      other.send({"PING"});
      CHECK(other.take() == refusal);
      other.send({"MULTI"});
      other.send({"ECHO", "x"});
      CHECK(other.take() == "+OK\r\n+QUEUED\r\n");
      other.send({"SET", "refused", "1"});
      CHECK(other.take() == refusal);
      other.send({"EXEC"});
      CHECK(other.take().find("-EXECABORT") == 0);
      other.send({"GET", "during"});
      CHECK(other.take().empty());  // data that may be lost is not shown
      CHECK(killed(tree, o).size() == 1);
    }
    p.time.skip(std::chrono::seconds(1));
    CHECK(first.wait_for_reply() == "+OK\r\n");
    CHECK(other.take() == "$1000\r\n" + std::string(1000, 'v') + "\r\n");
    other.send({"SET", "after", "1"});
    CHECK(other.wait_for_reply() == "+OK\r\n");
    CHECK(killed(tree, o).size() == 3);
    p.close();
    other.send({"SET", "late", "1"});
    CHECK(other.take() == "-MISCONF Errors writing to the AOF file: the server ends\r\n");
  }
}

TEST_CASE(
    "appendonly that is turned off behind a backlog lets clients go on, and the end wait for "
    "nothing") {
  for (const sync_policy policy : {sync_policy::every_second, sync_policy::always}) {
    temporary_tree tree;
    journal_options o;
    o.appendonly = true;
    o.appendfsync = policy;
    o.most_pending = 10'000;
    scene p(tree, 1, o);
    p.begin();
    service of(p.keys, {}, {});
    of.journal = &p.written;
    p.advanced = [&] { of.journal_advanced(0); };
    served c(p, of);
    const file_limit limit(200);
    c.send({"SET", "long", std::string(20'000, 'v')});
    p.until([&] { return p.written.refuses(); });
    CHECK(p.written.backlogged());
    CHECK(c.take() == (policy == sync_policy::always ? "" : "+OK\r\n"));
    p.written.set_appendonly(false);
    p.until([&] { return !p.written.info().appendonly; });
    CHECK_FALSE(p.written.backlogged());
    CHECK_FALSE(p.written.refuses());
    c.send({"SET", "a", "2"});
    CHECK(c.take() == (policy == sync_policy::always ? "+OK\r\n+OK\r\n" : "+OK\r\n"));
    CHECK(p.written.info().pending_bytes > 20'000);
    CHECK(p.last_line().find("appendonly is off") == 0);
    p.close();  // throws at the end if it waits
  }
}
