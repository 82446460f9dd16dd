// connect_operation: connects to an address, or accepts a request, and yields an Endpoint.
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
  std::span<const std::byte> private_data;  // copied at construction; <= max_connect_data bytes
  // The connection carries tagged and active messages. The peer has to set this as well.
  Messages* messages = nullptr;
  // Use only this transport. Empty: the Context's first transport that reaches the peer.
  std::optional<transport::kind> transport;
};
static_assert(std::is_trivially_destructible_v<connect_options>);

// Resolves with the Endpoint. Errors:
//   invalid_value        bad address, or the private data is too long
//   unreachable          no listener; the message lists the attempts on each transport
//   not_supported        no permitted transport has the service endpoint.type, or plain peers
//   rejected             by the peer; the message contains the peer_data of the rejection
//   not_permitted        the peer's user is refused by the rules of this or the other side
//   connection_aborted   the peer does not use the protocol of cordma, or the listener was closed
//   connection_reset, timed_out, unsupported_version
//   no_memory            memory, descriptors or ports are exhausted; the message names the side
// On cancellation: withdrawn at once; fails with canceled. An accept has to use the service that
// the client requested: any other is invalid_value.
class [[nodiscard]] connect_operation final : public operation<connect_operation, Endpoint>,
                                              public detail::connection_attempt {
 public:
  connect_operation(detail::worker_core& worker, std::string to, const connect_options& options);
  // Accepts a request.
  connect_operation(detail::worker_core& worker, std::shared_ptr<detail::pending_request> request,
                    const connect_options& options);
  // Constructs an operation that fails with `why`.
  connect_operation(detail::worker_core* worker, failure why);
  connect_operation(connect_operation&& other) noexcept;
  ~connect_operation() override;

  // For the library: the new Endpoint replaces `unwired`, to which the queued messages belong.
  void connect_for(const detail::endpoint_core& unwired) noexcept { for_ = &unwired; }

  // Data that the peer sent with its rejection; empty otherwise. Valid after done().
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
  // Starts the next step. If memory for it is missing, the operation fails with no_memory.
  void advance() noexcept;
  void try_next();
  [[nodiscard]] bool admits(detail::adapter_poller& via);
  [[nodiscard]] cordma::result<endpoint_options> options_on(detail::adapter_poller& via);
  void watch(std::unique_ptr<transport::queue_pair> pair, detail::adapter_poller& via);
  void fail(failure why) noexcept;
  // True if the next transport is tried after this failure, false if the operation fails with it.
  [[nodiscard]] bool goes_on_after(errc code) const noexcept;
  [[nodiscard]] failure after_tried(failure why) const noexcept;
  // Records the outcome of one transport.
  void note(transport::kind k, errc code, std::string_view said);
  void drop_endpoint() noexcept;
  void do_accept();

  detail::worker_core* worker_;
  transport::address to_;
  connect_options options_;
  std::vector<std::byte> private_data_;
  std::shared_ptr<detail::pending_request> request_;  // set for an accept; null for a connect
  std::size_t next_adapter_ = 0;
  std::unique_ptr<detail::endpoint_core> endpoint_;
  const detail::endpoint_core* for_ = nullptr;
  // Result over all attempts: not_supported while each transport only lacked the service,
  // invalid_value once one cannot carry the requested options.
  errc outcome_ = errc::not_supported;
  std::string tried_;
  std::string reason_;
  std::vector<std::byte> rejection_;
};

}  // namespace cordma
