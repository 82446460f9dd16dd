// The SharedReceive that keeps receives posted on every endpoint.
#pragma once

#include <cordma/net/extras/shared_receive_core.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace cordma::detail {

class endpoint_receive final : public shared_receive_core {
 public:
  endpoint_receive(Worker& worker, BufferPool& from, std::uint32_t receives)
      : shared_receive_core(worker, from), per_endpoint_(receives) {}
  ~endpoint_receive() override;

  [[nodiscard]] result<void> attach(Endpoint& endpoint) override;
  [[nodiscard]] std::size_t attached() const noexcept override { return sources_.size(); }
  void wait_low(low_operation& op) noexcept override;

 private:
  struct source;
  // One receive: posted, or arrived and not yet consumed, or waiting for a buffer.
  struct entry : shared_entry {
    source* from = nullptr;
    std::optional<message_operation> op;
    std::optional<Message> message;  // empty after arrival: notification of the end
  };
  struct source {
    endpoint_receive* queue = nullptr;
    Endpoint* endpoint = nullptr;
    std::unique_ptr<entry[]> entries;
    entry end_notice;
    std::optional<failure> ended;
    std::uint32_t posted = 0;
  };

  void feed() noexcept override;
  [[nodiscard]] Arrival pop() noexcept override;
  void post(entry& e) noexcept;
  void starve(entry& e) noexcept;
  void on_done(entry& e) noexcept;

  std::uint32_t per_endpoint_;
  std::vector<std::unique_ptr<source>> sources_;
  list<entry> starved_;  // waiting for a buffer
};

}  // namespace cordma::detail
