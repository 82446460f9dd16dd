// connect_operation: from an address, or from a request, to an Endpoint.
#pragma once

#include <cordma/net/address.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/endpoint.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace cordma {

class Messages;

namespace detail {
class adapter_poller;
class worker_core;
class pending_request;
}  // namespace detail

struct connect_options {
  endpoint_options endpoint;
  std::span<const std::byte>
      private_data;  // copied when the operation is made; <= max_connect_data
  // The connection carries tagged and active messages; the peer has to be connected so as well.
  Messages* messages = nullptr;
  // Only this transport; empty: the first of the Context's that reaches the peer.
  std::optional<transport::kind> transport;
};
static_assert(std::is_trivially_destructible_v<connect_options>);

// Resolves with the Endpoint. Errors: invalid_value (address, private data too long), unreachable
// (nobody listens; the message lists what was tried on which transport), not_supported (no transport
// that may be used has the service endpoint.type, or plain peers), rejected (peer_data of the rejection in the
// message), not_permitted (of the peer's user, by its or this side's rules), connection_aborted (what answers is no
// cordma, or the listener is gone), connection_reset, timed_out, unsupported_version, no_memory (memory, descriptors
// or ports are exhausted on either side; the message says which). On cancellation: withdrawn at once, canceled.
// Accepting demands the service that the client asked for: any other is invalid_value.
class [[nodiscard]] connect_operation final : public operation<connect_operation, Endpoint>,
                                              public detail::connection_attempt {
 public:
  connect_operation(detail::worker_core& worker, std::string to, const connect_options& options);
  // Accepts a request.
  connect_operation(detail::worker_core& worker, std::shared_ptr<detail::pending_request> request,
                    const connect_options& options);
  // Refused before it began.
  connect_operation(detail::worker_core* worker, failure why);
  connect_operation(connect_operation&& other) noexcept;
  ~connect_operation() override;

  // For the library: its Endpoint's place is taken by that one, whose messages these are.
  void connect_for(const detail::endpoint_core& unwired) noexcept { for_ = &unwired; }

  // What the peer said when it rejected; empty otherwise. After done().
  [[nodiscard]] std::span<const std::byte> rejection() const noexcept { return rejection_; }

 private:
  template <class, class, class>
  friend class operation;

  void do_start() noexcept;
  void do_cancel() noexcept;
  Endpoint take() noexcept;

  void on_established() noexcept override;
  void on_failed(transport::cm_event event) noexcept override;
  void on_worker_gone() noexcept override;
  // The next step; without memory for it the operation fails with no_memory.
  void advance() noexcept;
  void try_next();
  [[nodiscard]] bool admits(detail::adapter_poller& via);
  [[nodiscard]] cordma::result<endpoint_options> options_on(detail::adapter_poller& via);
  void watch(std::unique_ptr<transport::queue_pair> pair, detail::adapter_poller& via);
  void fail(failure why) noexcept;
  // True if the next transport is tried after this failure, false if the operation fails with it.
  [[nodiscard]] bool goes_on_after(errc code) const noexcept;
  [[nodiscard]] failure after_tried(failure why) const noexcept;
  // What one transport said.
  void note(transport::kind k, errc code, std::string_view said);
  void drop_endpoint() noexcept;
  void do_accept();

  detail::worker_core* worker_;
  transport::address to_;
  connect_options options_;
  std::vector<std::byte> private_data_;
  std::shared_ptr<detail::pending_request> request_;  // where it accepts; null where it connects
  std::size_t next_adapter_ = 0;
  std::unique_ptr<detail::endpoint_core> endpoint_;
  const detail::endpoint_core* for_ = nullptr;
  // Of all that was tried: not_supported while each lacked the service alone, invalid_value once one
  // cannot carry what was asked for.
  errc outcome_ = errc::not_supported;
  std::string tried_;
  std::string reason_;
  std::vector<std::byte> rejection_;
};

}  // namespace cordma
