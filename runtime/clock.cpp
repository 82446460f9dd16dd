#include <cordma/runtime/clock.hpp>

#include <ctime>

namespace cordma {
namespace {

class monotonic final : public clock {
 public:
  time_point now() noexcept override {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return time_point(duration(t.tv_sec * 1'000'000'000LL + t.tv_nsec));
  }
  bool advance_to(time_point) noexcept override { return false; }
};

}  // namespace

clock& real_clock() noexcept {
  static monotonic instance;
  return instance;
}

}  // namespace cordma
