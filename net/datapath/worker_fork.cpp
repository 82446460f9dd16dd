// What a Worker does in a child of fork().
#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <utility>

namespace cordma::detail {

// Memory alone changes: the ends are told to coroutines that never run again, since their frames are destroyed next.
void worker_core::leave_to_parent() noexcept {
  if (std::exchange(left_to_parent_, true)) return;
  for (const auto* const list : {&adapters_, &rail_adapters_}) {
    for (const auto& a : *list) a->leave_to_parent();
  }
  for (listener_core* const l : listeners_) {
    for (auto& [via, listening] : l->listeners) {
      if (via->kept()) static_cast<void>(listening.release());
    }
  }
  const failure why = made_before_fork();
  const auto leave = [&why](endpoint_core& e) {
    if (e.pair != nullptr && e.via->kept()) {
      static_cast<void>(e.pair.release());
    } else if (e.pair != nullptr) {
      e.pair->abort();
    }
    e.end(why);
    e.drop_pair();
  };
  endpoints_.for_each(leave);
  graveyard_.for_each(leave);
}

}  // namespace cordma::detail
