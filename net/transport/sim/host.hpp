// One life of one host: its memory, its queue pairs, and its connection manager.
#pragma once

#include <cordma/net/transport/region_table.hpp>
#include <cordma/net/transport/sim/packet.hpp>

#include <deque>
#include <unordered_map>

namespace cordma::transport::sim {

class fabric;
class sim_pair;
class sim_adapter;
class sim_listener;

// Bound to the reactor's thread, except the region table and charge().
class host {
 public:
  host(fabric& net, std::string name, std::uint32_t index, std::uint32_t instance,
       std::uint32_t mtu, time_point last_death);
  host(const host&) = delete;
  host& operator=(const host&) = delete;

  [[nodiscard]] fabric& net() noexcept { return net_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] std::uint32_t instance() const noexcept { return instance_; }
  [[nodiscard]] std::uint32_t mtu() const noexcept { return caps_.max_datagram; }
  [[nodiscard]] const capabilities& caps() const noexcept { return caps_; }
  void set_rate(std::uint64_t megabits_per_second) noexcept { caps_.rate = megabits_per_second; }
  [[nodiscard]] endpoint_id id(std::uint32_t number = 0) const noexcept {
    return {index_, instance_, number};
  }
  [[nodiscard]] region_table& regions() noexcept { return regions_; }
  // The domain passed to the caller; null if none lives.
  [[nodiscard]] std::shared_ptr<domain> handed_out() const noexcept { return domain_.lock(); }
  void hand_out(const std::shared_ptr<domain>& d) noexcept { domain_ = d; }

  // ---- faults ----
  [[nodiscard]] bool alive() const noexcept { return alive_; }
  void die();
  // The last time a host of this name was killed.
  [[nodiscard]] time_point died_at() const noexcept { return died_at_; }
  [[nodiscard]] bool stalled(time_point now) const noexcept { return now < stalled_until_; }
  [[nodiscard]] time_point stalled_since() const noexcept { return stalled_since_; }
  [[nodiscard]] time_point stalled_until() const noexcept { return stalled_until_; }
  void stall(time_point now, duration how_long) noexcept {
    if (!stalled(now)) stalled_since_ = now;
    stalled_until_ = std::max(stalled_until_, now + how_long);
  }
  // Makes the n-th allocation from now on fail; 0: none.
  void fail_allocation(std::uint32_t n) noexcept {
    allocations_left_.store(n, std::memory_order_relaxed);
  }
  void fail_request(std::uint32_t n, wc_status status) noexcept {
    requests_left_ = n;
    request_status_ = status;
  }
  void corrupt_completion(std::uint32_t n) noexcept { completions_left_ = n; }
  // Called for every call that needs memory: no_memory if a failure was requested, shutdown on a
  // dead host.
  [[nodiscard]] result<void> charge() noexcept;
  // Called for every request: changes `status` if it is to fail.
  void charge_request(wc_status& status) noexcept {
    if (requests_left_ != 0 && --requests_left_ == 0) status = request_status_;
  }
  // Called for every completion: true if it is to be corrupted.
  [[nodiscard]] bool charge_completion() noexcept {
    return completions_left_ != 0 && --completions_left_ == 0;
  }

  // ---- queue pairs ----
  static constexpr std::uint32_t slot_bits =
      14;  // of a queue pair number; the rest distinguishes lives
  [[nodiscard]] sim_pair* find(std::uint32_t number) noexcept;
  static constexpr std::size_t most_pairs = std::size_t{1} << slot_bits;
  static_assert(slot_bits < 32, "a number has bits left for the life of its slot");
  [[nodiscard]] bool has_slot() const noexcept {
    return !free_slots_.empty() || slots_.size() < most_pairs;
  }
  // Returns its number. REQUIRES has_slot().
  [[nodiscard]] std::uint32_t add(sim_pair& p);
  void remove(std::uint32_t number) noexcept;
  template <class Visit>
  void for_each_pair(Visit visit) {
    for (const slot& s : slots_) {
      if (s.held != nullptr) visit(*s.held);
    }
  }

  // ---- input from the network ----
  void receive(const packet& p) noexcept;
  void on_alarm(std::uint64_t token) noexcept;  // of a goodbye

  // ---- connection manager ----
  // A connect that waits for an answer, or the record of one that was answered: packets may be
  // repeated.
  struct request {
    enum class state : std::uint8_t { waiting, accepted, refused };
    state is = state::waiting;
    endpoint_id client;
    handshake theirs;
    sim_adapter* owner = nullptr;
    sim_listener* from = nullptr;
    errc why = errc::ok;
    std::vector<std::byte> answer;  // private data of the refusal
  };
  [[nodiscard]] request* find_request(std::uint64_t id) noexcept;
  void refuse(std::uint64_t id, errc why, std::span<const std::byte> data);
  void refuse_all(const sim_listener* from, const sim_adapter* owner);
  void answered(std::uint64_t id);

  // Takes a free port if `wanted` is 0. in_use.
  [[nodiscard]] result<std::uint16_t> take_port(std::uint16_t wanted);
  void open_port(sim_listener& l);
  void free_port(std::uint16_t port) noexcept;

  // Notifies the peer until it answers, whether or not the queue pair still exists.
  struct goodbye {
    std::uint64_t token = 0;
    endpoint_id self;
    endpoint_id peer;
    handshake what;
    time_point until{};
    duration every{};
  };
  void say_goodbye(const endpoint_id& self, const endpoint_id& peer, const handshake& what,
                   duration patience) noexcept;
  void send_control(packet_kind kind, const endpoint_id& from, const endpoint_id& to,
                    const handshake& what, std::span<const std::byte> data = {}) noexcept;

 private:
  struct slot {
    sim_pair* held = nullptr;
    std::uint32_t life = 0;
  };
  static constexpr std::size_t most_remembered_requests = 65536;
  static constexpr std::uint16_t first_free_port = 49152;

  void on_connect(const packet& p);
  void on_bye(const packet& p);
  void on_bye_ack(const packet& p) noexcept;
  void send_goodbye(const goodbye& g) noexcept;

  fabric& net_;
  std::string name_;
  std::uint32_t index_;
  std::uint32_t instance_;
  capabilities caps_;
  region_table regions_;
  std::weak_ptr<domain> domain_;
  bool alive_ = true;
  time_point stalled_since_ = never;
  time_point stalled_until_{};
  time_point died_at_;
  std::atomic<std::uint32_t> allocations_left_{0};  // until one fails; 0: none will
  std::uint32_t requests_left_ = 0;
  wc_status request_status_ = wc_status::success;
  std::uint32_t completions_left_ = 0;
  std::vector<slot> slots_;
  std::deque<std::uint32_t> free_slots_;
  std::unordered_map<std::uint16_t, sim_listener*> listeners_;
  std::uint16_t next_port_ = first_free_port;
  std::unordered_map<std::uint64_t, request> requests_;
  std::deque<std::uint64_t> answered_;
  std::vector<goodbye> goodbyes_;
  std::uint64_t next_token_ = 1;
};

// Port in the address of the side that did not listen.
[[nodiscard]] constexpr std::uint16_t client_port(std::uint32_t number) noexcept {
  return static_cast<std::uint16_t>(32768 + number % 16384);
}

// A request is identified by the queue pair of the client.
[[nodiscard]] constexpr std::uint64_t request_id(const endpoint_id& client) noexcept {
  return (std::uint64_t{client.host} << 48) ^ (std::uint64_t{client.instance} << 32) ^
         client.number;
}

}  // namespace cordma::transport::sim
