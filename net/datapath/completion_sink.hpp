// Receives completions that belong to no operation of an endpoint, and provides receive queues for
// endpoints.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <cstdint>

namespace cordma::detail {

class endpoint_core;

// The id of a request of a sink: {number of the sink : 24, type : 8, index : 32}, in the format of
// operations' ids.
inline constexpr std::uint8_t id_type_sink = 2;
[[nodiscard]] constexpr std::uint64_t sink_id(std::uint32_t sink_number,
                                              std::uint32_t index) noexcept {
  return (std::uint64_t{sink_number} << 40) | (std::uint64_t{id_type_sink} << 32) | index;
}

// Registered at a worker_core and called on its thread.
class completion_sink {
 public:
  completion_sink() = default;
  completion_sink(const completion_sink&) = delete;
  completion_sink& operator=(const completion_sink&) = delete;

  // Returns false if no request of that index can have been posted.
  [[nodiscard]] virtual bool on_completion(std::uint32_t index,
                                           const transport::completion& c) noexcept = 0;
  // The event receives_low of its queue.
  virtual void on_low() noexcept {}
  // An endpoint uses the receive queue of this sink. Throws std::bad_alloc.
  virtual void on_joined(endpoint_core& endpoint) = 0;
  // REQUIRES that all queue pairs are destroyed.
  virtual void on_worker_gone() noexcept = 0;

  // The transport of its queue.
  [[nodiscard]] std::size_t kind() const noexcept { return kind_; }
  // Its number at the worker.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  void count_as(std::uint32_t number) noexcept { number_ = number; }

 protected:
  ~completion_sink() = default;
  void receive_over(transport::kind k) noexcept { kind_ = static_cast<std::size_t>(k); }

 private:
  std::size_t kind_ = 0;
  std::uint32_t number_ = 0;
};

}  // namespace cordma::detail
