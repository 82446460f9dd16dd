// A timer that calls a member function of its owner.
#pragma once

#include <cordma/runtime/reactor.hpp>

namespace cordma::transport {

template <auto Fire>
class timer_of;

template <class Owner, void (Owner::*Fire)() noexcept>
class timer_of<Fire> final : public timer {
 public:
  explicit timer_of(Owner& o) noexcept
      : timer([](timer& t) noexcept { (static_cast<timer_of&>(t).owner_.*Fire)(); }), owner_(o) {}

 private:
  Owner& owner_;
};

}  // namespace cordma::transport
