// The SharedReceive that stands on a shared receive queue of a transport.
#pragma once

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/extras/shared_receive_core.hpp>
#include <cordma/net/transport/transport.hpp>

#include <memory>

namespace cordma::detail {

class adapter_poller;
class worker_core;
struct device_receive;
struct endpoint_core;

// What it knows of one endpoint, whose part this is.
struct device_source final : shared_source, list_node {
  device_source(endpoint_core& of, device_receive& from);
  ~device_source() override;
  // Its last message is here, and it has ended.
  void on_last() noexcept override;
  // Nobody wants to hear of it any more.
  void forget() noexcept override;
  void move_to(endpoint_core& to) noexcept override { core = &to; }

  struct entry : shared_entry {
    device_source* from = nullptr;
    Buffer buffer;  // empty: word of the end
    Received info;
  };
  device_receive* queue;  // null once that is gone
  endpoint_core* core;
  Endpoint* endpoint = nullptr;  // while it is attached
  list<shared_entry> early;      // came before that
  entry end_notice;
  bool last = false;
};

// An entry per buffer of the pool: posted; or arrived and not yet taken; or idle, when its buffer is not
// here. So there is one for every buffer that is.
struct device_receive final : shared_receive_core, completion_sink {
  using entry = device_source::entry;

  device_receive(Worker& worker, BufferPool& from, const shared_receive_options& options);
  ~device_receive() override;
  // invalid_value, full, no_memory.
  [[nodiscard]] result<void> make(adapter_poller& over);

  [[nodiscard]] result<void> attach(Endpoint& endpoint) override;
  [[nodiscard]] std::size_t attached() const noexcept override { return attached_count; }
  [[nodiscard]] transport::receive_queue* queue() const noexcept override { return device.get(); }
  void wait_low(low_operation& op) noexcept override;
  void feed() noexcept override;
  [[nodiscard]] Arrival pop() noexcept override;

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_low() noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;
  void post(entry& e) noexcept;
  void to_idle(entry& e) noexcept;
  void end_low(const failure& why) noexcept;

  worker_core* worker = nullptr;  // null once it is gone
  std::unique_ptr<transport::receive_queue> device;
  const adapter_poller* via = nullptr;  // of the device
  std::uint32_t depth;
  std::uint32_t low_watermark;
  std::uint32_t posted = 0;
  std::size_t attached_count = 0;
  std::unique_ptr<entry[]> entries;
  list<entry> idle;
  list<device_source> sources;
  list<low_operation> low_waiting;
};

}  // namespace cordma::detail
