// The receive queue of the transports without a device: the receives in the order of their posts,
// and the queue pairs that wait for a receive in the order of their arrival.
#pragma once

#include <cordma/net/transport/event_queue.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/list.hpp>

#include <memory>
#include <span>

namespace cordma::transport {

// The adapter, as the queue uses it.
class receive_queue_home {
 public:
  virtual void report(cm_event e) noexcept = 0;
  virtual void drop_events(const receive_queue& of) noexcept = 0;
  // Called when one of its queues has something to report and no queue had before.
  virtual void on_reports() noexcept {}

 protected:
  ~receive_queue_home() = default;
};

// The part of a queue pair that waits for a receive.
class receive_waiter : public list_node {
 public:
  // A receive is available to this waiter, and to no other until it has taken one or withdrawn.
  virtual void turn_came() noexcept = 0;

 protected:
  receive_waiter() = default;
  ~receive_waiter() = default;
};

// Bound to the adapter's thread. Allocates in its constructor only.
class software_receive_queue : public receive_queue {
 public:
  software_receive_queue(receive_queue_home& home, std::uint32_t depth, std::uint32_t max_segments);
  ~software_receive_queue() override;

  [[nodiscard]] std::uint32_t depth() const noexcept override { return depth_; }
  void post_recv(const recv_request& request) noexcept override;
  result<void> arm_limit(std::uint32_t fewer_than) noexcept override;

  // For its queue pairs.
  [[nodiscard]] std::uint32_t max_segments() const noexcept { return max_segments_; }
  [[nodiscard]] bool is_of(const receive_queue_home& home) const noexcept {
    return &home == &home_;
  }
  void enter() noexcept { ++pairs_; }
  void leave() noexcept {
    CORDMA_REQUIRE_OP(pairs_, >, 0U);
    --pairs_;
  }
  // Returns the first receive, to be copied at once, or null if there is none.
  [[nodiscard]] const recv_request* lend() noexcept;
  // Also returns null if other queue pairs have waited longer. On null, `w` waits for its turn.
  [[nodiscard]] const recv_request* lend(receive_waiter& w) noexcept;
  [[nodiscard]] bool lends_to(const receive_waiter& w) noexcept {
    return left() != 0 && (waiting_.empty() || &waiting_.front() == &w);
  }
  // Removes `w` from the waiting queue pairs.
  void withdraw(receive_waiter& w) noexcept;

 protected:
  [[nodiscard]] receive_queue_home& home() const noexcept { return home_; }

 private:
  [[nodiscard]] std::uint32_t left() const noexcept { return posted_ - lent_; }
  void next_turn() noexcept {
    if (left() != 0 && !waiting_.empty()) waiting_.front().turn_came();
  }
  [[nodiscard]] bool is_low() const noexcept { return left() < limit_; }
  void tell_low() noexcept;

  receive_queue_home& home_;
  std::uint32_t depth_;
  std::uint32_t max_segments_;
  std::uint32_t mask_;
  std::uint32_t posted_ = 0;
  std::uint32_t lent_ = 0;
  std::uint32_t limit_ = 0;  // 0: not armed
  std::size_t pairs_ = 0;
  std::unique_ptr<recv_request[]> receives_;
  std::unique_ptr<segment[]> segments_;
  list<receive_waiter> waiting_;
};

class reporting_receive_queue;

// Links a queue to the list of its adapter's queues with something to report.
struct reporting_link : list_node {
  explicit reporting_link(reporting_receive_queue& q) noexcept : owner(&q) {}
  reporting_receive_queue* owner;
};

// The part of a queue pair that reports `last_receive`.
struct last_taken : list_node {
  explicit last_taken(queue_pair& p) noexcept : pair(&p) {}
  queue_pair* pair;
  bool told = false;
};

// For adapters with an event_queue: keeps the completions of its receives itself.
class reporting_receive_queue final : public software_receive_queue {
 public:
  // `reporting` is the adapter's list: the adapter's poll() calls take_reports().
  reporting_receive_queue(receive_queue_home& home, event_queue& events,
                          list<reporting_link>& reporting, std::uint32_t depth,
                          std::uint32_t max_segments);
  ~reporting_receive_queue() override;

  // Completes a receive that was lent.
  void finish(const completion& c) noexcept;
  // REQUIRES that the completions of this queue pair were returned to the caller. The next poll
  // reports `last_receive`.
  void end(last_taken& by) noexcept;
  // Clears `from` in finished completions that are not yet returned, because the queue pair is
  // destroyed.
  void leave(const queue_pair& gone) noexcept;
  [[nodiscard]] std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_reports() const noexcept {
    return finished_ != handed_ || !ended_.empty();
  }
  // Counts of lent receives: completed ones, and completions returned to the caller. Completions
  // are returned in the order in which they finish.
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }
  [[nodiscard]] std::uint64_t handed() const noexcept { return handed_; }

 private:
  void tell_ended() noexcept;
  void mark() noexcept {
    if (link_.linked()) return;
    reporting_.push_back(link_);
    home().on_reports();
  }

  event_queue::room room_;
  list<reporting_link>& reporting_;
  reporting_link link_{*this};
  std::unique_ptr<completion[]> done_;
  std::uint64_t finished_ = 0;
  std::uint64_t handed_ = 0;
  list<last_taken> ended_;
};

// Returns completions of all queues of an adapter, as far as `out` has free space.
[[nodiscard]] std::size_t take_reports(list<reporting_link>& reporting,
                                       std::span<completion> out) noexcept;

// invalid_value: the message states the limit.
[[nodiscard]] result<void> check_receive_queue(std::uint32_t depth, std::uint32_t max_segments,
                                               const capabilities& caps);
// invalid_value: options.shared is a queue of another adapter.
[[nodiscard]] result<void> check_shared(const queue_pair_options& options,
                                        const receive_queue_home& home);

}  // namespace cordma::transport
