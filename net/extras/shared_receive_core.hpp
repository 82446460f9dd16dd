// What stands behind a SharedReceive, whoever posts its receives.
#pragma once

#include <cordma/net/shared_receive.hpp>

#include <memory>
#include <optional>

namespace cordma::detail {

class worker_core;
struct worker_anchor;

// What arrived: a message, or word of an end.
struct shared_entry : list_node {};

// Bound to the thread of its Worker.
class shared_receive_core {
 public:
  shared_receive_core(Worker& worker, BufferPool& from);
  shared_receive_core(const shared_receive_core&) = delete;
  shared_receive_core& operator=(const shared_receive_core&) = delete;
  virtual ~shared_receive_core() { CORDMA_ASSERT(waiting_.empty()); }

  // What SharedReceive offers under these names. REQUIRES its thread, and that the Worker is there.
  [[nodiscard]] virtual result<void> attach(Endpoint& endpoint) = 0;
  [[nodiscard]] virtual std::size_t attached() const noexcept = 0;
  [[nodiscard]] virtual transport::receive_queue* queue() const noexcept { return nullptr; }
  // REQUIRES its thread.
  virtual void wait_low(low_operation& op) noexcept = 0;
  // Gets the first that is here, or waits.
  void wait(arrival_operation& op) noexcept;

  [[nodiscard]] reactor& home() const noexcept { return *home_; }
  // Null: it is gone.
  [[nodiscard]] worker_core* worker() const noexcept;

 protected:
  // Posts receives as far as there are buffers.
  virtual void feed() noexcept = 0;
  // The first of what is here. REQUIRES that there is some.
  [[nodiscard]] virtual Arrival pop() noexcept = 0;

  [[nodiscard]] BufferPool& pool() const noexcept { return *pool_; }
  void add(shared_entry& e) noexcept { arrived_.push_back(e); }
  void add(list<shared_entry>& several) noexcept { arrived_.splice_back(several); }
  // For pop().
  [[nodiscard]] shared_entry& take_first() noexcept {
    CORDMA_ASSERT(!arrived_.empty());
    return arrived_.pop_front();
  }
  // `visit(shared_entry&)` may unlink what it is given.
  template <class Visit>
  void for_each_arrived(Visit visit) {
    arrived_.for_each(visit);
  }
  // What is here goes to those who wait.
  void deliver() noexcept;
  // feed() is called when a buffer has come back.
  void await_buffer() noexcept;
  // It is not, though one was awaited.
  void forget_buffer() noexcept { hunger_.reset(); }
  // Those who wait for an arrival learn that none comes; nothing is posted any more.
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
