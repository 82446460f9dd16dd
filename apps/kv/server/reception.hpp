// reception: who comes is let in, or told why not, and led to a worker.
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
  std::atomic<std::uint64_t> refused = 0;   // maxclients
  std::atomic<std::uint64_t> failures = 0;  // accept() said why not
};

// Listens by way of the first worker's door, whose thread it is bound to but for the constructor and counters().
class reception {
 public:
  // One kind of who comes. `maker` is asked once for each worker.
  struct hall {
    std::function<conversation_maker(worker&)> maker;
    // How many there are and may be; where there are more, `refusal` is all that one hears.
    std::function<std::uint32_t()> inside;
    std::function<std::uint32_t()> most;
    std::string refusal;
    std::function<void()> refused;  // one more; may be empty
    bool first_worker_only = false;
  };
  // All outlive it.
  reception(std::span<const std::unique_ptr<worker>> workers, logbook& log)
      : workers_(workers), log_(log) {}
  ~reception();
  reception(const reception&) = delete;
  reception& operator=(const reception&) = delete;

  void open(listening where, const hall& to);
  // Nobody is let in any more, and the paths of unix sockets go. Before the first worker ends.
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
