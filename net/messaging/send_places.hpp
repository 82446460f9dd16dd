// The entries of a connection's send queue that are reserved for frames.
#pragma once

#include <cstdint>

namespace cordma::detail {

class send_places {
 public:
  send_places() = default;
  explicit send_places(std::uint32_t all) noexcept : all_(all), free_(all) {}
  [[nodiscard]] std::uint32_t all() const noexcept { return all_; }
  [[nodiscard]] bool has_one() const noexcept { return free_ != 0; }
  [[nodiscard]] bool are_free() const noexcept { return free_ == all_; }
  void take() noexcept { --free_; }
  void give_back() noexcept { ++free_; }

 private:
  std::uint32_t all_ = 0;
  std::uint32_t free_ = 0;
};

}  // namespace cordma::detail
