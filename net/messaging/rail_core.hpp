// A further connection to the same peer, for long messages.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cordma::detail {

struct peer_core;

// By which rails go, and where a region has the keys for it.
struct rail_device {
  adapter_poller* via;
  std::size_t place;
};

// One more connection to a peer, on which parts of its long messages are read. Its end is no error.
struct rail_core final : link_owner {
  // Where it cannot be made there is no link.
  rail_core(peer_core& of, std::uint32_t number) noexcept;
  ~rail_core();
  rail_core(const rail_core&) = delete;
  rail_core& operator=(const rail_core&) = delete;

  [[nodiscard]] bool usable() const noexcept;
  // What the peer said of its side. connection_aborted, unsupported_version: that is no descriptor.
  [[nodiscard]] result<void> connect(std::span<const std::byte> peer_descriptor) noexcept;
  void close(const failure& why) noexcept;
  // The link has ended.
  void on_end() noexcept override;
  void on_pair_gone() noexcept override;
  [[nodiscard]] result<void> make(const transport::queue_pair_options& like);

  static constexpr std::uint32_t sends = 16;  // places in its send queue
  peer_core* peer;
  std::uint32_t device;
  std::unique_ptr<endpoint_core> link;
  std::vector<std::byte> descriptor;
  std::uint32_t free_sends = 0;
  std::uint64_t bytes = 0;      // that came by it
  std::uint64_t under_way = 0;  // bytes of reads that are posted on it
  bool heard = false;           // the peer's descriptor
  bool failed = false;          // a read
};

}  // namespace cordma::detail
