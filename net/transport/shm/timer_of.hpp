// A timer that has an owner.
#pragma once

#include <cordma/runtime/reactor.hpp>

namespace cordma::transport::shm {

template <class Owner>
struct timer_of : timer {
  timer_of(Owner& o, timer::function fire) noexcept : timer(fire), owner(o) {}
  // Of the timer that fires.
  [[nodiscard]] static Owner& owner_of(timer& t) noexcept {
    return static_cast<timer_of&>(t).owner;
  }
  Owner& owner;
};

}  // namespace cordma::transport::shm
