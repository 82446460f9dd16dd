// Datagram ports by address: rdma_cm's port space UDP reports the queue pair number and key of a
// port to other hosts.
#pragma once

#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cordma::transport::verbs {

// The directory of one port. Bound to the adapter's thread.
class port_directory {
 public:
  port_directory(verbs_adapter& home, verbs_pair& port) noexcept : home_(home), port_(port) {}
  ~port_directory();
  // See queue_pair.
  [[nodiscard]] result<address> bind(const address& where);
  [[nodiscard]] result<std::uint64_t> resolve(const address& to);
  void forget(std::uint64_t request) noexcept;
  // Handles rdma_cm's events for these identifiers, and requests for this port.
  void on_news(const cm_news& news) noexcept;

 private:
  struct lookup : timer {
    explicit lookup(port_directory& d) noexcept
        : timer([](timer& t) noexcept {
            auto& late = static_cast<lookup&>(t);
            late.owner.give_up(late);
          }),
          owner(d) {}
    port_directory& owner;
    std::uint64_t number = 0;
    std::string to;
    peer_addresses candidates;
    failure last{errc::unreachable};
    owned_id id;
    event_place place = reserve_event();
  };

  void answer(rdma_cm_id* who) noexcept;
  void follow(lookup& l, const cm_news& news);
  void try_next(lookup& l) noexcept;
  void next_or_fail(lookup& l, failure why) noexcept;
  void on_unreachable(lookup& l, int status);
  void give_up(lookup& l) noexcept;
  // Ends a lookup and reports its result.
  void tell(lookup& l, failure why, const datagram_peer& found) noexcept;

  verbs_adapter& home_;
  verbs_pair& port_;
  std::vector<owned_id> bound_;
  std::vector<std::unique_ptr<lookup>> lookups_;
  std::uint64_t last_number_ = 0;
};

}  // namespace cordma::transport::verbs
