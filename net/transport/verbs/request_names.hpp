// How a queue pair names its requests towards the device, and which of them take the short way.
#pragma once

#include <cordma/net/transport/verbs/limits.hpp>

namespace cordma::transport::verbs {

// What takes the short way: requests, by opcode, and completions of sends and of receives.
struct usual_ways {
  std::uint32_t ops = 0;  // bit (1 << opcode)
  bool sends = false;
  bool receives = false;
};

// Of one queue pair. Bound to its adapter's thread.
class request_names {
 public:
  // By its place in the adapter's table. REQUIRES that choose() follows.
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
  // False: of one that sat at its place before.
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
  // Its place, or a number that is none.
  [[nodiscard]] std::uint64_t usual_receive(std::uint64_t id) const noexcept {
    return id ^ usual_receives_;
  }

 private:
  // The wr_id of number 0, each.
  std::uint64_t sends_ = 0;
  std::uint64_t receives_ = 0;
  std::uint64_t puts_ = 0;
  // Those whose completions take the short way; else names that nothing of it has.
  std::uint64_t usual_sends_ = 0;
  std::uint64_t usual_receives_ = 0;
  std::uint32_t ops_ = 0;
};

}  // namespace cordma::transport::verbs
