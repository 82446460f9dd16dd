// The receiving half of RC: executes each request once and in order, and answers each repetition.
#pragma once

#include <cordma/net/transport/sim/arrivals.hpp>
#include <cordma/net/transport/sim/inbound.hpp>
#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/runtime/result.hpp>

#include <vector>

namespace cordma::transport::sim {

class rc_responder {
 public:
  rc_responder(sim_pair& p, inbound& in) noexcept : pair_(p), in_(in), here_(p) {}
  // `resources`: limit of atomics that the peer may have in flight; their results are kept.
  void start(std::uint64_t first_psn, std::uint32_t resources);
  void on_request(const packet& p) noexcept;
  // The next complete message in place. REQUIRES one for which the adapter was called.
  [[nodiscard]] const packet& hand_out() noexcept { return here_.hand_out(); }
  // Of the messages returned, `taken` were examined and consumed. If `stay` is not 0, all messages
  // in place take receives.
  void looked_at(std::size_t taken, std::size_t stay) noexcept;
  // The reason why it answers no new request. Earlier requests are still answered again.
  [[nodiscard]] nak_code failed() const noexcept { return failed_; }
  // The PSN before which everything was carried out, and every message in place examined: the peer
  // gets no answer for later packets.
  [[nodiscard]] std::uint64_t settled() const noexcept {
    return here_.empty() ? expected_ : here_.front().psn;
  }

 private:
  struct result_of_atomic {
    std::uint64_t psn = 0;
    std::uint64_t value = 0;
    bool valid = false;
  };
  void execute(const packet& p) noexcept;
  void again(const packet& p) noexcept;
  [[nodiscard]] bool goes_in_place(const packet& p) const noexcept;
  void lies_here(const packet& p) noexcept;
  void offer() noexcept;
  void answer() noexcept;
  void on_message(const packet& p) noexcept;
  void not_taken(inbound::outcome why, const packet& p) noexcept;
  void on_read(const packet& p) noexcept;
  void on_atomic(const packet& p) noexcept;
  void ack() noexcept;
  void nak(nak_code code) noexcept;
  void answer_atomic(std::uint64_t psn, std::uint64_t value) noexcept;
  void refuse(nak_code code, failure why) noexcept;

  sim_pair& pair_;
  inbound& in_;
  arrivals here_;
  bool keeps_ = false;  // the messages in place wait for receives
  std::uint64_t expected_ = 0;
  bool nak_sent_ = false;  // for expected_, or to be sent by answer(): one is enough
  nak_code failed_ = nak_code::none;
  std::vector<result_of_atomic> atomics_;
  std::size_t next_atomic_ = 0;
};

}  // namespace cordma::transport::sim
