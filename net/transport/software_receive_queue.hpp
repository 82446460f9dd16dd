// The receive queue of the transports without a device: receives in the order in which they were posted,
// and the queue pairs that wait for one, in the order in which they came.
#pragma once

#include <cordma/net/transport/event_queue.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/list.hpp>

#include <memory>
#include <span>

namespace cordma::transport {

// What it knows of its adapter.
class receive_queue_home {
 public:
  virtual void report(cm_event e) noexcept = 0;
  virtual void drop_events(const receive_queue& of) noexcept = 0;
  // One of its queues has something to report, as no queue had.
  virtual void on_reports() noexcept {}

 protected:
  ~receive_queue_home() = default;
};

// The part of a queue pair that waits for its turn.
class receive_waiter : public list_node {
 public:
  // A receive is there for it, and for nobody else before it has taken one, or withdrawn.
  virtual void turn_came() noexcept = 0;

 protected:
  receive_waiter() = default;
  ~receive_waiter() = default;
};

// Bound to the adapter's thread. Allocates when it is made, never again.
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
  // The first receive, to be copied at once, or null where there is none.
  [[nodiscard]] const recv_request* lend() noexcept;
  // Null also where others wait longer. Then `w` waits for its turn.
  [[nodiscard]] const recv_request* lend(receive_waiter& w) noexcept;
  [[nodiscard]] bool lends_to(const receive_waiter& w) noexcept {
    return left() != 0 && (waiting_.empty() || &waiting_.front() == &w);
  }
  // It waits no more.
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

// Of those of an adapter that have something to report.
struct reporting_link : list_node {
  explicit reporting_link(reporting_receive_queue& q) noexcept : owner(&q) {}
  reporting_receive_queue* owner;
};

// The part of a queue pair that says when it took its last receive.
struct last_taken : list_node {
  explicit last_taken(queue_pair& p) noexcept : pair(&p) {}
  queue_pair* pair;
  bool told = false;
};

// For adapters whose events lie in an event_queue: with completions of its own.
class reporting_receive_queue final : public software_receive_queue {
 public:
  // `reporting` is the adapter's: its poll() calls take_reports().
  reporting_receive_queue(receive_queue_home& home, event_queue& events,
                          list<reporting_link>& reporting, std::uint32_t depth,
                          std::uint32_t max_segments);
  ~reporting_receive_queue() override;

  // Of a receive that it lent.
  void finish(const completion& c) noexcept;
  // REQUIRES that what it completed was handed out: `last_receive` comes with the next poll.
  void end(last_taken& by) noexcept;
  // What is finished and was not handed out is of a queue pair that is gone.
  void leave(const queue_pair& gone) noexcept;
  [[nodiscard]] std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_reports() const noexcept {
    return finished_ != handed_ || !ended_.empty();
  }
  // Of all that it lent: completed, and handed out. What is completed first is handed out first.
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

// What all queues of an adapter have to hand out, as far as there is room.
[[nodiscard]] std::size_t take_reports(list<reporting_link>& reporting,
                                       std::span<completion> out) noexcept;

// invalid_value: the sentence says what there is.
[[nodiscard]] result<void> check_receive_queue(std::uint32_t depth, std::uint32_t max_segments,
                                               const capabilities& caps);
// invalid_value: options.shared is a queue of another adapter.
[[nodiscard]] result<void> check_shared(const queue_pair_options& options,
                                        const receive_queue_home& home);

}  // namespace cordma::transport
