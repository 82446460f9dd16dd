// Implementation of Requests: handlers, calls and requests of all connections.
#pragma once

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/rpc/asked.hpp>
#include <cordma/net/rpc/held_request.hpp>
#include <cordma/net/rpc/record_pool.hpp>
#include <cordma/net/rpc/request_peer.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cordma::detail {

class request_core {
 public:
  request_core(Messages& of, const request_options& o);
  ~request_core();

  // Null: no memory.
  [[nodiscard]] request_peer* peer_on(peer_core& below) noexcept;
  // As peer_on(), for messages of the peer; without memory, its connection ends.
  [[nodiscard]] request_peer* met_by(peer_core& below) noexcept;
  [[nodiscard]] asked* take_asked() noexcept;
  [[nodiscard]] held_request* take_held() noexcept;
  void release(asked& a) noexcept { calls_.put_back(a); }
  void release(held_request& h) noexcept { held_.put_back(h); }
  // Null: there is no such record.
  [[nodiscard]] asked* asked_at(std::uint32_t index) const noexcept { return calls_.find(index); }

  [[nodiscard]] bool is_of(const message_core& m) const noexcept { return messages_ == &m; }
  [[nodiscard]] reactor& home() const noexcept { return *home_; }
  [[nodiscard]] const request_options& options() const noexcept { return options_; }
  [[nodiscard]] request_counters& counters() noexcept { return counters_; }
  void serve(std::uint16_t method, request_handler handler);
  // Null if no handler serves the method.
  [[nodiscard]] const std::shared_ptr<const request_handler>* handler_of(
      std::uint16_t method) const noexcept {
    const auto found = handlers_.find(method);
    return found == handlers_.end() ? nullptr : &found->second;
  }
  // Tasks of handlers.
  [[nodiscard]] scope& tasks() noexcept { return tasks_; }

 private:
  void reap() noexcept;

  message_core* messages_;
  reactor* home_;
  request_options options_;
  request_counters counters_;
  std::unordered_map<std::uint16_t, std::shared_ptr<const request_handler>> handlers_;
  record_pool<asked> calls_;
  record_pool<held_request> held_;
  std::vector<std::unique_ptr<request_peer>> peers_;
  scope tasks_;
};

inline reactor& held_request::home() const noexcept { return core_->home(); }

// The reason why a slice that is not host memory of the Endpoint's Context cannot be used in a
// call. REQUIRES that it is not empty.
[[nodiscard]] failure not_of_requests(const Slice& s, const endpoint_core& on);

}  // namespace cordma::detail
