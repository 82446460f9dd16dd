#include <cordma/runtime/live_reactors.hpp>

#include <cordma/runtime/process.hpp>
#include <cordma/runtime/task.hpp>
#include <cordma/runtime/task_group.hpp>

#include <cstddef>

#include <sched.h>
#include <unistd.h>

namespace cordma::detail {

constinit std::array<live_reactor, max_live_reactors> live_table;

namespace {

// A report of the previous owner thread may still be running; its length is bounded.
void wait_for_report(const live_reactor& entry) noexcept {
  while (entry.reporting.load(std::memory_order_seq_cst) != 0) ::sched_yield();
}

}  // namespace

live_reactor* enter_table(reactor& r) noexcept {
  for (live_reactor& e : live_table) {
    if (e.taken.load(std::memory_order_relaxed) || e.taken.exchange(true)) continue;
    e.thread.store(::gettid(), std::memory_order_relaxed);
    e.made_after.store(fork_count.load(std::memory_order_relaxed), std::memory_order_relaxed);
    e.asked.store(false, std::memory_order_relaxed);
    e.object.store(&r, std::memory_order_release);
    return &e;
  }
  return nullptr;
}

void leave_table(live_reactor* entry) noexcept {
  if (entry == nullptr) return;
  const bool ours =
      usable(*entry) != nullptr;  // in a child of fork() no thread of the parent reports
  entry->object.store(nullptr, std::memory_order_seq_cst);
  if (ours) wait_for_report(*entry);
  entry->taken.store(false, std::memory_order_release);
}

void change_thread(live_reactor* entry) noexcept {
  if (entry == nullptr) return;
  entry->thread.store(::gettid(), std::memory_order_seq_cst);
  wait_for_report(*entry);
}

reactor* usable(live_reactor& entry) noexcept {
  reactor* const r = entry.object.load(std::memory_order_acquire);
  const bool ours = entry.made_after.load(std::memory_order_relaxed) ==
                    fork_count.load(std::memory_order_relaxed);
  return ours ? r : nullptr;
}

// The classes are not of standard layout; both compilers lay them out as if they were.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

// Read by the script `cordma-pstack`: `version` changes with every field. Offsets are in bytes.
struct stack_layout {
  static constexpr std::uint64_t current_version = 2;

  std::uint64_t version;
  const live_reactor* table;
  std::uint64_t table_entries;
  std::uint64_t table_entry_bytes;
  std::uint64_t entry_object;
  std::uint64_t entry_thread;
  std::uint64_t reactor_tasks;  // the head of the list
  std::uint64_t node_next;
  std::uint64_t running_top;
  std::uint64_t running_group;
  std::uint64_t promise_context;
  std::uint64_t promise_awaiter;
  std::uint64_t promise_awaited;
  std::uint64_t promise_suspended_at;  // the address of {file, function, line, column}
  std::uint64_t promise_in_frame;
  std::uint64_t context_running;
  std::uint64_t context_waiter;
  std::uint64_t group_waiting;  // the head of the list
  std::uint64_t operation_context;

  static constexpr stack_layout make() noexcept {
    return {
        .version = current_version,
        .table = live_table.data(),
        .table_entries = max_live_reactors,
        .table_entry_bytes = sizeof(live_reactor),
        .entry_object = offsetof(live_reactor, object),
        .entry_thread = offsetof(live_reactor, thread),
        .reactor_tasks = offsetof(reactor, reports_) + offsetof(report_lists, tasks_),
        .node_next = offsetof(list_node, next_),
        .running_top = offsetof(running_task, top),
        .running_group = offsetof(running_task, group),
        .promise_context = offsetof(task_promise_base, context_),
        .promise_awaiter = offsetof(task_promise_base, awaiter_),
        .promise_awaited = offsetof(task_promise_base, awaited_),
        .promise_suspended_at = offsetof(task_promise_base, suspended_at_),
        .promise_in_frame = 2 * sizeof(void*),
        .context_running = offsetof(task_context, entry_),
        .context_waiter = offsetof(task_context, waiter_),
        .group_waiting = offsetof(task_group, waiting_),
        .operation_context = offsetof(operation_base, waiter_),
    };
  }
};

#pragma GCC diagnostic pop

}  // namespace cordma::detail

// How a debugger finds the suspended coroutines of a process, in optimised programs too.
extern "C" [[gnu::used]] constinit const cordma::detail::stack_layout cordma_stack_layout =
    cordma::detail::stack_layout::make();
