// The network itself: hosts, the links between them, and all pending events, in one heap with one
// timer of the reactor.
#pragma once

#include <cordma/net/transport/sim/host.hpp>
#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/net/transport/sim/random.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/net/transport/timer_of.hpp>

#include <deque>

namespace cordma::transport::sim {

// Bound to the reactor's thread.
class fabric final : public std::enable_shared_from_this<fabric> {
 public:
  fabric(const network_options& options, reactor& home);
  fabric(const fabric&) = delete;
  fabric& operator=(const fabric&) = delete;
  ~fabric();

  [[nodiscard]] reactor& home() noexcept { return home_; }
  [[nodiscard]] time_point now() noexcept { return home_.now(); }
  [[nodiscard]] const network_options& options() const noexcept { return options_; }
  [[nodiscard]] random& chance() noexcept { return random_; }
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return hash_; }
  [[nodiscard]] fault_counters& faults() noexcept { return faults_; }
  [[nodiscard]] protocol_counters& counters() noexcept { return counters_; }

  // ---- hosts ----
  static constexpr std::uint32_t no_host = 0xFFFFFFFF;
  [[nodiscard]] std::uint32_t find(std::string_view name) const noexcept;  // no_host: unknown
  std::uint32_t find_or_add(std::string_view name, std::uint32_t mtu);
  [[nodiscard]] host& at(std::uint32_t index) noexcept {
    CORDMA_REQUIRE_OP(index, <, hosts_.size());
    return *hosts_[index];
  }
  [[nodiscard]] const std::shared_ptr<host>& share(std::uint32_t index) noexcept {
    return hosts_[index];
  }
  [[nodiscard]] std::uint32_t host_count() const noexcept {
    return static_cast<std::uint32_t>(hosts_.size());
  }
  void kill(std::uint32_t index);
  void revive(std::uint32_t index);
  void stall(std::uint32_t index, duration how_long);

  // ---- links ----
  struct link {
    link_options options;
    bool cut = false;
    time_point free_at{};       // when the last packet was sent
    time_point last_arrival{};  // of packets that keep their order
    time_point broken_since = never;
  };
  [[nodiscard]] link& between(std::uint32_t from, std::uint32_t to) noexcept {
    CORDMA_REQUIRE_OP(from, <, links_.size());
    CORDMA_REQUIRE_OP(to, <, links_[from].size());
    return links_[from][to];
  }
  // Called after a change of a link: records since when nothing can pass, and lets peers watch for
  // silence.
  void link_changed(std::uint32_t from, std::uint32_t to);
  void set_default_link(const link_options& options) { options_.link = options; }
  // The time since which `a` cannot hear `b`; never: it can.
  [[nodiscard]] time_point silent_since(const endpoint_id& a, const endpoint_id& b) noexcept;
  // The longest time of a packet and its answer if nothing queues.
  [[nodiscard]] duration round_trip(std::uint32_t a, std::uint32_t b) noexcept;

  // ---- packets and alarms ----
  [[nodiscard]] packet& take_packet() { return pool_.take(); }
  void give(packet& p) noexcept { pool_.give(p); }
  // Passes the packet to its link; returns the time when its last bit was sent.
  time_point transmit(packet& p) noexcept;
  // The alarm `which` of the pair, or the host's own (`number` 0), goes off with `token`.
  void schedule(time_point when, const endpoint_id& whose, std::uint8_t which,
                std::uint64_t token) noexcept;

  // ---- multicast groups ----
  [[nodiscard]] std::uint32_t group_id(std::string_view name);
  [[nodiscard]] std::vector<endpoint_id>& members(std::uint32_t group) noexcept {
    CORDMA_REQUIRE_OP(group, <, groups_.size());
    return groups_[group].members;
  }
  [[nodiscard]] std::uint32_t group_count() const noexcept {
    return static_cast<std::uint32_t>(groups_.size());
  }
  // Sends the packet to every member.
  time_point transmit_to_group(packet& p, std::uint32_t group) noexcept;

 private:
  struct event {
    time_point when;
    std::uint64_t order;
    packet* carried;  // null: an alarm
    endpoint_id whose;
    std::uint64_t token;
    std::uint8_t which;
  };
  struct later {
    [[nodiscard]] bool operator()(const event& a, const event& b) const noexcept {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };
  struct multicast {
    std::string name;
    std::vector<endpoint_id> members;
  };
  enum class fate : std::uint8_t { sent, lost, cut, overflow, dead, delivered };

  void push(event e) noexcept;
  void run_due() noexcept;
  void dispatch(event& e) noexcept;
  void drop(packet& p, fate f, std::uint64_t& counter) noexcept;
  void note(const packet& p, fate f) noexcept;
  [[nodiscard]] std::uint64_t backlog(const link& l, time_point now) const noexcept;
  void watch_peers_of(std::uint32_t index);

  network_options options_;
  reactor& home_;
  random random_;
  fault_counters faults_;
  protocol_counters counters_;
  std::uint64_t hash_ = 0;
  packet_pool pool_;
  std::vector<std::shared_ptr<host>> hosts_;
  std::deque<std::vector<link>> links_;  // [from][to]
  std::vector<multicast> groups_;
  std::vector<event> heap_;
  std::uint64_t order_ = 0;
  bool running_ = false;
  timer_of<&fabric::run_due> timer_{*this};
};

}  // namespace cordma::transport::sim
