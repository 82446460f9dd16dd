// --timeout: each side sends `alive` frames, and ends if it receives nothing.
#pragma once

#include "lane.hpp"

#include <cordma/runtime/event.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace copy {

// Bound to the thread of the lanes. REQUIRES: the lanes outlive it.
class pulse {
 public:
  // `silence_s` as in transfer_options.
  pulse(std::vector<std::unique_ptr<lane>>& ways, std::uint32_t silence_s) noexcept
      : ways_(ways), silence_s_(silence_s), left_(ways.size()) {}
  pulse(const pulse&) = delete;
  pulse& operator=(const pulse&) = delete;

  // Runs until all lanes have ended. Throws timed_out if no lane has received anything for
  // `silence_s`; each received part of a frame counts.
  [[nodiscard]] cordma::task<void> beat();
  // Called when the peer has ended one lane's stream.
  void lane_ended() noexcept {
    if (--left_ == 0) over_.set();
  }

 private:
  [[nodiscard]] std::uint64_t heard() const noexcept;
  std::vector<std::unique_ptr<lane>>& ways_;
  const std::uint32_t silence_s_;
  std::size_t left_;
  cordma::event over_;
};

}  // namespace copy
