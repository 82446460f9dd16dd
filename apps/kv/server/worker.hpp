// worker: a thread with its reactor and its front door.
#pragma once

#include "front_door.hpp"
#include "logbook.hpp"

#include <cordma/runtime/reactor.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

namespace kv {

enum class io_choice : std::uint8_t { automatic, uring, asio };
[[nodiscard]] std::optional<io_choice> parse_io_choice(std::string_view text) noexcept;

// Opens the chosen door; if `automatic` cannot use io_uring, it logs the reason. Throws
// cordma::error.
[[nodiscard]] std::unique_ptr<front_door> open_front_door(io_choice choice, cordma::reactor& loop,
                                                          const door_settings& settings,
                                                          logbook& log);

struct worker_options {
  unsigned index = 0;
  cordma::wait_mode wait = cordma::wait_mode::event;
  io_choice io = io_choice::automatic;
};

// Bound to its own thread, except clients(), post() and the two functions that end it.
class worker {
 public:
  // Returns once its loop runs. Throws the exception of its thread if that failed before.
  worker(const worker_options& options, const door_settings& settings, logbook& log);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  [[nodiscard]] unsigned index() const noexcept { return options_.index; }
  [[nodiscard]] cordma::reactor& loop() noexcept { return *loop_; }
  [[nodiscard]] front_door& door() noexcept { return *door_; }
  // Number of its clients; any thread.
  [[nodiscard]] std::atomic<std::uint32_t>& clients() noexcept { return clients_; }

  // Runs `work()` on its thread, later. Any thread.
  template <class Work>
  void post(Work work) {
    loop_->post(std::move(work));
  }
  // Runs `work()` on its thread and returns after that. Any thread except its own.
  void call(const std::function<void()>& work);
  // Any thread except its own. Closes the sockets that the door still has.
  void stop() noexcept;

 private:
  void run(const std::function<void(std::exception_ptr)>& begun) noexcept;

  worker_options options_;
  const door_settings& settings_;
  logbook& log_;
  std::atomic<std::uint32_t> clients_ = 0;
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<cordma::reactor> loop_;
  std::unique_ptr<front_door> door_;
  std::thread thread_;
};

}  // namespace kv
