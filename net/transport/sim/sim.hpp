// A network in one process: hosts, links and faults on one reactor, in virtual time. Queue pairs
// behave packet by packet as those of an RDMA NIC do. One seed decides everything random, so that
// every run can be repeated. README.md shows a test that uses it.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace cordma::transport::sim {

// One direction between two hosts. Probabilities are per packet, 0 ... 1.
struct link_options {
  duration delay = std::chrono::microseconds(5);
  duration jitter{0};                 // 0 ... this is added; does not reorder
  std::uint64_t bits_per_second = 0;  // 0: packets take no time to send
  std::uint64_t queue_bytes = 0;      // more than this waiting to be sent is dropped; 0: no limit
  double loss = 0;
  double duplicate = 0;  // the copy arrives up to reorder_delay later
  double reorder = 0;    // the packet is held back up to reorder_delay, others overtake it
  duration reorder_delay = std::chrono::microseconds(50);
};

struct network_options {
  std::uint64_t seed = 1;
  std::uint32_t mtu = 1024;  // payload bytes per packet, 256 ... 4096
  // of every pair of hosts until set_link(); a host reaches itself without faults
  link_options link{};
  std::uint32_t max_queue_pairs = 4096;  // per adapter; then connecting fails with `full`
  // Probability that queue_pair::put() finds no free entry, 0 ... 1.
  double refused_puts = 0;
  // True: one poll returns completions and all events, also later ones, as devices do. False: each
  // is returned in its order.
  bool events_with_completions = false;
};

// Faults that were injected: printed by tests, to show that they tested something.
struct fault_counters {
  std::uint64_t delayed = 0;  // packets that jitter delayed
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t partitioned = 0;    // packets dropped by a cut link
  std::uint64_t overflowed = 0;     // packets dropped at queue_bytes
  std::uint64_t to_dead_hosts = 0;  // packets from or to a host that was killed
  std::uint64_t stalls = 0;
  std::uint64_t kills = 0;
  std::uint64_t full_adapters = 0;  // queue pairs refused at max_queue_pairs
  std::uint64_t failed_allocations = 0;
  std::uint64_t failed_requests = 0;
  std::uint64_t corrupted_completions = 0;
  std::uint64_t refused_puts = 0;
  // "lost 12, duplicated 3, ...": the counters that are not zero.
  [[nodiscard]] std::string text() const;
};

// Reactions of the protocols to faults.
struct protocol_counters {
  std::uint64_t packets = 0;        // passed to links
  std::uint64_t retransmitted = 0;  // RC packets sent again
  std::uint64_t timeouts = 0;       // RC retransmissions started by the timer
  std::uint64_t sequence_naks = 0;
  std::uint64_t rnr_naks = 0;          // messages that found no receive
  std::uint64_t replayed_atomics = 0;  // answered from memory, not executed again
  std::uint64_t duplicates = 0;        // repeated packets, dropped
  std::uint64_t uc_dropped = 0;        // UC messages that were not delivered
  std::uint64_t ud_no_receive = 0;     // datagrams that found no receive, or one too small
  std::uint64_t ud_wrong_qkey = 0;
  std::uint64_t ud_too_long = 0;  // datagrams longer than the path allows
  std::uint64_t stray = 0;        // packets for a queue pair that does not exist
};

class fabric;

// Bound to the thread of its reactor, which must outlive it. Domains keep the network alive. A host
// is created when it is first named. REQUIRES for all calls: host names that were passed to
// make_domain() or add_host().
class network {
 public:
  network(const network_options& options, reactor& home);
  network(const network&) = delete;
  network& operator=(const network&) = delete;
  ~network();

  // The RDMA device of a host, the same for every call until the host is killed.
  [[nodiscard]] std::shared_ptr<domain> make_domain(std::string_view host);
  // Creates a host, before it is first used. The path MTU is the smaller one of both ends.
  void add_host(std::string_view host, std::uint32_t mtu);

  // Sets the rate that the port of the host's device reports in its capabilities, in megabits per
  // second; rails are shared by it. 0, the initial value: unknown. It does not change the links.
  void set_rate(std::string_view host, std::uint64_t megabits_per_second);

  void set_link(std::string_view from, std::string_view to, const link_options& options);
  // Every link between different hosts, including later ones.
  void set_links(const link_options& options);
  [[nodiscard]] link_options link(std::string_view from, std::string_view to) const;

  // Drops everything from one to the other. Peers notice by their timeouts.
  void cut(std::string_view from, std::string_view to);
  void partition(std::string_view a, std::string_view b);  // both ways
  void isolate(std::string_view host);                     // from every other host
  void heal(std::string_view a, std::string_view b);       // both ways
  void heal_all();

  // The host does nothing for this time: it receives and sends no packet and reports no completion.
  void stall(std::string_view host, duration how_long);
  // Everything on the host ends without a goodbye: peers notice only by their timeouts. Its own
  // requests are flushed, so that its coroutines can end; nothing they do reaches the network.
  void kill(std::string_view host);
  // Creates a new host of this name, with nothing on it: call make_domain() again. REQUIRES that it
  // was killed.
  void revive(std::string_view host);
  [[nodiscard]] bool alive(std::string_view host) const;

  // The n-th registration, open, listen, connect, accept or create of the host from now on (1 = the
  // next) fails with no_memory. 0: none.
  void fail_allocation(std::string_view host, std::uint32_t n);
  // The n-th send, write, read or atomic posted from now on (1 = the next), including puts, is not
  // carried out and fails with `status` when it is first in the queue; on UC and RC that ends the
  // connection.
  void fail_request(std::string_view host, std::uint32_t n, wc_status status);
  void fail_request(queue_pair& pair, std::uint32_t n, wc_status status);
  // The n-th completion returned on the host from now on carries an id that was never posted.
  void corrupt_completion(std::string_view host, std::uint32_t n);

  [[nodiscard]] std::uint64_t seed() const noexcept;
  [[nodiscard]] const fault_counters& faults() const noexcept;
  [[nodiscard]] const protocol_counters& counters() const noexcept;
  // Hash of every packet event so far, with its time and fate: equal in two runs of one seed.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept;

 private:
  std::shared_ptr<fabric> fabric_;
};

}  // namespace cordma::transport::sim
