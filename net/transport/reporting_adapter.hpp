// Common part of the adapters of transports without a device: their events and their receive
// queues.
#pragma once

#include <cordma/net/transport/software_receive_queue.hpp>

namespace cordma::transport {

// Bound to one thread.
class reporting_adapter : public adapter, public receive_queue_home {
 public:
  // `caps` belongs to the domain.
  explicit reporting_adapter(const capabilities& caps) noexcept : caps_(caps) {}

  cm_event next_event() override;
  result<std::unique_ptr<receive_queue>> make_receive_queue(std::uint32_t depth,
                                                            std::uint32_t max_segments) override;

  // For its queue pairs and listeners.
  [[nodiscard]] event_queue& events() noexcept { return events_; }
  // Reports an event of a listener. Throws std::bad_alloc.
  void push(cm_event e);
  // Reports an event of a queue pair or a receive queue.
  void report(cm_event e) noexcept override;
  void report(queue_pair& of, cm_event::type what, failure why,
              std::vector<std::byte> data = {}) noexcept;
  void drop_events(const queue_pair& of) noexcept;
  void drop_events(const listener& of) noexcept;
  void drop_events(const receive_queue& of) noexcept override;

 protected:
  // Returns the granted options.
  [[nodiscard]] result<queue_pair_options> admit(const queue_pair_options& asked) const;
  // True if receive queues have completions or events to report.
  [[nodiscard]] bool has_reports() const noexcept { return !reporting_.empty(); }
  [[nodiscard]] std::size_t hand_out_reports(std::span<completion> out) noexcept {
    return take_reports(reporting_, out);
  }

 private:
  template <class Predicate>
  void drop_if(Predicate unwanted) noexcept;

  const capabilities& caps_;
  event_queue events_;
  list<reporting_link> reporting_;
};

}  // namespace cordma::transport
