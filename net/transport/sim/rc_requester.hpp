// The sending half of RC: packets with sequence numbers, go-back-N on loss, and completions in the
// order of posting.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/runtime/clock.hpp>

namespace cordma::transport::sim {

class sim_pair;
struct send_entry;

// A state machine over (packet or alarm, now); its decisions are packets, completions and one alarm.
class rc_requester {
 public:
  explicit rc_requester(sim_pair& p) noexcept : pair_(p) {}
  void start(std::uint64_t first_psn) noexcept;
  // Sends everything that may be sent now.
  void pump() noexcept;
  // ack, nak, read_response, atomic_response
  void on_answer(const packet& p) noexcept;
  void on_alarm() noexcept;
  // A NAK in the goodbye of the responder.
  void on_last_nak(nak_code code, std::uint64_t psn) noexcept;

 private:
  // Limit of packets in flight, counting responses; and the number of packets between two requests
  // for an ack.
  static constexpr std::uint64_t window = most_under_way;
  static constexpr std::uint64_t ack_every = 16;
  // Retransmission begins after 1/255 of the peer timeout and doubles, up to 1/16 of it.
  static constexpr int first_wait_share = 255;
  static constexpr int longest_wait_share = 16;
  static constexpr std::uint8_t rnr_for_ever = 7;
  static constexpr std::uint64_t no_psn = ~std::uint64_t{0};

  [[nodiscard]] bool admit(send_entry& e) noexcept;
  [[nodiscard]] bool emit(send_entry& e, std::uint64_t psn) noexcept;
  void fill_message(send_entry& e, packet& p) noexcept;
  [[nodiscard]] bool fill_read(send_entry& e, packet& p, std::uint64_t psn) noexcept;
  [[nodiscard]] bool acknowledge_until(std::uint64_t psn) noexcept;
  void advance(std::uint64_t to) noexcept;
  void missing() noexcept;
  void go_back() noexcept;
  void on_nak(nak_code code, std::uint64_t psn) noexcept;
  void on_not_ready() noexcept;
  void on_data(const packet& p) noexcept;
  void restart_timer() noexcept;
  void rearm() noexcept;
  [[nodiscard]] bool waiting() const noexcept { return una_ != high_; }
  [[nodiscard]] time_point patience_ends() const noexcept;

  sim_pair& pair_;
  std::uint64_t una_ = 0;       // oldest PSN without an answer
  std::uint64_t high_ = 0;      // next PSN that was never sent
  std::uint64_t assigned_ = 0;  // next PSN not assigned to a request
  std::uint64_t cursor_ = 0;    // the request to send from next, and its packet
  std::uint32_t packet_ = 0;
  std::uint32_t reads_ = 0;             // reads and atomics begun and not completed
  std::uint64_t asked_again_ = no_psn;  // una_ at the last NAK that led to a retransmission
  bool rnr_waiting_ = false;
  std::uint32_t rnr_tries_ = 0;
  time_point rnr_until_{};
  unsigned backoff_ = 0;
  time_point heard_{};          // time of the last packet from the peer
  time_point new_departure_{};  // of packets sent for the first time
  time_point departure_{};      // of any packet
  time_point retry_at_ = never;
};

}  // namespace cordma::transport::sim
