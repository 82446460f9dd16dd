// What stands behind a SharedReceive, whoever posts its receives.
#pragma once

#include <cordma/net/shared_receive.hpp>

#include <memory>
#include <optional>

namespace cordma::detail {

struct worker_anchor;

// What arrived: a message, or word of an end.
struct shared_entry : list_node {};

// Bound to the thread of its Worker.
struct shared_receive_core {
  shared_receive_core(Worker& worker, BufferPool& from);
  shared_receive_core(const shared_receive_core&) = delete;
  shared_receive_core& operator=(const shared_receive_core&) = delete;
  virtual ~shared_receive_core() = default;

  // What SharedReceive offers under these names. REQUIRES its thread, and that the Worker is there.
  [[nodiscard]] virtual result<void> attach(Endpoint& endpoint) = 0;
  [[nodiscard]] virtual std::size_t attached() const noexcept = 0;
  [[nodiscard]] virtual transport::receive_queue* queue() const noexcept { return nullptr; }
  // REQUIRES its thread.
  virtual void wait_low(low_operation& op) noexcept = 0;
  // Posts receives as far as there are buffers.
  virtual void feed() noexcept = 0;
  // The first of `arrived`, which is not empty.
  [[nodiscard]] virtual Arrival pop() noexcept = 0;

  void deliver() noexcept;
  // feed() is called when a buffer has come back.
  void await_buffer() noexcept;
  // Those who wait for an arrival learn that none comes.
  void end_waiting() noexcept;

  reactor* home;
  std::shared_ptr<worker_anchor> anchor;
  BufferPool* pool;
  list<shared_entry> arrived;
  list<arrival_operation> waiting;
  std::optional<buffer_operation> hunger;
  bool ending = false;
};

}  // namespace cordma::detail
