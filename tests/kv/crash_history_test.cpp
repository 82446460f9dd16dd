// A server that is killed and restarted repeatedly: the observations of its clients are
// linearizable, and no acknowledged write is missing. The test runs the program itself; CORDMA_KV
// names it.
#include "free_port.hpp"
#include "storm.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

using namespace kv;
using namespace kv::test;

namespace {

// Runs cordma-kv with a journal that is on disk before each response.
class killable_server {
 public:
  explicit killable_server(std::string program) : program_(std::move(program)), port_(free_port()) {
    char name[] = "/tmp/cordma-kv-crash-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    dir_ = name;
  }
  ~killable_server() {
    kill();
    std::filesystem::remove_all(dir_);
  }
  killable_server(const killable_server&) = delete;
  killable_server& operator=(const killable_server&) = delete;

  void start() {
    std::vector<std::string> words{program_,
                                   "--port",
                                   "0",
                                   "--native-port",
                                   std::to_string(port_),
                                   "--dir",
                                   dir_,
                                   "--appendonly",
                                   "yes",
                                   "--appendfsync",
                                   "always",
                                   "--save",
                                   "",
                                   "--wait",
                                   "event",
                                   "--logfile",
                                   dir_ + "/log"};
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    CHECK(WIFSIGNALED(status));  // it did not exit before
    pid_ = -1;
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  std::string program_;
  int port_;
  std::string dir_;
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("kill -9 and restart: all that four clients saw could have happened [8 times]") {
  const char* const program = std::getenv("CORDMA_KV");
  if (program == nullptr) {
    MESSAGE("skipped: CORDMA_KV does not name the server, which this build has not");
    return;
  }
  killable_server server(program);
  server.start();
  std::vector<std::unique_ptr<storm>> storms;
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto connect = [&server, i] {
      const client_options how{.gets = i % 2 == 0 ? way_of_gets::one_sided : way_of_gets::asked,
                               .timeout = std::chrono::seconds(2)};
      return std::make_unique<blocking_client>(server.address(), how);
    };
    storms.push_back(std::make_unique<storm>(connect, i));
    threads.emplace_back([&over, &s = *storms.back()] {
      while (!over.load()) s.step();
    });
  }
  const auto serve = [&storms](std::uint64_t more) {
    const auto answered = [&storms] {
      std::uint64_t sum = 0;
      for (const auto& s : storms) sum += s->answered();
      return sum;
    };
    for (const std::uint64_t until = answered() + more; answered() < until;) {
      std::this_thread::yield();
    }
  };
  cordma::test::dice chance(1);
  const std::uint64_t kills = cordma::test::rounds_under_test(8, 2);
  for (std::uint64_t i = 0; i < kills; ++i) {
    serve(500 + chance.below(1'000));
    server.kill();
    server.start();
  }
  serve(500);
  over = true;
  for (std::thread& t : threads) t.join();
  std::uint64_t broken = 0;
  for (const auto& s : storms) broken += s->broken();
  CHECK(broken >= kills);
  check_histories(storms);
}
