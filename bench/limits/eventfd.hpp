// Two threads that wake each other through eventfds: the cost of a wake-up by the kernel.
#pragma once

#include <sys/eventfd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "batches.hpp"
#include "sides.hpp"

namespace limits {

/// A blocking eventfd: wait() sleeps in the kernel until the other side rings.
class bell {
 public:
  bell() : fd_(checked(::eventfd(0, EFD_CLOEXEC), "eventfd")) {}
  void ring() const {
    const std::uint64_t one = 1;
    checked(::write(fd_.get(), &one, sizeof one), "write to eventfd");
  }
  void wait() const {
    std::uint64_t count = 0;
    checked(::read(fd_.get(), &count, sizeof count), "read from eventfd");
  }

 private:
  descriptor fd_;
};

/// One-way time of a blocking eventfd ping-pong between two threads. Always sleeps.
[[nodiscard]] inline measurement measure_eventfd(const settings& how) {
  const bell to_peer;
  const bell to_us;
  std::jthread peer([&] {
    pin_to(how.peer_cpu);
    for (std::uint64_t step = 0; step < how.steps_in_all(); ++step) {
      to_peer.wait();
      to_us.ring();
    }
  });
  pin_to(how.own_cpu);
  const auto ping = [&](std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      to_peer.ring();
      to_us.wait();
    }
  };
  ping(how.steps_per_batch());
  return one_way("eventfd", how, time_batches(how, ping));
}

}  // namespace limits
