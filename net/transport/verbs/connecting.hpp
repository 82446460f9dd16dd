// The state of a connection before it is established: identifiers of rdma_cm, requests, addresses.
#pragma once

#include <cordma/net/transport/verbs/verbs_domain.hpp>
#include <cordma/net/transport/verbs/wire.hpp>

#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace cordma::transport::verbs {

class verbs_listener;

struct cm_releaser {
  void operator()(rdma_cm_id* id) const noexcept { rdma_destroy_id(id); }
  void operator()(rdma_event_channel* c) const noexcept { rdma_destroy_event_channel(c); }
};
using owned_id = std::unique_ptr<rdma_cm_id, cm_releaser>;
using owned_channel = std::unique_ptr<rdma_event_channel, cm_releaser>;
// Errors: not_permitted (/dev/infiniband/rdma_cm is closed to this user), no_memory, and other
// errors of the system.
[[nodiscard]] result<owned_channel> open_channel();

// The owner of an rdma_cm_id. The id's context stores it as a number, never a pointer: an event for
// a destroyed owner is dropped.
struct cm_token {
  enum class kind : std::uint8_t { none, pair, request, listener };
  kind what = kind::none;
  std::uint64_t number = 0;  // 60 bits
  [[nodiscard]] void* packed() const noexcept {
    CORDMA_REQUIRE_OP(number >> 60, ==, 0U);
    return reinterpret_cast<void*>((std::uint64_t{static_cast<std::uint8_t>(what)} << 60) | number);
  }
  [[nodiscard]] static cm_token of(const rdma_cm_id* id) noexcept {
    const auto value = reinterpret_cast<std::uint64_t>(id->context);
    return {static_cast<kind>(value >> 60), value & ((std::uint64_t{1} << 60) - 1)};
  }
};

static_assert(sizeof(void*) == sizeof(std::uint64_t), "a token is packed into a pointer");
static_assert(static_cast<unsigned>(cm_token::kind::listener) < (1U << 4));

// Reads and atomics in flight: those of this side that the peer answers, and those of the peer.
struct read_depths {
  std::uint32_t ours = 0;
  std::uint32_t theirs = 0;
};

// An event of rdma_cm, copied so that it can be acknowledged before it is handled.
struct cm_news {
  rdma_cm_event_type what = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  std::uint32_t peer_pair = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  // For a resolved datagram port; its number is in peer_pair.
  ibv_ah_attr path{};
  std::uint32_t qkey = 0;
  private_data data;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {data.bytes.data(), data.length};
  }
  // True if no neighbour answered in time for its address.
  [[nodiscard]] bool is_unheard_address() const noexcept {
    return what == RDMA_CM_EVENT_ADDR_ERROR && status == -ETIMEDOUT;
  }
  [[nodiscard]] read_depths reads() const noexcept {
    return {.ours = initiator_depth, .theirs = responder_resources};
  }
};

[[nodiscard]] cm_news copy_of(const rdma_cm_event& event) noexcept;

// A client without an answer yet.
struct incoming {
  std::uint64_t number = 0;
  owned_id id;
  verbs_listener* from = nullptr;  // null: handed over, or adopted
  peer_kind kind = peer_kind::cordma;
  hello theirs;  // of peer_kind::cordma only
  std::uint32_t peer_pair = 0;
  read_depths reads;
  std::string peer;
};

class socket_address {
 public:
  socket_address() noexcept = default;
  // REQUIRES at most sizeof(sockaddr_storage) bytes.
  socket_address(const void* address, socklen_t length) noexcept : length_(length) {
    CORDMA_REQUIRE_OP(length, <=, sizeof storage_);
    std::memcpy(&storage_, address, length);
  }
  [[nodiscard]] bool operator==(const socket_address& other) const noexcept {
    return length_ == other.length_ && std::memcmp(&storage_, &other.storage_, length_) == 0;
  }
  [[nodiscard]] bool empty() const noexcept { return length_ == 0; }
  // librdmacm takes parameters that it only reads without const.
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};
// Returns every address of a name, in order of preference. An empty host: any address to listen on,
// this host to connect to. unreachable, with host and reason in the message; no_memory: no
// descriptor is left, as below.
[[nodiscard]] result<std::vector<socket_address>> resolve(const address& a, bool passive);
// The addresses of a peer that may still reach it, tried in rotation.
class peer_addresses {
 public:
  explicit peer_addresses(std::vector<socket_address> all = {}) noexcept : left_(std::move(all)) {}
  // Null: none is left. Valid until the next call.
  [[nodiscard]] const socket_address* current() const noexcept {
    return left_.empty() ? nullptr : &left_[at_];
  }
  // Removes the current address, which does not reach the peer. REQUIRES one.
  void drop() noexcept;
  // Moves past the current address, which timed out. It stays in the list, after the others.
  // REQUIRES one.
  void pass_by() noexcept {
    CORDMA_REQUIRE_OP(left_.size(), >, 0U);
    at_ = (at_ + 1) % left_.size();
  }

 private:
  std::vector<socket_address> left_;
  std::size_t at_ = 0;
};
// Numeric; a link-local address with its interface: "fe80::1%eth0".
[[nodiscard]] std::string host_of(const sockaddr* a);
[[nodiscard]] std::string to_text(const sockaddr* a);
[[nodiscard]] std::uint16_t port_of(const sockaddr* a) noexcept;
// unreachable, or no_memory.
[[nodiscard]] failure no_device_leads_to(const std::string& peer, int told);
// Requests the device and the path to `to` from rdma_cm, starting at the GID of the settings. The
// event has this token; ADDR_ERROR with ETIMEDOUT after address_patience. unreachable.
[[nodiscard]] result<owned_id> resolve_address(rdma_event_channel* cm, const verbs_domain& domain,
                                               const cm_token& token, rdma_port_space space,
                                               const socket_address& to);
// The next step. unreachable: also if the path uses another device than the domain's.
[[nodiscard]] result<void> resolve_route(rdma_cm_id* id, const verbs_domain& domain,
                                         const std::string& peer, duration patience);
// Listens on every address of the name that an RDMA device has, all with one port; the result is
// never empty. in_use, unreachable.
[[nodiscard]] result<std::vector<owned_id>> listen_at(rdma_event_channel* cm, const cm_token& token,
                                                      rdma_port_space space, const address& where,
                                                      const listening& how);
// True if the identifier uses the domain's device and port.
[[nodiscard]] bool leads_by(const rdma_cm_id* id, const device& own) noexcept;
// The address of a GID, to bind to.
[[nodiscard]] socket_address to_address(const ibv_gid_entry& own) noexcept;

}  // namespace cordma::transport::verbs
