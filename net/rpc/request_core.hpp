// What stands behind Requests: handlers, calls and requests of all connections.
#pragma once

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/asked.hpp>
#include <cordma/net/rpc/held_request.hpp>
#include <cordma/net/rpc/request_peer.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cordma::detail {

struct request_core {
  request_core(Messages& of, const request_options& o);
  ~request_core();

  // Null: no memory.
  [[nodiscard]] request_peer* peer_on(peer_core& below) noexcept;
  // The same for what the peer has begun, whose connection ends where there is no memory.
  [[nodiscard]] request_peer* met_by(peer_core& below) noexcept;
  [[nodiscard]] asked* take_asked() noexcept;
  [[nodiscard]] held_request* take_held() noexcept;
  void release(asked& a) noexcept;
  void release(held_request& h) noexcept;
  void reap() noexcept;

  message_core* messages;
  reactor* home;
  request_options options;
  request_counters counters;
  std::unordered_map<std::uint16_t, std::shared_ptr<const request_handler>> handlers;
  std::vector<std::unique_ptr<asked>> all_asked;  // by index
  std::vector<std::unique_ptr<held_request>> all_held;
  asked* free_asked = nullptr;
  held_request* free_held = nullptr;
  std::vector<std::unique_ptr<request_peer>> peers;
  scope tasks;
};

// Why a slice that is no host memory of the Endpoint's Context can be no part of a call. REQUIRES that it
// is not empty.
[[nodiscard]] failure not_of_requests(const Slice& s, const endpoint_core& on);

}  // namespace cordma::detail
