// A small datagram port of the adapter: carries the messages between queue pairs that no request
// can carry.
#pragma once

#include <cordma/net/transport/verbs/posting.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

namespace cordma::transport::verbs {

// Bound to the adapter's thread. Its messages may be lost; a sender that needs an answer repeats.
// If the device stops its queue pair, as some do after a datagram without a route, it restarts with
// the same number.
class control_port {
 public:
  explicit control_port(verbs_adapter& home) noexcept : home_(home) {}
  ~control_port();
  // not_supported: the device has no datagrams; no_memory.
  [[nodiscard]] result<void> make();
  [[nodiscard]] std::uint32_t number() const noexcept { return qp_->qp_num; }
  [[nodiscard]] const ibv_cq* queue() const noexcept { return queue_; }
  [[nodiscard]] requests_so_far requests() const noexcept {
    return {.posted = sent_, .done = done_};
  }
  // Drops the message if too many are in flight.
  void send(const control_message& m, ibv_ah* to, std::uint32_t to_port) noexcept;
  void on_completion(const work_id& id, const ibv_wc& wc) noexcept;

 private:
  static constexpr std::size_t received_bytes = grh_bytes + control_bytes;
  struct buffers {
    std::array<std::array<std::byte, control_bytes>, control_depth> out{};
    std::array<std::array<std::byte, received_bytes>, control_depth> in{};
  };
  // Starts from the initial state of a queue pair. Returns 0, or errno.
  [[nodiscard]] int start() noexcept;
  void start_over() noexcept;
  void receive(std::uint32_t place) noexcept;
  void answer_unknown(const control_message& m, const datagram_address& sender,
                      std::uint32_t port) noexcept;

  verbs_adapter& home_;
  ibv_cq* queue_ = nullptr;
  std::unique_ptr<buffers> memory_ = std::make_unique<buffers>();
  owned<ibv_mr> region_;
  owned<ibv_qp> qp_;
  send_queue requests_;
  std::uint32_t life_ = 0;  // incremented per restart; completions of an earlier life are dropped
  std::uint32_t sent_ = 0;
  std::uint32_t done_ = 0;
};

// Moves a datagram queue pair from INIT to a state in which it sends. Returns 0, or errno.
[[nodiscard]] int start_datagrams(ibv_qp* qp) noexcept;
// Path of datagrams to this GID or LID, by the domain's options.
[[nodiscard]] ibv_ah_attr datagram_path(const verbs_domain& d, const gid_bytes* like) noexcept;
[[nodiscard]] ibv_ah_attr path_to(const verbs_domain& d, const datagram_address& peer) noexcept;

}  // namespace cordma::transport::verbs
