// The trace: a file of Chrome JSON with posts, completions, events and waits. Also traces that
// cannot be written, and programs that end by a failed check.
#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/trace.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

class directory {
 public:
  directory() { REQUIRE(::mkdtemp(name_.data()) != nullptr); }
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  ~directory() { static_cast<void>(std::system(("rm -rf " + name_).c_str())); }
  [[nodiscard]] std::string operator/(const std::string& file) const { return name_ + "/" + file; }

 private:
  std::string name_ = "/tmp/cordma-trace-XXXXXX";
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// A message, and a wait for a timer, in which the Worker sleeps.
task<> one_message(Worker* client, Listener* listener, Context* context, std::string address) {
  wire w = co_await connect(*client, *listener, address);
  MemoryRegion memory = context->allocate(64).value();
  MemoryRegion room = context->allocate(64).value();
  recv_operation receiving = w.server.recv(room.all());
  receiving.start();
  co_await w.client.send(memory.all());
  co_await receiving;
  co_await sleep_for(std::chrono::milliseconds(1));
  co_await w.client.close();
}

void work() {
  Context context(host::only());
  Worker worker(context, {.mode = wait_mode::event});
  Listener listener = worker.listen("127.0.0.1:0").value();
  worker.run(one_message(&worker, &listener, &context, listener.bound().text()));
}

// Runs `life` in a separate process with CORDMA_TRACE; returns its status as in waitpid(), its
// errors go to `errors`.
int traced(const std::string& trace, const std::string& errors, void (*life)()) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("CORDMA_TRACE", trace.c_str(), 1);
    const int file = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDERR_FILENO);
    try {
      life();
    } catch (const std::exception& e) {
      static_cast<void>(::write(STDERR_FILENO, e.what(), std::string_view(e.what()).size()));
      std::exit(1);
    }
    std::exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

std::multiset<std::string> categories_of(const nlohmann::json& trace) {
  std::multiset<std::string> all;
  for (const auto& event : trace) {
    if (event.contains("cat")) all.insert(event["cat"].get<std::string>());
  }
  return all;
}

}  // namespace

TEST_CASE(
    "a trace holds posts, completions, events, arms, sleeps and wake-ups, in order, as JSON") {
  const directory place;
  const int status = traced(place / "trace.json", place / "errors", work);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text_of(place / "errors").empty());
  const nlohmann::json trace = nlohmann::json::parse(text_of(place / "trace.json"));
  REQUIRE(trace.is_array());
  const std::multiset<std::string> found = categories_of(trace);
  for (const char* what : {"post", "completion", "event", "arm", "sleep", "wake"}) {
    CHECK_MESSAGE(found.count(what) > 0, what);
  }
  CHECK(found.count("sleep") == found.count("wake"));
  double before = 0;
  for (const auto& event : trace) {
    if (!event.contains("ts")) continue;
    const double now = event["ts"].get<double>();
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the process id may be a part of the name of the trace file") {
  const directory place;
  const int status = traced(place / "trace-%p.json", place / "errors", [] {
    work();
    const std::string name = std::string(std::getenv("CORDMA_TRACE"));
    const std::string mine = name.substr(0, name.find("%p")) + std::to_string(::getpid()) + ".json";
    if (::access(mine.c_str(), R_OK) != 0) std::exit(2);
  });
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a reactor that records nothing ends as ever in a process that traces") {
  const directory place;
  const int status = traced(place / "trace.json", place / "errors", [] {
    work();
    const reactor plain;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a trace file that cannot be made is an error that names setting, file and cause") {
  const directory place;
  const int status = traced(place / "missing/trace.json", place / "errors", work);
  CHECK(WEXITSTATUS(status) == 1);
  const std::string text = text_of(place / "errors");
  CHECK_MESSAGE(text.find("CORDMA_TRACE") != std::string::npos, text);
  CHECK(text.find("missing/trace.json") != std::string::npos);
  CHECK(text.find("No such file or directory") != std::string::npos);
}

TEST_CASE("a FIFO without a reader is refused as trace file, at once") {
  const directory place;
  REQUIRE(::mkfifo((place / "fifo").c_str(), 0600) == 0);
  const int status = traced(place / "fifo", place / "errors", work);
  CHECK(WEXITSTATUS(status) == 1);
  const std::string text = text_of(place / "errors");
  CHECK_MESSAGE(text.find("CORDMA_TRACE") != std::string::npos, text);
}

TEST_CASE("a full disk is reported once, and the program goes on") {
  const directory place;
  const int status = traced("/dev/full", place / "errors", work);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const std::string text = text_of(place / "errors");
  CHECK_MESSAGE(text.find("trace is incomplete") != std::string::npos, text);
  CHECK(text.find("No space left on device") != std::string::npos);
  CHECK(text.find("incomplete") == text.rfind("incomplete"));
}

TEST_CASE("a failed check writes the trace before the program ends") {
  const directory place;
  const int status = traced(place / "trace.json", place / "errors", [] {
    Context context(host::only());
    Worker worker(context, {.mode = wait_mode::event});
    Listener listener = worker.listen("127.0.0.1:0").value();
    worker.run(one_message(&worker, &listener, &context, listener.bound().text()));
    CORDMA_REQUIRE_OP(listener.bound().port, ==, 0);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  const std::string text = text_of(place / "errors");
  CHECK_MESSAGE(text.find("REQUIRE failed: listener.bound().port == 0") != std::string::npos, text);
  const nlohmann::json trace = nlohmann::json::parse(text_of(place / "trace.json"));
  CHECK(categories_of(trace).count("post") > 0);
}

TEST_CASE("a second trace file in a process is refused") {
  const directory place;
  static const directory* at = &place;
  const int status = traced(place / "trace.json", place / "errors", [] {
    work();
    start_trace(*at / "other.json").value();
  });
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(text_of(place / "errors").find("a second one") != std::string::npos);
}

TEST_CASE("without the setting nothing is traced") {
  work();
  CHECK(!is_tracing());
}

TEST_CASE("the last 65,536 entries of a reactor are kept") {
  const directory place;
  static const directory* at = &place;
  const int status = traced(place / "trace.json", place / "errors", [] {
    start_trace(*at / "trace.json").value();
    reactor r({.mode = wait_mode::polling});
    r.start_tracing();
    for (std::uint64_t i = 0; i < 200'000; ++i) r.trace()->add(trace_point::event, "step", &r, i);
  });
  CHECK(WEXITSTATUS(status) == 0);
  const nlohmann::json trace = nlohmann::json::parse(text_of(place / "trace.json"));
  std::uint64_t expected = 200'000 - 65'536;
  for (const auto& event : trace) {
    if (!event.contains("args") || !event["args"].contains("amount")) continue;
    if (event["args"]["amount"].get<std::uint64_t>() != expected) {
      FAIL("entry " << event.dump() << ", not " << expected);
    }
    ++expected;
  }
  CHECK(expected == 200'000);
}
