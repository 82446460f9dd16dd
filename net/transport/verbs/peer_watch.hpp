// Records whether the peer of a connection still shows activity on this side.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/net/transport/verbs/arrival_watch.hpp>

namespace cordma::transport::verbs {

// Bound to the adapter's thread.
class peer_watch {
 public:
  void on_completion() noexcept { ++activity_; }
  // True if nothing has completed since the last look().
  [[nodiscard]] bool is_silent() const noexcept { return activity_ == seen_; }
  void look() noexcept { seen_ = activity_; }
  // Longest time until an idle peer is probed.
  [[nodiscard]] duration silence() const noexcept { return silence_; }
  void set_silence(duration most) noexcept { silence_ = most; }

  // True while a probe is on the device.
  [[nodiscard]] bool is_probing() const noexcept { return probing_; }
  void on_probe() noexcept { probing_ = true; }
  void on_answer() noexcept { probing_ = false; }

  void on_goodbye() noexcept { said_goodbye_ = true; }
  [[nodiscard]] bool said_goodbye() const noexcept { return said_goodbye_; }

  // service::uc
  [[nodiscard]] arrival_watch& arrivals() noexcept { return arrivals_; }

 private:
  std::uint32_t activity_ = 0;
  std::uint32_t seen_ = 0;
  bool probing_ = false;
  bool said_goodbye_ = false;
  duration silence_{};
  arrival_watch arrivals_;
};

}  // namespace cordma::transport::verbs
