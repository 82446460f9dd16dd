// The work request ids of a queue pair, and which requests may take the fast path.
#pragma once

#include <cordma/net/transport/verbs/limits.hpp>

namespace cordma::transport::verbs {

// The requests on the fast path, by opcode, and whether completions of sends and of receives are on
// it.
struct usual_ways {
  std::uint32_t ops = 0;  // bit (1 << opcode)
  bool sends = false;
  bool receives = false;
};

// One per queue pair. Bound to the adapter's thread.
class request_names {
 public:
  // Sets the index in the adapter's table. REQUIRES that choose() follows.
  void sit_at(std::uint32_t generation, std::uint32_t place) noexcept {
    work_id mine{.what = work::send, .generation = generation, .place = place};
    sends_ = pack(mine);
    mine.what = work::receive;
    receives_ = pack(mine);
    mine.what = work::put;
    puts_ = pack(mine);
  }
  void choose(const usual_ways& w) noexcept {
    ops_ = w.ops;
    usual_sends_ = w.sends ? sends_ : ~sends_;
    usual_receives_ = w.receives ? receives_ : ~receives_;
  }

  [[nodiscard]] std::uint64_t send(std::uint32_t number) const noexcept {
    return sends_ | (number & twenty_bits);
  }
  [[nodiscard]] std::uint64_t put(std::uint32_t number) const noexcept {
    return puts_ | (number & twenty_bits);
  }
  [[nodiscard]] std::uint64_t receive(std::uint32_t place) const noexcept {
    return receives_ | place;
  }
  [[nodiscard]] std::uint64_t other(work what, std::uint32_t number) const noexcept {
    work_id mine = unpack(sends_);
    mine.what = what;
    mine.number = number;
    return pack(mine);
  }
  // False: the id is of an earlier queue pair at the same index.
  [[nodiscard]] bool is_own(const work_id& id) const noexcept {
    return id.generation == unpack(sends_).generation;
  }

  [[nodiscard]] bool takes(opcode op) const noexcept {
    return (ops_ >> static_cast<unsigned>(op) & 1U) != 0;
  }
  [[nodiscard]] bool takes_any() const noexcept { return ops_ != 0; }
  [[nodiscard]] bool is_usual_send(std::uint64_t id, std::uint32_t number) const noexcept {
    return (id ^ usual_sends_) == (number & twenty_bits);
  }
  // Index of the receive, or a number that is no index.
  [[nodiscard]] std::uint64_t usual_receive(std::uint64_t id) const noexcept {
    return id ^ usual_receives_;
  }

 private:
  // The wr_id of number 0, for each kind.
  std::uint64_t sends_ = 0;
  std::uint64_t receives_ = 0;
  std::uint64_t puts_ = 0;
  // The same, for completions on the fast path; otherwise ids that never occur.
  std::uint64_t usual_sends_ = 0;
  std::uint64_t usual_receives_ = 0;
  std::uint32_t ops_ = 0;
};

}  // namespace cordma::transport::verbs
