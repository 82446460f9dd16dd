// The lists of a reactor for its reports: tasks that no coroutine awaits, and sections of objects
// that live on it.
#pragma once

#include <cordma/runtime/list.hpp>

#include <cstdint>

namespace cordma {

class dump_writer;
class reactor;
class task_promise_base;
namespace detail {
class report_lists;
class task_group;
}  // namespace detail

// A task that no coroutine awaits, between its start and its end, for reports; in the list of its
// reactor.
struct running_task : list_node {
  task_promise_base* top = nullptr;     // the coroutine that was started first
  detail::task_group* group = nullptr;  // null if it is in no group
  std::uint32_t joins_in = 0;           // the report in which it was found to wait for other tasks
};

// The part of a reactor's report about an object that lives on it. The owner unlinks it before it
// changes.
class report_section : public list_node {
 public:
  using function = void (*)(report_section&, dump_writer&) noexcept;
  explicit report_section(function print) noexcept : print_(print) {}

 private:
  friend class detail::report_lists;
  function print_;
};

namespace detail {

// Bound to the thread of the reactor; a signal handler there may call print_tasks() and
// print_sections() at any time. A list that is being changed is reported as such, and not walked.
class report_lists {
 public:
  // In the order of their start.
  [[nodiscard]] list<running_task>& tasks() noexcept { return tasks_; }
  void add(report_section& s) noexcept { sections_.push_back(s); }

  void print_sections(dump_writer& out) noexcept;
  // Prints each suspended coroutine with the chain of its callers. `home` is their reactor.
  void print_tasks(dump_writer& out, const reactor& home) noexcept;

 private:
  friend struct stack_layout;
  list<running_task> tasks_;
  list<report_section> sections_;
  std::uint32_t reports_ = 0;
};

}  // namespace detail
}  // namespace cordma
