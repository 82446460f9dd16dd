// A shared receive queue of the device; README.md describes how its queue pairs differ.
#pragma once

#include <cordma/net/transport/timer_of.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace cordma::transport::verbs {

// A queue pair that its owner has released, in error, while the device may still complete receives
// that it had taken.
struct retired_pair {
  owned<ibv_qp> pair;
  ibv_cq* sends = nullptr;  // completion queue of its requests
  std::uint32_t room = 0;   // entries promised there
  time_point until{};
};

// Bound to the adapter's thread.
class verbs_receive_queue final : public receive_queue {
 public:
  verbs_receive_queue(verbs_adapter& home, std::uint32_t depth, std::uint32_t segments);
  ~verbs_receive_queue() override;
  // full, no_memory.
  [[nodiscard]] result<void> make();

  [[nodiscard]] std::uint32_t depth() const noexcept override { return depth_; }
  void post_recv(const recv_request& request) noexcept override;
  result<void> arm_limit(std::uint32_t fewer_than) noexcept override;

  // For its queue pairs.
  [[nodiscard]] ibv_srq* native() const noexcept { return srq_.get(); }
  // The completion queue of all its receives.
  [[nodiscard]] ibv_cq* completions() const noexcept { return queue_; }
  void enter();
  // The queue pair completes no more receives: `last_receive` follows the completions it already
  // has.
  void end(verbs_pair& p) noexcept;
  // Clears `from` in completions not yet taken, because the queue pair is destroyed.
  void leave(const verbs_pair& p) noexcept;
  // Keeps the queue pair until the device reports nothing more of it, or this queue is destroyed.
  void retire(retired_pair gone) noexcept;

  // For the adapter.
  void on_completion(std::uint32_t place, const ibv_wc& wc, verbs_pair* from) noexcept;
  void on_async(ibv_event_type what) noexcept;
  // LAST_WQE_REACHED of a retired queue pair.
  void on_last(std::uint32_t pair) noexcept;
  [[nodiscard]] std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_completions() const noexcept {
    return finished_count_ != 0 || !ended_.empty();
  }

 private:
  struct slot {
    std::uint64_t id = 0;
    bool on_device = false;
  };
  void finish(std::uint32_t place, completion c) noexcept;
  void tell_ended() noexcept;
  void tell_if_low() noexcept;
  void tell_low() noexcept;
  void destroy(retired_pair& gone) noexcept;
  void on_timer() noexcept;

  verbs_adapter& home_;
  std::uint32_t depth_;
  std::uint32_t segments_;
  ibv_cq* queue_ = nullptr;
  owned<ibv_srq> srq_;
  std::optional<table_place> place_;
  std::uint64_t ids_ = 0;  // wr_id of index 0
  std::size_t pairs_ = 0;
  std::uint32_t limit_ = 0;  // 0: not armed
  std::uint32_t on_device_ = 0;
  std::unique_ptr<slot[]> slots_;
  std::unique_ptr<std::uint32_t[]> free_;
  std::uint32_t free_count_ = 0;
  // In the order of completion.
  std::unique_ptr<completion[]> finished_;
  std::uint32_t first_finished_ = 0;
  std::uint32_t finished_count_ = 0;
  std::uint64_t taken_ = 0;  // total completions taken
  struct ending {
    verbs_pair* pair;
    std::uint64_t after;  // value of taken_ to wait for
    bool waited;          // for the next poll
  };
  std::vector<ending> ended_;  // with capacity for every queue pair
  queue_link completed_link_{*this};
  std::vector<retired_pair> retired_;
  timer_of<&verbs_receive_queue::on_timer> timer_{*this};
};

}  // namespace cordma::transport::verbs
