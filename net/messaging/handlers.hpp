// Handlers of active messages, by id.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/runtime/task_root.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace cordma::detail {

// The handler of one id: one of the two is set.
struct handler {
  am_handler task;
  am_function plain;
};

class handler_table;
struct message_segment;

// The task of a handler, from the message to its end. Reused for one task after the other.
class handler_run final : task_root {
 public:
  explicit handler_run(handler_table& of) noexcept : task_root(&handler_run::done), table_(of) {}
  ~handler_run() {
    if (frame_) frame_.destroy();
  }

 private:
  friend class handler_table;
  static void done(task_root& root) noexcept;

  handler_table& table_;
  task<void>::handle_type frame_;  // null: it is free
  handler_run* next_free_ = nullptr;
};

class handler_table {
 public:
  explicit handler_table(reactor& home) noexcept : home_(home) {}
  // Throws error: invalid_value (an id reserved for the library); std::bad_alloc.
  void set(std::uint16_t id, handler&& h);
  // Null: none.
  [[nodiscard]] const handler* of(std::uint16_t id) const noexcept {
    return id < by_id_.size() ? by_id_[id].get() : nullptr;
  }
  // Starts a task for the message in `s`. Throws the exceptions of the handler, and std::bad_alloc.
  void start(const am_handler& handler, message_segment& s);
  // Of plain handlers, and of tasks that have ended.
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }
  void count_failure() noexcept { ++failures_; }
  // Exists while a handler function runs.
  struct running {
    explicit running(handler_table& t) noexcept : table(t) { ++table.calling_; }
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    ~running() { --table.calling_; }
    handler_table& table;
  };

 private:
  friend class handler_run;
  // Calls the handler, and ensures that a run is free.
  [[nodiscard]] task<void>::handle_type make_task(const am_handler& handler, message_segment& s);
  [[gnu::noinline]] void make_run();

  reactor& home_;
  std::vector<std::unique_ptr<handler>> by_id_;
  std::vector<std::unique_ptr<handler>> replaced_;  // they may still run
  int calling_ = 0;
  std::uint64_t failures_ = 0;
  std::size_t running_ = 0;  // number of runs in use
  handler_run* free_runs_ = nullptr;
  std::vector<std::unique_ptr<handler_run>> runs_;  // destroyed first, with their tasks
};

[[gnu::always_inline]] inline task<void>::handle_type handler_table::make_task(
    const am_handler& handler, message_segment& s) {
  const running calling(*this);
  task<void> made = handler(ActiveMessage(s));
  CORDMA_REQUIRE(static_cast<bool>(made));
  if (free_runs_ == nullptr) [[unlikely]]
    make_run();
  return made.release();
}

[[gnu::always_inline]] inline void handler_table::start(const am_handler& handler,
                                                        message_segment& s) {
  const task<void>::handle_type frame = make_task(handler, s);
  handler_run& run = *free_runs_;
  free_runs_ = run.next_free_;
  run.frame_ = frame;
  ++running_;
  start_root(home_, frame, nullptr, run);
}

// The failure for an active message with an id that is reserved for the library.
[[nodiscard]] failure reserved_id(std::uint16_t id);

}  // namespace cordma::detail
