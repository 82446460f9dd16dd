// An additional connection to the same peer, for rendezvous messages.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/messaging/read_load.hpp>
#include <cordma/net/messaging/send_places.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cordma::detail {

class peer_core;

// The device of a rail, and the index of its keys in a region.
struct rail_device {
  adapter_poller* via;
  std::size_t place;
};

// An additional connection to a peer, over which parts of its rendezvous messages are read. Its end
// is not an error.
class rail_core final : public link_owner {
 public:
  // If the connection cannot be created, link() is null.
  rail_core(peer_core& of, std::uint32_t number) noexcept;
  ~rail_core();
  rail_core(const rail_core&) = delete;
  rail_core& operator=(const rail_core&) = delete;

  [[nodiscard]] endpoint_core* link() const noexcept { return link_.get(); }
  // Index into the devices of the frame_port.
  [[nodiscard]] std::uint32_t device() const noexcept { return device_; }
  // Empty if it cannot be created.
  [[nodiscard]] const std::vector<std::byte>& descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] send_places& places() noexcept { return places_; }
  [[nodiscard]] read_load& load() noexcept { return load_; }
  [[nodiscard]] bool usable() const noexcept;
  // A read has failed: no more reads are posted.
  void on_read_failed() noexcept { failed_ = true; }
  // Connects to the peer's descriptor. Errors: connection_aborted, unsupported_version if it is
  // invalid.
  [[nodiscard]] result<void> connect(std::span<const std::byte> peer_descriptor) noexcept;
  void close(const failure& why) noexcept;
  // The link has ended.
  void on_end() noexcept override;
  void on_pair_gone() noexcept override;

 private:
  static constexpr std::uint32_t sends = 16;  // entries of its send queue
  [[nodiscard]] result<void> make(const transport::queue_pair_options& like);

  peer_core* peer_;
  std::uint32_t device_;
  std::unique_ptr<endpoint_core> link_;
  std::vector<std::byte> descriptor_;
  send_places places_;
  read_load load_;
  bool heard_ = false;   // the peer's descriptor has arrived
  bool failed_ = false;  // a read has failed
};

}  // namespace cordma::detail
