// typed_endpoint: an Endpoint with its service as a template parameter; unsupported calls do not
// compile.
#pragma once

#include <cordma/net/endpoint.hpp>

#include <utility>

namespace cordma {

// Operations of each service in the InfiniBand specification. Connected services only: a datagram
// port is a DatagramEndpoint.
template <transport::service S, transport::opcode Op>
concept carries = S == transport::service::rc ||
                  (S == transport::service::uc &&
                   (Op == transport::opcode::send || Op == transport::opcode::send_imm ||
                    Op == transport::opcode::write || Op == transport::opcode::write_imm ||
                    Op == transport::opcode::recv));

// The calls of Endpoint; those that S does not carry do not compile. Operations that the transport
// lacks still fail with not_supported at run time. Threading, buffers and errors are those of
// Endpoint.
template <transport::service S>
  requires(S != transport::service::ud)
class typed_endpoint {
  using opcode = transport::opcode;

 public:
  // Errors: invalid_value if `any` is of another service; `any` is then unchanged.
  [[nodiscard]] static result<typed_endpoint> from(Endpoint&& any) {
    if (any.actual().type != S) {
      return failure{errc::invalid_value,
                     "the endpoint is of service " + std::string(name(any.actual().type))};
    }
    return typed_endpoint(std::move(any));
  }
  // The untyped Endpoint, with the calls that every service has, and those of S.
  [[nodiscard]] Endpoint& erased() noexcept { return any_; }

  template <class... Args>
    requires carries<S, opcode::send>
  send_operation send(Args&&... args) noexcept {
    return any_.send(std::forward<Args>(args)...);
  }
  template <class... Args>
    requires carries<S, opcode::send_imm>
  send_operation send_imm(Args&&... args) noexcept {
    return any_.send_imm(std::forward<Args>(args)...);
  }
  template <class Into>
    requires carries<S, opcode::recv>
  auto recv(Into&& into) noexcept {
    return any_.recv(std::forward<Into>(into));
  }
  template <class Local>
    requires carries<S, opcode::write>
  send_operation write(const RemoteSlice& to, const Local& data) noexcept {
    return any_.write(to, data);
  }
  template <class... Args>
    requires carries<S, opcode::write_imm>
  send_operation write_imm(Args&&... args) noexcept {
    return any_.write_imm(std::forward<Args>(args)...);
  }
  template <class Local>
    requires carries<S, opcode::read>
  send_operation read(const RemoteSlice& from, const Local& into) noexcept {
    return any_.read(from, into);
  }
  atomic_operation fetch_add(const RemoteSlice& word, std::uint64_t addend) noexcept
    requires carries<S, opcode::fetch_add>
  {
    return any_.fetch_add(word, addend);
  }
  atomic_operation compare_swap(const RemoteSlice& word, std::uint64_t expected,
                                std::uint64_t desired) noexcept
    requires carries<S, opcode::compare_swap>
  {
    return any_.compare_swap(word, expected, desired);
  }
  bind_operation bind(const MemoryRegion& region, std::size_t offset, std::size_t length,
                      access rights) noexcept
    requires carries<S, opcode::bind>
  {
    return any_.bind(region, offset, length, rights);
  }
  template <class Local>
    requires carries<S, opcode::send_invalidate>
  send_operation send_invalidate(const Local& message, const RemoteSlice& window) noexcept {
    return any_.send_invalidate(message, window);
  }
  send_operation flush() noexcept
    requires carries<S, opcode::flush>
  {
    return any_.flush();
  }

 private:
  explicit typed_endpoint(Endpoint&& any) noexcept : any_(std::move(any)) {}
  Endpoint any_;
};

static_assert(carries<transport::service::rc, transport::opcode::fetch_add>);
static_assert(!carries<transport::service::uc, transport::opcode::fetch_add>);
static_assert(!carries<transport::service::uc, transport::opcode::read>);
static_assert(sizeof(typed_endpoint<transport::service::rc>) == sizeof(Endpoint));

using rc_endpoint = typed_endpoint<transport::service::rc>;
using uc_endpoint = typed_endpoint<transport::service::uc>;

}  // namespace cordma
