// The sockets of one thread: the ready ones, the order of serving them, and the events to report.
#pragma once

#include <cordma/net/transport/in_transit.hpp>
#include <cordma/net/transport/region_table.hpp>
#include <cordma/net/transport/reporting_adapter.hpp>
#include <cordma/net/transport/socket_set.hpp>
#include <cordma/net/transport/tcp/active_set.hpp>
#include <cordma/net/transport/tcp/hello.hpp>
#include <cordma/net/transport/tcp/look_schedule.hpp>
#include <cordma/net/transport/tcp/socket.hpp>
#include <cordma/runtime/list.hpp>
#include <memory>
#include <unordered_map>

namespace cordma::transport::tcp {

class connection;
class incoming;
class tcp_listener;
class tcp_adapter;

// Pending work of a poll for a connection.
enum class work : std::uint8_t {
  completed,  // return completions
  due,        // tend(): acknowledgements and credits
  pending,    // process input that arrived before
};
inline constexpr std::size_t works = 3;

struct connection_link : list_node {
  explicit connection_link(connection& c) noexcept : owner(c) {}
  connection& owner;
};

// Thread-safe.
class tcp_domain final : public domain, public std::enable_shared_from_this<tcp_domain> {
 public:
  explicit tcp_domain(const tcp_options& options);
  ~tcp_domain() override;
  [[nodiscard]] const capabilities& caps() const noexcept override { return caps_; }
  result<memory_keys> register_memory(const memory_range& range) override;
  void deregister_memory(std::uint32_t lkey) noexcept override { regions_.remove(lkey); }
  result<std::unique_ptr<adapter>> open(reactor& home) override;

  [[nodiscard]] region_table& regions() noexcept { return regions_; }
  [[nodiscard]] const tcp_options& options() const noexcept { return options_; }
  [[nodiscard]] in_transit<incoming>& requests() noexcept { return requests_; }

 private:
  capabilities caps_;
  tcp_options options_;
  region_table regions_;
  in_transit<incoming> requests_;
};

// Bound to one thread.
class tcp_adapter final : public reporting_adapter {
 public:
  tcp_adapter(std::shared_ptr<tcp_domain> owner, reactor& home, unique_fd epoll);
  ~tcp_adapter() override;

  [[nodiscard]] std::size_t poll(std::span<completion> out, bool& progressed) noexcept override;
  void release_arrived() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return sockets_.fd(); }
  // Level-triggered: it is readable as long as any socket is.
  [[nodiscard]] bool edge_triggered() const noexcept override { return false; }
  arm_state arm() noexcept override;
  void disarm() noexcept override;

  result<std::unique_ptr<listener>> listen(const address& where) override;
  result<std::unique_ptr<queue_pair>> connect(const address& to, const queue_pair_options& options,
                                              std::span<const std::byte> private_data) override;
  result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                             const queue_pair_options& options,
                                             std::span<const std::byte> private_data) override;
  result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) override;
  result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) override;
  result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) override;

  // For connections, listeners and handshakes of this adapter.
  [[nodiscard]] reactor& home() noexcept { return home_; }
  [[nodiscard]] tcp_domain& owner() noexcept { return *owner_; }
  [[nodiscard]] region_table& regions() noexcept { return owner_->regions(); }
  // The buffer for bytes of unknown type, except for connections with a separate input. Shared:
  // empty between two calls.
  [[nodiscard]] std::span<std::byte> staging() noexcept { return {staging_.get(), staging_bytes_}; }

  [[nodiscard]] socket_set& sockets() noexcept { return sockets_; }
  // The number of the running poll; 0 outside.
  [[nodiscard]] std::uint64_t running_poll() const noexcept { return polling_ ? polls_ : 0; }

  // For the next poll, or for the rest of this one.
  void mark(connection& c, work w) noexcept;
  // True if this poll has a free entry for a message.
  [[nodiscard]] bool has_place() const noexcept { return arrived_count_ < may_arrive_; }
  // REQUIRES has_place(), and that it is the next message in the order of its sender. The bytes
  // stay valid until released().
  void add_arrived(connection& from, std::span<const std::byte> message) noexcept;
  [[nodiscard]] active_set& active() noexcept { return active_; }
  // Found by a query of all sockets, which event mode does before it sleeps anyway.
  void found_active(connection& c) noexcept {
    if (!look_.on_events()) active_.add(c);
  }
  // True if every poll reads its socket anyway, so that the epoll set need not contain it: the
  // kernel then has no waiter to notify of each message.
  [[nodiscard]] bool tries(const connection& c) const noexcept {
    return look_.only_polls() && connections_ <= active_set::most && active_.has(c);
  }
  void enlist() noexcept;
  void forget(connection& c) noexcept;
  void add_waiting(int change) noexcept { look_.add_waiting(change); }

  // Connecting out of band: a listener of the adapter, and the connections by token.
  result<std::uint16_t> attach_port();
  void attach(incoming& caller) noexcept;
  void find_caller(connection& c) noexcept;

  void requested(incoming& from);
  void gone(incoming& which) noexcept;
  void begin_incoming(tcp_listener* from, socket_fd fd);
  void orphan(const tcp_listener& from) noexcept;

 private:
  // Options as they are granted.
  [[nodiscard]] result<queue_pair_options> admit(const queue_pair_options& asked) const;
  [[nodiscard]] std::size_t room_for_messages(std::size_t all) noexcept;
  [[nodiscard]] bool take_pending() noexcept;
  [[nodiscard]] bool look_at_all() noexcept;
  void do_due(bool now) noexcept;
  [[nodiscard]] bool has_completions() noexcept {
    return !to_do(work::completed).empty() || has_reports();
  }
  [[nodiscard]] std::size_t hand_out(std::span<completion> out) noexcept;
  [[nodiscard]] std::unique_ptr<incoming> claim(std::uint64_t request);
  [[nodiscard]] list<connection_link>& to_do(work w) noexcept {
    return work_[static_cast<std::size_t>(w)];
  }

  std::shared_ptr<tcp_domain> owner_;
  reactor& home_;
  socket_set sockets_;
  std::size_t staging_bytes_;
  std::unique_ptr<std::byte[]> staging_;
  std::array<list<connection_link>, works> work_;
  std::size_t may_arrive_ = 0;  // limit of messages in this poll
  active_set active_;           // the others are found by querying all sockets
  look_schedule look_;
  std::size_t connections_ = 0;
  std::uint64_t polls_ = 0;
  bool polling_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<incoming>> incoming_;
  std::unique_ptr<tcp_listener> attach_listener_;
  std::vector<connection*> by_token_;  // those created by create()
};

}  // namespace cordma::transport::tcp
