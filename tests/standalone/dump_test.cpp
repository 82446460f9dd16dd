// The signal that makes a process report its waits: in every thread, at any moment, bounded,
// without allocating.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/dump_handler.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

// Redirects standard error to a file during its lifetime.
class captured_errors {
 public:
  captured_errors() {
    const int file = ::mkstemp(name_.data());
    REQUIRE(file >= 0);
    before_ = ::dup(STDERR_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  captured_errors(const captured_errors&) = delete;
  captured_errors& operator=(const captured_errors&) = delete;
  ~captured_errors() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::unlink(name_.c_str());
  }
  [[nodiscard]] std::string text() const {
    std::ifstream in(name_);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    const std::string all = text();
    std::size_t n = 0;
    for (std::size_t at = 0; (at = all.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  }

 private:
  std::string name_ = "/tmp/cordma-dump-XXXXXX";
  int before_ = -1;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

long lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

task<> wait_for(event* e) { co_await e->wait(); }

}  // namespace

TEST_CASE("a signal makes every thread report its own reactors, one that is stuck included") {
  install_dump_handler(SIGUSR1).value();
  std::atomic<bool> release{false};
  std::atomic<reactor*> sleeper{nullptr};
  std::thread spinning([&release] {
    reactor r({.mode = wait_mode::polling});
    r.post([&release] {
      while (!release) {
        // ThreadSanitizer delivers signals only at such a call.
        if constexpr (sanitized) ::poll(nullptr, 0, 0);
      }
    });
    while (!release) r.turn();
  });
  std::thread asleep([&release, &sleeper] {
    reactor r({.mode = wait_mode::event});
    event never_set;
    scope waiting(r);
    waiting.spawn(wait_for(&never_set));
    sleeper = &r;
    const auto over = [](void* flag) noexcept {
      return static_cast<std::atomic<bool>*>(flag)->load();
    };
    while (!r.run_until(over, &release)) {}
  });
  const reactor mine;
  {
    const captured_errors errors;
    // A thread that does not sleep or spin yet also reports, so this repeats until the expected
    // report.
    while (errors.count(", inside a pass") == 0 || errors.count(", asleep") == 0 ||
           errors.count("wait_for at standalone/dump_test.cpp") == 0) {
      ::raise(SIGUSR1);
      std::this_thread::yield();
    }
    const std::string text = errors.text();
    CHECK_MESSAGE(has(text, ": 3 reactors\n"), text);
    CHECK(has(text, ", between passes"));
  }
  release = true;
  sleeper.load()->wake();
  spinning.join();
  asleep.join();
}

TEST_CASE("a thread that has ended is named, and the others report") {
  install_dump_handler(SIGUSR1).value();
  std::unique_ptr<reactor> left;
  std::thread([&left] { left = std::make_unique<reactor>(); }).join();
  const reactor mine;
  const captured_errors errors;
  ::raise(SIGUSR1);
  const std::string text = errors.text();
  CHECK_MESSAGE(has(text, "has ended\n"), text);
  CHECK(has(text, ", between passes"));
}

TEST_CASE(
    "a report to a pipe without a reader does not end the process, and leaves no signal pending") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  reactor r;
  r.dump(ends[1]);
  ::close(ends[1]);
  sigset_t pending;
  REQUIRE(::sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
}

TEST_CASE("a report of 10,000 endpoints has at most 200 lines, and takes nothing from the heap") {
  install_dump_handler(SIGUSR1).value();
  constexpr std::size_t count = 10'000;
  stage s({.mode = wait_mode::polling, .most_endpoints = 2 * count}, transport::kind::sim);
  std::vector<Endpoint> endpoints;
  for (std::size_t i = 0; i < count; ++i) endpoints.push_back(s.client().prepare().value());
  const captured_errors errors;
  const std::uint64_t before = allocations();
  ::raise(SIGUSR1);
  CHECK(allocations() == before);
  const std::string text = errors.text();
  CHECK_MESSAGE(has(text, ": 10000 endpoints, "), text);
  CHECK(has(text, " more endpoints: "));
  CHECK(has(text, " connecting\n"));
  CHECK(lines_of(text) <= 201);  // one for the process
}

namespace {

task<> one_connection(stage& s, Listener& listener) {
  wire w = co_await connect(s.client(), listener, s.reach(listener));
  MemoryRegion memory = client_memory(s, 64);
  MemoryRegion room = server_memory(s, 64);
  for (int i = 0; i < 20; ++i) {
    recv_operation receiving = w.server.recv(room.all()).start();
    co_await w.client.send(memory.all());
    co_await with_timeout(std::chrono::seconds(60), std::move(receiving));
  }
  co_await w.client.close();
}

}  // namespace

TEST_CASE("a report may come at any moment: while connections come, work and close") {
  install_dump_handler(SIGALRM).value();
  stage s({.mode = wait_mode::polling}, transport::kind::shm);
  Listener listener = s.server().listen(s.server_address()).value();
  {
    const captured_errors errors;
    const itimerval often{.it_interval = {0, 300}, .it_value = {0, 300}};
    REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
    int rounds = 0;
    while (rounds < 20 || errors.count(" endpoints, ") < 100) {
      for (int i = 0; i < 10; ++i, ++rounds) cordma::run(s.loop(), one_connection(s, listener));
    }
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    // One reactor, two Workers: each report is complete.
    CHECK(errors.count("\n  tasks: ") == errors.count(": 1 reactors\n"));
  }
  std::signal(SIGALRM, SIG_DFL);
}

TEST_CASE("an endpoint is reported with its state, its queues and the age of its oldest request") {
  stage s({.mode = wait_mode::polling}, transport::kind::sim);
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion room = server_memory(on, 64);
    recv_operation receiving = w.server.recv(room.all());
    receiving.start();
    co_await sleep_for(std::chrono::seconds(20));
    std::string text;
    {
      const captured_errors errors;
      on.server().dump();
      text = errors.text();
    }
    CHECK_MESSAGE(has(text, ": connected by sim, sends 0 of "), text);
    CHECK(has(text, ", receives 1 of "));
    const bool age =
        has(text, "the oldest a recv of 20 s ago") || has(text, "the oldest a recv of 19 s ago");
    CHECK(age);
    MemoryRegion memory = client_memory(on, 64);
    co_await w.client.send(memory.all());
    co_await receiving;
    co_await w.client.close();
  });
}
