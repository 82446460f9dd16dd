// reception: admits or refuses new connections, and assigns them to workers.
#pragma once

#include "listening.hpp"
#include "seat.hpp"
#include "worker.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

struct reception_counters {
  std::atomic<std::uint64_t> accepted = 0;
  std::atomic<std::uint64_t> refused = 0;   // for maxclients
  std::atomic<std::uint64_t> failures = 0;  // of accept()
};

// Listens through the first worker's door. Bound to the thread of that worker, except the
// constructor and counters().
class reception {
 public:
  // One kind of clients. `maker` is called once for each worker.
  struct hall {
    std::function<conversation_maker(worker&)> maker;
    // Current number of clients and the limit. Above the limit a client receives only `refusal`.
    std::function<std::uint32_t()> inside;
    std::function<std::uint32_t()> most;
    std::string refusal;
    std::function<void()> refused;  // called for each refusal; may be empty
    bool first_worker_only = false;
  };
  // All arguments outlive it.
  reception(std::span<const std::unique_ptr<worker>> workers, logbook& log)
      : workers_(workers), log_(log) {}
  ~reception();
  reception(const reception&) = delete;
  reception& operator=(const reception&) = delete;

  void open(listening where, const hall& to);
  // Admits no more clients and removes the paths of unix sockets. Called before the first worker
  // ends.
  void close() noexcept;
  [[nodiscard]] const reception_counters& counters() const noexcept { return counters_; }

 private:
  struct entrance {
    reception& of;
    listening where;
    hall to;
    std::vector<conversation_maker> makers;  // by worker
  };
  void arrived(entrance& at, cordma::unique_fd socket);
  void failed(const entrance& at, int error) noexcept;
  [[nodiscard]] worker& least_busy() noexcept;

  std::span<const std::unique_ptr<worker>> workers_;
  logbook& log_;
  std::vector<std::unique_ptr<entrance>> entrances_;
  reception_counters counters_;
};

}  // namespace kv
