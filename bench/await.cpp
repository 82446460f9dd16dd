// bench-await: the cost of awaiting. A coroutine awaits operations that a poller completes, so that
// each one suspends and resumes through the ready list; for comparison, callbacks with the same
// poller and loop.
#include "common.hpp"
#include "null_transport.hpp"

#include <cordma/runtime/scope.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

std::atomic<std::uint64_t> heap_calls{0};

}  // namespace

[[gnu::weak, gnu::noinline]] void* operator new(std::size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::weak, gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::weak, gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace cordma;
using bench::null_operation;
using bench::null_transport;
using bench::request;

task<void> await_many(reactor* r, null_transport* via, std::uint64_t n, std::uint64_t* sum) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const int one = co_await null_operation(*r, *via);
    *sum += static_cast<std::uint64_t>(one);
  }
}

task<void> await_side_by_side(reactor* r, null_transport* via, int width, std::uint64_t each,
                              std::uint64_t* sum) {
  scope s(*r);
  for (int i = 0; i < width; ++i) s.spawn(await_many(r, via, each, sum));
  co_await s.join();
}

// The same loop without coroutines: each completion posts the next request.
class callback_chain final : public request {
 public:
  callback_chain(null_transport& via, std::uint64_t n, std::uint64_t& sum, int& running) noexcept
      : request([](request& r) noexcept { static_cast<callback_chain&>(r).step(); }),
        via_(via),
        left_(n),
        sum_(sum),
        running_(running) {
    via_.post(*this);
  }

 private:
  void step() noexcept {
    ++sum_;
    if (--left_ > 0) {
      via_.post(*this);
    } else {
      --running_;
    }
  }
  null_transport& via_;
  std::uint64_t left_;
  std::uint64_t& sum_;
  int& running_;
};

struct figures {
  double await_ns = 0;
  double callback_ns = 0;
  double allocations = 0;
};

template <class Work>
double nanoseconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

figures measure(int width, std::uint64_t total) {
  reactor r({.mode = wait_mode::polling});
  null_transport via;
  if (!r.add(via)) std::abort();
  const std::uint64_t each = total / static_cast<std::uint64_t>(width);
  std::uint64_t sum = 0;
  run(r, await_side_by_side(&r, &via, width, 1000, &sum));  // warm-up
  sum = 0;
  figures f;
  const std::uint64_t heap_before = heap_calls.load();
  f.await_ns = nanoseconds([&] { run(r, await_side_by_side(&r, &via, width, each, &sum)); });
  f.allocations = static_cast<double>(heap_calls.load() - heap_before) / static_cast<double>(sum);
  f.await_ns /= static_cast<double>(sum);

  sum = 0;
  int running = width;
  std::vector<std::unique_ptr<callback_chain>> chains;
  for (int i = 0; i < width; ++i) {
    chains.push_back(std::make_unique<callback_chain>(via, each, sum, running));
  }
  f.callback_ns = nanoseconds([&r, &running] {
    (void)r.run_until([](void* left) noexcept { return *static_cast<int*>(left) == 0; }, &running);
  });
  f.callback_ns /= static_cast<double>(sum);
  r.remove(via);
  return f;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "What awaiting a suspended operation costs, on a transport that completes at once, beside "
      "plain "
      "callbacks");
  std::uint64_t total = 5'000'000;
  int repetitions = 5;
  int width = 1;
  std::string json_to;
  app.add_option("-n,--operations", total, "operations per repetition")
      ->check(CLI::Range(1000U, 4'000'000'000U));
  app.add_option("-r,--repetitions", repetitions, "repetitions; medians are shown")
      ->check(CLI::Range(1, 1000));
  app.add_option("-w,--width", width, "coroutines side by side; 1 pays a whole pass per operation")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", json_to, "write JSON to this file, - for standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  std::vector<double> await_ns;
  std::vector<double> callback_ns;
  double allocations = 0;
  for (int i = 0; i < repetitions; ++i) {
    const figures f = measure(width, total);
    await_ns.push_back(f.await_ns);
    callback_ns.push_back(f.callback_ns);
    allocations = std::max(allocations, f.allocations);
  }
  if (json_to.empty()) {
    std::printf("await of a suspended operation  %6.1f ns\n", bench::median(await_ns));
    std::printf("plain callback, same loop       %6.1f ns\n", bench::median(callback_ns));
    std::printf("allocations per operation       %6.3f\n", allocations);
    return 0;
  }
  const nlohmann::json out = {{"await_suspended_ns", bench::median(await_ns)},
                              {"callback_ns", bench::median(callback_ns)},
                              {"allocations_per_op", allocations},
                              {"operations", total},
                              {"repetitions", repetitions},
                              {"width", width}};
  if (json_to == "-") {
    std::cout << out.dump(2) << '\n';
    return 0;
  }
  std::ofstream file(json_to);
  file << out.dump(2) << '\n';
  if (!file) {
    std::cerr << "bench-await: cannot write " << json_to << '\n';
    return 1;
  }
  return 0;
}
