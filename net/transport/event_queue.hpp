// The events of an adapter, in order.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <list>
#include <utility>

namespace cordma::transport {

// Bound to one thread. Reporting an event of a queue pair or a receive queue allocates nothing:
// each reserves its entries when it is created.
class event_queue {
 public:
  // Reserves entries for `events` events; a member of their source. Throws std::bad_alloc.
  class room {
   public:
    room(event_queue& in, int events) : in_(in), events_(events) {
      CORDMA_REQUIRE_OP(events, >, 0);
      std::list<cm_event> made(static_cast<std::size_t>(events));
      in_.spare_.splice(in_.spare_.end(), made);
    }
    room(const room&) = delete;
    room& operator=(const room&) = delete;
    // REQUIRES that its owner's events were dropped.
    ~room() {
      CORDMA_REQUIRE_OP(in_.spare_.size(), >=, static_cast<std::size_t>(events_));
      for (int i = 0; i < events_; ++i) in_.spare_.pop_back();
    }

   private:
    event_queue& in_;
    int events_;
  };
  // Established and ended; with shared receives also last_receive.
  [[nodiscard]] static constexpr int events_of(const queue_pair_options& o) noexcept {
    return o.shared != nullptr ? 3 : 2;
  }

  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  // Reports an event of a queue pair or a receive queue, which has reserved entries.
  void report(cm_event e) noexcept {
    CORDMA_ASSERT(has_room(e));
    CORDMA_ASSERT_OP(spare_.size(), >, 0U);
    spare_.front() = std::move(e);
    events_.splice(events_.end(), spare_, spare_.begin());
  }
  // Reports an event of a listener. Throws std::bad_alloc.
  void push(cm_event e) {
    CORDMA_ASSERT(!has_room(e));
    events_.push_back(std::move(e));
  }
  // REQUIRES that it is not empty.
  [[nodiscard]] cm_event take() noexcept {
    CORDMA_REQUIRE(!events_.empty());
    cm_event e = std::move(events_.front());
    remove(events_.begin(), has_room(e));
    return e;
  }
  template <class Predicate>
  void drop(Predicate unwanted) noexcept {
    for (auto at = events_.begin(); at != events_.end();) {
      const auto here = at++;
      if (unwanted(std::as_const(*here))) remove(here, has_room(*here));
    }
  }

 private:
  [[nodiscard]] static bool has_room(const cm_event& e) noexcept {
    return e.pair != nullptr || e.queue != nullptr;
  }
  void remove(std::list<cm_event>::iterator at, bool with_room) noexcept {
    if (!with_room) {
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
