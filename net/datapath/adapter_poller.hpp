// Polls one adapter of a Worker in every pass of the reactor.
#pragma once

#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/reactor.hpp>

#include <array>
#include <memory>

namespace cordma::detail {

class endpoint_core;
class worker_core;

// An endpoint with an ended connection; earlier messages may still be among the completions.
struct ending_link : list_node {
  explicit ending_link(endpoint_core& e) noexcept : owner(&e) {}
  endpoint_core* owner;
};

// Polls one adapter in every pass of the reactor.
class adapter_poller final : public poller {
 public:
  adapter_poller(worker_core& owner, transport::domain& d, std::unique_ptr<transport::adapter> a)
      : adapter_(std::move(a)), domain_(&d), owner_(owner) {}
  ~adapter_poller() override {
    if (kept_) static_cast<void>(adapter_.release());
  }
  std::size_t poll() noexcept override;
  arm_state arm() noexcept override { return ending_.empty() ? adapter_->arm() : arm_state::busy; }
  void disarm() noexcept override { adapter_->disarm(); }
  [[nodiscard]] int wait_fd() const noexcept override { return adapter_->wait_fd(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return adapter_->edge_triggered(); }
  [[nodiscard]] const char* name() const noexcept override {
    return transport::name(domain_->caps().transport).data();
  }
  [[nodiscard]] transport::adapter& adapter() noexcept { return *adapter_; }
  [[nodiscard]] transport::domain& domain() noexcept { return *domain_; }
  [[nodiscard]] const worker_core& owner() const noexcept { return owner_; }
  // For a child of fork(): see domain::leave_to_parent().
  void leave_to_parent() noexcept { kept_ = !domain_->leave_to_parent(); }
  // Whether objects made with the adapter must not be destroyed.
  [[nodiscard]] bool kept() const noexcept { return kept_; }
  // Destroys such an object, unless it belongs to the parent.
  template <class Made>
  void drop(std::unique_ptr<Made>& made) const noexcept {
    if (kept_) static_cast<void>(made.release());
    made.reset();
  }
  // True once its completion queue has reported a request that never existed: its completions
  // cannot be trusted.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  void set_broken() noexcept { broken_ = true; }
  [[nodiscard]] failure why_broken() const;
  // Ends the endpoint once all earlier completions were reported; its cause is set at once.
  void end_later(endpoint_core& e) noexcept;
  // The worker has endpoints to destroy, or a limit. Polls check for both until none is left.
  void take_care() noexcept { careful_ = true; }

  // Called before the queue pair is destroyed, possibly while its completions are processed;
  // removes it from them as their source.
  void forget(const transport::queue_pair& pair) noexcept {
    for (transport::completion& c : told_) {
      if (c.from == &pair) c.from = nullptr;
    }
  }

 private:
  std::size_t poll_carefully() noexcept;
  std::size_t look_at(std::size_t n, std::size_t room, bool progressed) noexcept;
  void tidy(bool all_told) noexcept;
  [[nodiscard]] transport::arrived_message* let_stay(transport::arrived_message* m) noexcept;
  void hand_over_arrived() noexcept;
  void end_due(bool all_told) noexcept;
  static constexpr std::size_t batch_size = 32;
  static_assert(batch_size == transport::adapter::most_arrived,
                "a poll with room for more had told all");
  // Limit of polls before an endpoint ends although its queue is never found empty; more than the
  // number of completions in a queue.
  static constexpr int patience = 1024;
  std::unique_ptr<transport::adapter> adapter_;
  transport::domain* domain_;
  worker_core& owner_;
  bool careful_ = false;
  bool broken_ = false;
  bool kept_ = false;
  list<ending_link> ending_;
  int polls_to_end_ = patience;
  std::array<transport::completion, batch_size> batch_;
  std::span<transport::completion> told_;  // the part of batch_ that is being processed
};

}  // namespace cordma::detail
