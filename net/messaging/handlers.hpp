// Who gets which active messages.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/task_root.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace cordma::detail {

struct message_core;

// Of one id: one of them.
struct handler {
  am_handler task;
  am_function plain;
};

// A handler's task, from the message to its end. Its memory is that of coroutine frames.
struct handler_run final : list_node {
  // Throws what the handler throws, and std::bad_alloc.
  static void start(message_core& core, const am_handler& handler, ActiveMessage message);
  static void operator delete(void* p) noexcept { frame_pool::deallocate(p, sizeof(handler_run)); }

 private:
  struct end_of_task final : task_root {
    explicit end_of_task(handler_run& r) noexcept : task_root(&handler_run::done), run(r) {}
    handler_run& run;
  };
  handler_run(message_core& core, task<void>&& t) noexcept : core_(core), body_(std::move(t)) {}
  static void done(task_root& root) noexcept;

  message_core& core_;
  task<void> body_;
  end_of_task end_{*this};
};

class handler_table {
 public:
  // Throws error: invalid_value (an id of the library's own); std::bad_alloc.
  void set(std::uint16_t id, handler&& h);
  // Null: none.
  [[nodiscard]] const handler* of(std::uint16_t id) const noexcept {
    return id < by_id_.size() ? by_id_[id].get() : nullptr;
  }
  // While a plain handler runs.
  struct running {
    explicit running(handler_table& t) noexcept : table(t) { ++table.plain_running_; }
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    ~running() { --table.plain_running_; }
    handler_table& table;
  };
  // Tasks of handlers, between their start and their end.
  list<handler_run> tasks;
  ~handler_table() {
    while (!tasks.empty()) delete &tasks.pop_front();
  }

 private:
  std::vector<std::unique_ptr<handler>> by_id_;
  std::vector<std::unique_ptr<handler>> replaced_;  // they may still run
  int plain_running_ = 0;
};

// Why active messages of that id are not the program's.
[[nodiscard]] failure reserved_id(std::uint16_t id);

}  // namespace cordma::detail
