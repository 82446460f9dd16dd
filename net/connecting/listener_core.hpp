// What stands behind Listener and ConnectionRequest.
#pragma once

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/listener.hpp>

#include <deque>
#include <memory>
#include <vector>

namespace cordma {
struct listen_options;
}  // namespace cordma

namespace cordma::detail {

// Shared by the ConnectionRequest and the operation that accepts it; the last one to go rejects what
// nobody answered.
struct pending_request {
  std::shared_ptr<worker_anchor> anchor;
  adapter_poller* via = nullptr;  // the Worker's: not once that is gone
  transport::kind kind = transport::kind::shm;
  std::uint64_t id = 0;
  std::string peer;
  transport::peer_kind peer_is = transport::peer_kind::cordma;
  std::vector<std::byte> data;
  bool taken = false;     // accept() was called
  bool answered = false;  // the transport was told

  [[nodiscard]] bool off_thread() const noexcept;
  result<void> reject(std::span<const std::byte> private_data);
  ~pending_request();
};

struct listener_core final : request_acceptor {
  // Requests not yet taken by next(); beyond it new ones are rejected.
  static constexpr std::size_t most_pending = 4096;

  static constexpr int most_ports_tried = 16;

  worker_core* worker = nullptr;
  reactor* home = nullptr;
  transport::address bound;
  transport::listening how;
  std::shared_ptr<worker_anchor> anchor;
  std::vector<std::pair<adapter_poller*, std::unique_ptr<transport::listener>>> listeners;
  std::deque<ConnectionRequest> pending;
  list<next_operation> waiting;
  // Transports that were to listen and do not, with the reason.
  missing_transports missing;
  bool chooses_port = false;
  bool closed = false;
  std::optional<failure> ended;  // why nobody can ask any more, by any transport

  ~listener_core();
  result<void> open(worker_core& w, const transport::address& where, const listen_options& options);
  result<void> open_all(const std::vector<adapter_poller*>& order);
  void on_request(transport::cm_event event) noexcept override;
  void take_in(adapter_poller& via, transport::cm_event event);
  void lose(const adapter_poller& via, const failure& why) noexcept override;
  void on_worker_gone() noexcept override;
  void leave_to_parent() noexcept override;
  void shut_down() noexcept;
  void fail_waiting(const failure& why) noexcept;
  [[nodiscard]] static failure was_closed() noexcept;
};

}  // namespace cordma::detail
