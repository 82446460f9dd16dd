// The adapters, listeners and domains of simulated hosts.
#pragma once

#include <cordma/net/transport/sim/fabric.hpp>
#include <cordma/net/transport/software_receive_queue.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <deque>

namespace cordma::transport::sim {

class sim_pair;

class sim_domain final : public domain, public std::enable_shared_from_this<sim_domain> {
 public:
  [[nodiscard]] std::string own_host() const override { return host_->name(); }
  sim_domain(std::shared_ptr<fabric> net, std::shared_ptr<host> of)
      : net_(std::move(net)), host_(std::move(of)) {}
  [[nodiscard]] const capabilities& caps() const noexcept override { return host_->caps(); }
  result<memory_keys> register_memory(const memory_range& range) override;
  void deregister_memory(std::uint32_t lkey) noexcept override { host_->regions().remove(lkey); }
  result<std::unique_ptr<adapter>> open(reactor& home) override;

 private:
  friend class sim_adapter;
  std::shared_ptr<fabric> net_;
  std::shared_ptr<host> host_;
};

class sim_listener final : public listener {
 public:
  sim_listener(sim_adapter& owner, address bound) : owner_(owner), bound_(std::move(bound)) {}
  ~sim_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return bound_; }
  [[nodiscard]] sim_adapter& owner() noexcept { return owner_; }

 private:
  sim_adapter& owner_;
  address bound_;
};

class sim_receive_queue final : public software_receive_queue {
 public:
  sim_receive_queue(sim_adapter& owner, std::uint32_t depth, std::uint32_t max_segments);
  ~sim_receive_queue() override;

 private:
  sim_adapter& owner_;
};

// Completions, messages in place and events are returned in the order of their occurrence: none
// overtakes another, except that the messages of one poll are grouped by sender.
class sim_adapter final : public adapter, public receive_queue_home {
 public:
  sim_adapter(std::shared_ptr<sim_domain> of, unique_fd event_fd);
  ~sim_adapter() override;

  std::size_t poll(std::span<completion> out, bool& progressed) noexcept override;
  void release_arrived() noexcept override;
  cm_event next_event() override;
  [[nodiscard]] int wait_fd() const noexcept override { return event_fd_.get(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return true; }
  arm_state arm() noexcept override;
  void disarm() noexcept override {}
  result<std::unique_ptr<listener>> listen(const address& where) override;
  result<std::unique_ptr<queue_pair>> connect(const address& to, const queue_pair_options& options,
                                              std::span<const std::byte> private_data) override;
  result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                             const queue_pair_options& options,
                                             std::span<const std::byte> private_data) override;
  result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) override;
  result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) override;
  result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) override;
  result<std::unique_ptr<receive_queue>> make_receive_queue(std::uint32_t depth,
                                                            std::uint32_t max_segments) override;
  void report(cm_event e) noexcept override { push(std::move(e)); }
  void drop_events(const receive_queue& of) noexcept override;

  // For queue pairs and the connection manager.
  [[nodiscard]] const std::shared_ptr<host>& share_host() const noexcept { return domain_->host_; }
  // `from`: the receive queue of the completed receive, or null.
  void push(std::uint32_t number, const completion& c, const receive_queue* from) noexcept;
  void push(cm_event e);
  // A complete message of it is in place, to be returned in its order.
  void push(sim_pair& from) noexcept;
  // Its pending messages take receives instead.
  void withdraw(const sim_pair& from) noexcept;
  void add(sim_pair&) noexcept { ++pairs_; }
  // Its completions are no longer reported, except for shared receives: these have no sender.
  void remove(sim_pair& p) noexcept;
  void remove(const sim_listener& l) noexcept;
  void remove(const sim_receive_queue& q) noexcept;

 private:
  struct finished {
    std::uint64_t order;
    std::uint32_t number;  // of the queue pair
    completion what;
    const receive_queue* from;
    sim_pair* sender;  // of a message in place; null: a completion
  };
  struct happened {
    std::uint64_t order;
    cm_event what;
  };
  // Options as they are granted to one more queue pair, after charging for it.
  [[nodiscard]] result<queue_pair_options> admit(const queue_pair_options& asked) const;
  [[nodiscard]] host& home() const noexcept { return *domain_->host_; }
  [[nodiscard]] host::request* own_request(std::uint64_t id) noexcept;
  [[nodiscard]] bool event_is_next() const noexcept {
    return !events_.empty() &&
           (done_count_ == 0 || events_.front().order < ring_[first_done_].order);
  }
  [[nodiscard]] bool may_tell() const noexcept;
  void add(const finished& f) noexcept;
  void grow();
  void add_arrived(const arrived_message& m) noexcept;
  // Drops the completions for which `keep` is false.
  template <class Keep>
  void sift(Keep keep) noexcept;

  std::shared_ptr<sim_domain> domain_;
  unique_fd event_fd_;
  std::uint32_t pairs_ = 0;
  std::uint64_t order_ = 0;
  std::vector<finished> ring_;  // a power of two
  std::size_t first_done_ = 0;
  std::size_t done_count_ = 0;
  std::deque<happened> events_;
};

}  // namespace cordma::transport::sim
