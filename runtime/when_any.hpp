// when_any: runs several awaitables side by side, until the first of them ends.
#pragma once

#include <cordma/runtime/when_all.hpp>

#include <variant>

namespace cordma {

// The outcome of the first that ended: the alternative `value.index()` is the argument at `index`.
template <class... Ts>
struct first_of {
  explicit first_of(std::size_t i, std::variant<Ts...> v) : index(i), value(std::move(v)) {}
  std::size_t index;  // into the arguments, from 0
  std::variant<Ts...> value;
};

// As first_of, for a range.
template <class T>
struct first_in_range {
  explicit first_in_range(std::size_t i, T v) : index(i), value(std::move(v)) {}
  std::size_t index;
  T value;
};

namespace detail {

template <std::size_t I, class... Ts>
std::variant<solid<Ts>...> take_one(std::tuple<task<Ts>...>& tasks, std::size_t which) {
  if constexpr (I + 1 < sizeof...(Ts)) {
    if (which != I) return take_one<I + 1>(tasks, which);
  }
  return std::variant<solid<Ts>...>(std::in_place_index<I>, take_value(std::get<I>(tasks)));
}

template <class... Ts>
task<first_of<solid<Ts>...>> any_of(std::tuple<task<Ts>...> tasks) {
  task_context& me = co_await this_task();
  task_group group(me.home(), me.cancellation(), group_rule::first_end_cancels);
  group_members<sizeof...(Ts)> members;
  start_all(group, tasks, members);
  co_await group.wait();
  const std::size_t which = group.first();
  co_return first_of<solid<Ts>...>(which, take_one<0>(tasks, which));
}

}  // namespace detail

// Runs tasks and operations, started in the order of the arguments. Returns the index and the value
// of the one that ended first, or throws its error. The others are then canceled and waited for:
// their buffers belong to the caller again. Their values and errors are dropped.
// On cancellation: all are canceled, and waited for.
template <class... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_any(Awaitables... each) {
  return detail::any_of(
      std::tuple<task<detail::awaited<Awaitables>>...>(detail::as_task(std::move(each))...));
}

// As above, for any number of tasks. REQUIRES at least one. Allocates once.
template <class T>
[[nodiscard]] task<first_in_range<detail::solid<T>>> when_any(std::vector<task<T>> tasks) {
  CORDMA_REQUIRE(!tasks.empty());
  task_context& me = co_await this_task();
  detail::task_group group(me.home(), me.cancellation(), detail::group_rule::first_end_cancels);
  const auto members = std::make_unique<detail::group_member[]>(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) group.start(tasks[i], members[i], i);
  co_await group.wait();
  const std::size_t which = group.first();
  co_return first_in_range<detail::solid<T>>(which, detail::take_value(tasks[which]));
}

}  // namespace cordma
