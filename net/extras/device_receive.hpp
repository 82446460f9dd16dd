// The SharedReceive that uses a shared receive queue of a transport.
#pragma once

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/extras/shared_receive_core.hpp>
#include <cordma/net/transport/transport.hpp>

#include <memory>

namespace cordma::detail {

class adapter_poller;
class device_receive;
class worker_core;
class endpoint_core;

// The part of an endpoint that connects it with the queue.
class device_source final : public shared_source, public list_node {
 public:
  struct entry : shared_entry {
    device_source* from = nullptr;
    Buffer buffer;  // empty: notification of the end
    Received info;
  };

  device_source(endpoint_core& of, device_receive& from) : queue_(&from), core_(&of) {
    end_notice_.from = this;
  }
  ~device_source() override;
  // The last message of the endpoint has arrived, and it has ended.
  void on_last() noexcept override;
  // No further notifications are needed.
  void forget() noexcept override;
  void move_to(endpoint_core& to) noexcept override { core_ = &to; }
  void on_queue_gone() noexcept {
    queue_ = nullptr;
    unlink();
  }

  [[nodiscard]] bool is_of(const device_receive& queue) const noexcept { return queue_ == &queue; }
  // Null if it is not attached.
  [[nodiscard]] Endpoint* endpoint() const noexcept { return endpoint_; }
  // Earlier messages go to the queue. REQUIRES is_of(a queue). bad_state: it is attached.
  [[nodiscard]] result<void> attach(Endpoint& endpoint);
  // False if the endpoint is attached: the queue then takes the entry.
  [[nodiscard]] bool keep_early(entry& e) noexcept {
    if (endpoint_ != nullptr) return false;
    early_.push_back(e);
    return true;
  }
  // Returns the notification of the end for `notice`. REQUIRES that it is attached.
  [[nodiscard]] Arrival end(const entry& notice) noexcept;

 private:
  device_receive* queue_;  // null once that is destroyed
  endpoint_core* core_;
  Endpoint* endpoint_ = nullptr;  // while it is attached
  list<shared_entry> early_;      // arrived before it was attached
  entry end_notice_;
  bool last_ = false;
};

// One entry per buffer of the pool: posted; or arrived and not yet consumed; or idle, if its buffer
// is in use elsewhere. So every buffer has an entry.
class device_receive final : public shared_receive_core, public completion_sink {
 public:
  using entry = device_source::entry;

  device_receive(Worker& worker, BufferPool& from, const shared_receive_options& options);
  ~device_receive() override;
  // invalid_value, full, no_memory.
  [[nodiscard]] result<void> make(adapter_poller& over);

  [[nodiscard]] result<void> attach(Endpoint& endpoint) override;
  [[nodiscard]] std::size_t attached() const noexcept override { return attached_; }
  [[nodiscard]] transport::receive_queue* queue() const noexcept override { return device_.get(); }
  void wait_low(low_operation& op) noexcept override;
  // `early`: messages that arrived before it was attached.
  void on_attached(list<shared_entry>& early) noexcept;
  void on_ended(entry& notice) noexcept;
  void on_detached() noexcept {
    CORDMA_ASSERT_OP(attached_, >, 0U);
    --attached_;
  }
  // Drops the pending messages of `of`, including its `early` ones.
  void drop_messages(const device_source& of, list<shared_entry>& early) noexcept;

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_low() noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;

 private:
  void feed() noexcept override;
  [[nodiscard]] Arrival pop() noexcept override;
  void post(entry& e) noexcept;
  void to_idle(entry& e) noexcept;
  void end_low(const failure& why) noexcept;

  worker_core* joined_ = nullptr;  // the Worker, from make() on; null once it is destroyed
  std::unique_ptr<transport::receive_queue> device_;
  const adapter_poller* via_ = nullptr;  // the adapter of the device
  std::uint32_t depth_;
  std::uint32_t low_watermark_;
  std::uint32_t posted_ = 0;
  std::size_t attached_ = 0;
  std::unique_ptr<entry[]> entries_;
  list<entry> idle_;
  list<device_source> sources_;
  list<low_operation> low_waiting_;
};

}  // namespace cordma::detail
