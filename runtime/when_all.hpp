// when_all: runs several awaitables side by side, and returns all their values.
#pragma once

#include <cordma/runtime/task_group.hpp>

#include <array>
#include <memory>
#include <tuple>
#include <vector>

namespace cordma {

namespace detail {

template <class... Ts>
using all_values = std::conditional_t<(std::is_void_v<Ts> && ...), void, std::tuple<solid<Ts>...>>;

template <std::size_t N>
using group_members = std::array<group_member, N>;

template <class... Ts>
void start_all(task_group& group, std::tuple<task<Ts>...>& tasks,
               group_members<sizeof...(Ts)>& members) noexcept {
  std::apply(
      [&group, &members](task<Ts>&... t) {
        std::size_t i = 0;
        ((group.start(t, members[i], i), ++i), ...);
      },
      tasks);
}

template <class... Ts>
all_values<Ts...> take_all(std::tuple<task<Ts>...>& tasks) {
  if constexpr (!std::is_void_v<all_values<Ts...>>) {
    return std::apply([](task<Ts>&... t) { return all_values<Ts...>(take_value(t)...); }, tasks);
  }
}

template <class... Ts>
task<all_values<Ts...>> all_of(std::tuple<task<Ts>...> tasks) {
  task_context& me = co_await this_task();
  task_group group(me.home(), me.cancellation(), group_rule::first_error_cancels);
  group_members<sizeof...(Ts)> members;
  start_all(group, tasks, members);
  co_await group.wait();
  group.rethrow_first_error();
  co_return take_all(tasks);
}

}  // namespace detail

// Runs tasks and operations, started in the order of the arguments. Returns a std::tuple of their
// values in that order (std::monostate for void; nothing if all are void). Waits for all of them;
// the first error, in time, cancels the others and is thrown when they have ended.
// On cancellation: all are canceled, and waited for.
template <class... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all(Awaitables... each) {
  return detail::all_of(
      std::tuple<task<detail::awaited<Awaitables>>...>(detail::as_task(std::move(each))...));
}

// As above, for any number of tasks, including none. Returns a std::vector of their values in the
// order of `tasks`, or nothing for void. Allocates for the vector and once for the bookkeeping.
template <class T>
[[nodiscard]] task<std::conditional_t<std::is_void_v<T>, void, std::vector<detail::solid<T>>>>
when_all(std::vector<task<T>> tasks) {
  task_context& me = co_await this_task();
  detail::task_group group(me.home(), me.cancellation(), detail::group_rule::first_error_cancels);
  const auto members = std::make_unique<detail::group_member[]>(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) group.start(tasks[i], members[i], i);
  co_await group.wait();
  group.rethrow_first_error();
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(tasks.size());
    for (task<T>& t : tasks) values.push_back(detail::take_value(t));
    co_return values;
  }
}

}  // namespace cordma
