// The receiving half of RC: executes each request once and in order, and answers it as often as it
// is asked.
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
  // `resources`: how many atomics the peer may have in flight; their results are kept.
  void start(std::uint64_t first_psn, std::uint32_t resources);
  void on_request(const packet& p) noexcept;
  // The next message that lies here whole. REQUIRES one for which the adapter was called.
  [[nodiscard]] const packet& hand_out() noexcept { return here_.hand_out(); }
  // So many of those that were handed out were looked at. Where others stay, all that are here take receives.
  void looked_at(std::size_t taken, std::size_t stay) noexcept;
  // Why it answers nothing new any more. What was carried out before is still answered again.
  [[nodiscard]] nak_code failed() const noexcept { return failed_; }
  // The PSN before which everything was carried out, and every message in place looked at: the peer gets no answer for
  // what is behind it.
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
  bool keeps_ = false;  // what is here waits for receives
  std::uint64_t expected_ = 0;
  bool nak_sent_ = false;  // for expected_, or to be with answer(): one is enough
  nak_code failed_ = nak_code::none;
  std::vector<result_of_atomic> atomics_;
  std::size_t next_atomic_ = 0;
};

}  // namespace cordma::transport::sim
