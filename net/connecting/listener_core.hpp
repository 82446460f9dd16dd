// Implementation of Listener and ConnectionRequest.
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

// Shared by the ConnectionRequest and the operation that accepts it; an unanswered request is
// rejected when the last reference is destroyed. Bound to the thread of its Worker.
class pending_request {
 public:
  // Takes the client's data from `event`, which arrived by `over`.
  pending_request(std::shared_ptr<worker_anchor> anchor, adapter_poller& over,
                  transport::peer_kind peer_is, transport::cm_event event) noexcept;
  ~pending_request();
  pending_request(const pending_request&) = delete;
  pending_request& operator=(const pending_request&) = delete;

  // Null once the Worker is destroyed.
  [[nodiscard]] worker_core* worker() const noexcept { return anchor_->worker; }
  // Belongs to the Worker: REQUIRES that the Worker exists.
  [[nodiscard]] adapter_poller& via() const noexcept { return *via_; }
  [[nodiscard]] transport::kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] transport::peer_kind peer_is() const noexcept { return peer_is_; }
  [[nodiscard]] const std::vector<std::byte>& data() const noexcept { return data_; }
  [[nodiscard]] bool off_thread() const noexcept;

  // accept() was called.
  [[nodiscard]] bool is_taken() const noexcept {
    return at_ == stage::taken || at_ == stage::accepted;
  }
  [[nodiscard]] bool is_open() const noexcept { return at_ == stage::open; }
  void take() noexcept { at_ = stage::taken; }
  // Undoes take(): the request can be accepted otherwise, or rejected.
  void give_back() noexcept {
    if (at_ == stage::taken) at_ = stage::open;
  }
  void on_accepted() noexcept { at_ = stage::accepted; }
  // Errors: invalid_value (another Context), and those of the transport.
  [[nodiscard]] result<std::shared_ptr<pending_request>> hand_over(worker_core& to);
  result<void> reject(std::span<const std::byte> private_data);

 private:
  enum class stage : std::uint8_t {
    open,
    taken,
    accepted,  // the transport was notified, as for `answered`
    answered,  // rejected, or handed over to another Worker
  };

  std::shared_ptr<worker_anchor> anchor_;
  adapter_poller* via_;
  transport::kind kind_;
  std::uint64_t id_;
  std::string peer_;
  transport::peer_kind peer_is_;
  std::vector<std::byte> data_;
  stage at_ = stage::open;
};

// Bound to the thread of its Worker.
class listener_core final : public request_acceptor {
 public:
  // Limit of requests not yet returned by next(); further ones are rejected.
  static constexpr std::size_t most_pending = 4096;
  static constexpr int most_ports_tried = 16;

  ~listener_core();
  result<void> open(worker_core& w, const transport::address& where, const listen_options& options);
  // Null once the Worker is destroyed.
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  [[nodiscard]] const transport::address& bound() const noexcept { return bound_; }
  [[nodiscard]] std::vector<transport::address> bound_all() const;
  // Requested transports that do not listen, with the reason.
  [[nodiscard]] const missing_transports& missing() const noexcept { return missing_; }
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }
  // Completes with the first request, or waits for one.
  void next(next_operation& op) noexcept;
  void on_request(transport::cm_event event) noexcept override;
  void lose(const adapter_poller& via, const failure& why) noexcept override;
  void on_worker_gone() noexcept override;
  void leave_to_parent() noexcept override;
  void shut_down() noexcept;

 private:
  result<void> open_all(const std::vector<adapter_poller*>& order);
  void take_in(adapter_poller& via, transport::cm_event event);
  void fail_waiting(const failure& why) noexcept;
  [[nodiscard]] static failure was_closed() noexcept;

  worker_core* worker_ = nullptr;
  reactor* home_ = nullptr;
  transport::address bound_;
  transport::listening how_;
  std::shared_ptr<worker_anchor> anchor_;
  std::vector<std::pair<adapter_poller*, std::unique_ptr<transport::listener>>> listeners_;
  std::deque<ConnectionRequest> pending_;
  list<next_operation> waiting_;
  missing_transports missing_;
  bool chooses_port_ = false;
  bool closed_ = false;
  std::optional<failure> ended_;  // why no further request can arrive, by any transport
};

}  // namespace cordma::detail
