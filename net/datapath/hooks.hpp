// Interfaces through which the data path calls the layers above it; each layer implements one of
// them. All calls are made on the Worker's thread. Only on_arrived() is on the path of a message.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <vector>

namespace cordma {
class dump_writer;
}

namespace cordma::detail {

class adapter_poller;
class endpoint_core;

// The frames of one Endpoint (messaging/peer_core.hpp).
struct endpoint_frames : transport::message_taker {
  endpoint_frames() = default;
  endpoint_frames(const endpoint_frames&) = delete;
  endpoint_frames& operator=(const endpoint_frames&) = delete;
  virtual ~endpoint_frames() = default;
  virtual void on_connected() noexcept = 0;
  // The state of the connection has changed, or a batch has begun or ended.
  virtual void settle() noexcept = 0;
  // Sends the last frames; the queue pair disconnects next.
  virtual void on_closing() noexcept = 0;
  // The connection has ended: waiting operations end with it.
  virtual void on_end() noexcept = 0;
  // The Endpoint was destroyed: unexpected messages are dropped.
  virtual void on_handle_gone() noexcept = 0;
  // The Endpoint's queue pair and those of its rails are destroyed.
  virtual void on_pair_gone() noexcept = 0;
  // Whether closing need not wait for it.
  [[nodiscard]] virtual bool idle() noexcept = 0;
  // Reports waiting messages, for the report of a Worker: may run in a signal handler.
  virtual void dump(dump_writer& out) noexcept = 0;
  // For Endpoint::properties().
  virtual void describe(std::vector<transport::property>& out) const = 0;
  // The connection belongs to that Endpoint from now on.
  virtual void move_to(endpoint_core& endpoint) noexcept = 0;
};

// Messages and calls that were started before the Endpoint was connected
// (messaging/early_messages.hpp).
struct early_frames {
  early_frames() = default;
  early_frames(const early_frames&) = delete;
  early_frames& operator=(const early_frames&) = delete;
  virtual ~early_frames() = default;
  // The Endpoint is connected.
  virtual void start_all() noexcept = 0;
  virtual void on_end() noexcept = 0;
};

// The owner of an endpoint_core that has no Endpoint (messaging/rail_core.hpp).
struct link_owner {
  virtual void on_end() noexcept = 0;
  virtual void on_pair_gone() noexcept = 0;

 protected:
  ~link_owner() = default;
};

// The messages of one Endpoint that arrive at a SharedReceive (extras/device_receive.hpp).
struct shared_source {
  shared_source() = default;
  shared_source(const shared_source&) = delete;
  shared_source& operator=(const shared_source&) = delete;
  virtual ~shared_source() = default;
  // Its last message has arrived, and the connection has ended.
  virtual void on_last() noexcept = 0;
  // The Endpoint was destroyed.
  virtual void forget() noexcept = 0;
  virtual void move_to(endpoint_core& endpoint) noexcept = 0;
};

// An attempt to connect (connect.hpp).
class connection_attempt {
 public:
  virtual ~connection_attempt() = default;

 private:
  friend class endpoint_core;
  virtual void on_established() noexcept = 0;
  virtual void on_failed(transport::cm_event event) noexcept = 0;
  virtual void on_worker_gone() noexcept = 0;
};

// Accepts the requests of clients (connecting/listener_core.hpp).
struct request_acceptor {
  virtual void on_request(transport::cm_event event) noexcept = 0;
  // No more clients can connect over this transport.
  virtual void lose(const adapter_poller& via, const failure& why) noexcept = 0;
  virtual void on_worker_gone() noexcept = 0;
  // For a child of fork(): see domain::leave_to_parent().
  virtual void leave_to_parent() noexcept = 0;

 protected:
  ~request_acceptor() = default;
};

}  // namespace cordma::detail
