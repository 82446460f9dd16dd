// How a connection ends: this side closes it, or the peer is lost.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cordma/runtime/check.hpp>
#include <cordma/runtime/result.hpp>
#include <optional>
#include <utility>

namespace cordma::transport::shm {

enum class farewell : std::uint8_t {
  none,
  begun,  // disconnect() was called: earlier requests are still carried out
  said,   // the last message is in the ring
};
[[nodiscard]] constexpr bool operator>>(farewell from, farewell to) noexcept {
  return (from == farewell::none && to == farewell::begun) ||
         (from == farewell::begun && to == farewell::said);
}

// Bound to the adapter's thread.
class ending {
 public:
  [[nodiscard]] bool is_closing() const noexcept { return farewell_ != farewell::none; }
  [[nodiscard]] bool said_bye() const noexcept { return farewell_ == farewell::said; }
  // No request from this running number on is carried out.
  void close_at(std::uint32_t number) noexcept {
    farewell_.become(farewell::begun);
    mark_ = number;
  }
  [[nodiscard]] bool stops_at(std::uint32_t number) const noexcept {
    return is_closing() && number == mark_;
  }
  // The last message ends at this position of the ring.
  void say_bye(std::uint64_t position) noexcept {
    farewell_.become(farewell::said);
    goal_ = position;
  }
  [[nodiscard]] bool is_bye_taken(std::uint64_t taken) const noexcept {
    return said_bye() && taken >= goal_;
  }

  // The socket has ended; messages in the ring are delivered first.
  [[nodiscard]] bool has_lost_peer() const noexcept { return cause_.has_value(); }
  void lose_peer(failure why) noexcept {
    CORDMA_ASSERT(!has_lost_peer());
    cause_ = std::move(why);
  }
  // REQUIRES has_lost_peer().
  [[nodiscard]] const failure& cause() const noexcept { return *cause_; }
  // Records that the peer ended the connection because of the message at this position of the
  // outgoing ring; no_position: because of no message.
  void blame(std::uint64_t position, wc_status status) noexcept {
    position_ = position;
    status_ = status;
  }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] wc_status status() const noexcept { return status_; }

 private:
  checked_state<farewell> farewell_{farewell::none};
  std::uint32_t mark_ = 0;
  std::uint64_t goal_ = 0;
  std::optional<failure> cause_;
  std::uint64_t position_ = no_position;
  wc_status status_ = wc_status::wr_flush_err;
};

}  // namespace cordma::transport::shm
