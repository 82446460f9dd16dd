// A server of the native protocol on separate threads, and its clients.
#pragma once

#include "../../apps/kv/native/blocking_client.hpp"
#include "../../apps/kv/native/door.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/scope.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kv::test {

inline unix_ms wall_clock() {
  return static_cast<unix_ms>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count());
}

// shm and tcp; if CORDMA_TEST_TRANSPORT is set, that one only.
inline std::vector<cordma::transport::kind> transports_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_TRANSPORT");
  if (named != nullptr) return {cordma::parse_transport(named).value()};
  return {cordma::transport::kind::shm, cordma::transport::kind::tcp};
}

inline cordma::task<void> accept_all(native::door* at, cordma::Listener* listener,
                                     cordma::scope* visitors) {
  for (;;) {
    cordma::result<cordma::ConnectionRequest> next = co_await listener->next().result();
    if (!next) co_return;
    visitors->spawn(at->serve(std::move(next).value()));
  }
}

// One worker with some shards. The destructor closes the connections.
class native_server {
 public:
  explicit native_server(native::door_options how = {}, std::uint32_t shards = 1,
                         store_options options = {.hash_seed = 99}) {
    std::vector<std::unique_ptr<memory_source>> memory;
    for (std::uint32_t i = 0; i < shards; ++i) {
      memory.push_back(std::make_unique<shared_memory>(context_));
    }
    keys_ = std::make_unique<keyspace>(std::move(memory), options);
    std::promise<int> bound;
    std::future<int> port = bound.get_future();
    thread_ = std::thread([this, &bound, how] { run(bound, how); });
    port_ = port.get();
  }
  ~native_server() {
    worker_->post([this] { over_.set(); });
    thread_.join();
  }
  native_server(const native_server&) = delete;
  native_server& operator=(const native_server&) = delete;

  // The server's address over this transport.
  [[nodiscard]] std::string address(
      cordma::transport::kind over = transports_under_test().front()) const {
    return context_.own_host(over) + ":" + std::to_string(port_);
  }
  // Runs `what` on the server's thread and returns when it has completed.
  void there(const std::function<void(keyspace&)>& what) {
    std::promise<void> done;
    worker_->post([&] {
      what(*keys_);
      done.set_value();
    });
    done.get_future().get();
  }
  [[nodiscard]] const native::door_counters& counters() const noexcept { return door_->counters(); }
  // The server's clock is the wall clock plus this many milliseconds.
  std::atomic<std::int64_t> ahead_ms{0};

 private:
  [[nodiscard]] unix_ms now() const { return wall_clock() + static_cast<unix_ms>(ahead_ms.load()); }
  void run(std::promise<int>& bound, const native::door_options& how) {
    cordma::Worker worker(context_);
    worker_ = &worker;
    native::door door(context_, worker, *keys_, how, {.now = [this] { return now(); }});
    door_ = &door;
    cordma::Listener listener = worker.listen(":0").value();
    cordma::scope visitors(worker.loop());
    visitors.spawn(accept_all(&door, &listener, &visitors));
    bound.set_value(listener.bound().port);
    clock_timer clock(*this, worker.loop());
    worker.run(until_over());
  }
  // Advances the clock as a real server does; clients see by it that the server is alive.
  struct clock_timer final : cordma::timer {
    clock_timer(native_server& s, cordma::reactor& loop)
        : timer([](timer& t) noexcept { static_cast<clock_timer&>(t).tick(); }), of(s), on(loop) {
      tick();
    }
    void tick() noexcept {
      const keyspace::hold all(*of.keys_, of.keys_->all());
      for (std::uint32_t i = 0; i < of.keys_->shards(); ++i) of.keys_->at(i).tick(of.now());
      on.add(*this, on.now() + std::chrono::milliseconds(50));
    }
    native_server& of;
    cordma::reactor& on;
  };
  cordma::task<void> until_over() { co_await over_.wait(); }

  cordma::Context context_;
  std::unique_ptr<keyspace> keys_;
  cordma::Worker* worker_ = nullptr;
  native::door* door_ = nullptr;
  cordma::event over_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace kv::test
