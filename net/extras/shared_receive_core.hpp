// Implementation of a SharedReceive, independent of how receives are posted.
#pragma once

#include <cordma/net/shared_receive.hpp>

#include <memory>
#include <optional>

namespace cordma::detail {

class worker_core;
struct worker_anchor;

// An arrival: a message, or the notification of an end.
struct shared_entry : list_node {};

// Bound to the thread of its Worker.
class shared_receive_core {
 public:
  shared_receive_core(Worker& worker, BufferPool& from);
  shared_receive_core(const shared_receive_core&) = delete;
  shared_receive_core& operator=(const shared_receive_core&) = delete;
  virtual ~shared_receive_core() { CORDMA_ASSERT(waiting_.empty()); }

  // The functions of SharedReceive with these names. REQUIRES its thread, and that the Worker
  // exists.
  [[nodiscard]] virtual result<void> attach(Endpoint& endpoint) = 0;
  [[nodiscard]] virtual std::size_t attached() const noexcept = 0;
  [[nodiscard]] virtual transport::receive_queue* queue() const noexcept { return nullptr; }
  // REQUIRES its thread.
  virtual void wait_low(low_operation& op) noexcept = 0;
  // Completes with the first arrival, or waits for one.
  void wait(arrival_operation& op) noexcept;

  [[nodiscard]] reactor& home() const noexcept { return *home_; }
  // Null once it is destroyed.
  [[nodiscard]] worker_core* worker() const noexcept;

 protected:
  // Posts receives as long as buffers are available.
  virtual void feed() noexcept = 0;
  // Returns the first arrival. REQUIRES that one exists.
  [[nodiscard]] virtual Arrival pop() noexcept = 0;

  [[nodiscard]] BufferPool& pool() const noexcept { return *pool_; }
  void add(shared_entry& e) noexcept { arrived_.push_back(e); }
  void add(list<shared_entry>& several) noexcept { arrived_.splice_back(several); }
  // For pop().
  [[nodiscard]] shared_entry& take_first() noexcept {
    CORDMA_ASSERT(!arrived_.empty());
    return arrived_.pop_front();
  }
  // `visit(shared_entry&)` may unlink the entry that is passed to it.
  template <class Visit>
  void for_each_arrived(Visit visit) {
    arrived_.for_each(visit);
  }
  // Passes arrivals to the waiting operations.
  void deliver() noexcept;
  // Makes feed() be called when a buffer is returned.
  void await_buffer() noexcept;
  // Cancels await_buffer().
  void forget_buffer() noexcept { hunger_.reset(); }
  // Operations that wait for an arrival fail; nothing is posted any more.
  void end() noexcept;
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

 private:
  reactor* home_;
  std::shared_ptr<worker_anchor> anchor_;
  BufferPool* pool_;
  list<shared_entry> arrived_;
  list<arrival_operation> waiting_;
  std::optional<buffer_operation> hunger_;
  bool ended_ = false;
};

}  // namespace cordma::detail
