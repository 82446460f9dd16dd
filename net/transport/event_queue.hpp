// The events of an adapter, in order.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <list>
#include <utility>

namespace cordma::transport {

// Bound to one thread. To report what became of a queue pair takes no memory: each brings the room.
class event_queue {
 public:
  // The room for one queue pair's events, as a member of it. Throws std::bad_alloc.
  class room {
   public:
    explicit room(event_queue& in) : in_(in) {
      std::list<cm_event> made(events_per_pair);
      in_.spare_.splice(in_.spare_.end(), made);
    }
    room(const room&) = delete;
    room& operator=(const room&) = delete;
    // REQUIRES that the queue pair's events were dropped.
    ~room() {
      for (int i = 0; i < events_per_pair; ++i) in_.spare_.pop_back();
    }

   private:
    event_queue& in_;
  };

  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  // Of a queue pair that has room.
  void report(cm_event e) noexcept {
    CORDMA_ASSERT(e.pair != nullptr && !spare_.empty());
    spare_.front() = std::move(e);
    events_.splice(events_.end(), spare_, spare_.begin());
  }
  // Of a listener. Throws std::bad_alloc.
  void push(cm_event e) { events_.push_back(std::move(e)); }
  // REQUIRES one.
  [[nodiscard]] cm_event take() noexcept {
    CORDMA_REQUIRE(!events_.empty());
    cm_event e = std::move(events_.front());
    remove(events_.begin(), e.pair != nullptr);
    return e;
  }
  template <class Predicate>
  void drop(Predicate unwanted) noexcept {
    for (auto at = events_.begin(); at != events_.end();) {
      const auto here = at++;
      if (unwanted(std::as_const(*here))) remove(here, here->pair != nullptr);
    }
  }

 private:
  static constexpr int events_per_pair = 2;  // it came up, and it ended

  void remove(std::list<cm_event>::iterator at, bool of_pair) noexcept {
    if (!of_pair) {
      events_.erase(at);
      return;
    }
    *at = cm_event();
    spare_.splice(spare_.end(), events_, at);
  }

  std::list<cm_event> events_;
  std::list<cm_event> spare_;
};

}  // namespace cordma::transport
