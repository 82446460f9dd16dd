// A further connection to the same peer, for long messages.
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

// By which rails go, and where a region has the keys for it.
struct rail_device {
  adapter_poller* via;
  std::size_t place;
};

// One more connection to a peer, on which parts of its long messages are read. Its end is no error.
class rail_core final : public link_owner {
 public:
  // Where it cannot be made there is no link.
  rail_core(peer_core& of, std::uint32_t number) noexcept;
  ~rail_core();
  rail_core(const rail_core&) = delete;
  rail_core& operator=(const rail_core&) = delete;

  [[nodiscard]] endpoint_core* link() const noexcept { return link_.get(); }
  // By its place among those of the frame_port.
  [[nodiscard]] std::uint32_t device() const noexcept { return device_; }
  // Empty: it cannot be made.
  [[nodiscard]] const std::vector<std::byte>& descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] send_places& places() noexcept { return places_; }
  [[nodiscard]] read_load& load() noexcept { return load_; }
  [[nodiscard]] bool usable() const noexcept;
  // A read has failed: there are no more.
  void on_read_failed() noexcept { failed_ = true; }
  // What the peer said of its side. connection_aborted, unsupported_version: that is no descriptor.
  [[nodiscard]] result<void> connect(std::span<const std::byte> peer_descriptor) noexcept;
  void close(const failure& why) noexcept;
  // The link has ended.
  void on_end() noexcept override;
  void on_pair_gone() noexcept override;

 private:
  static constexpr std::uint32_t sends = 16;  // places in its send queue
  [[nodiscard]] result<void> make(const transport::queue_pair_options& like);

  peer_core* peer_;
  std::uint32_t device_;
  std::unique_ptr<endpoint_core> link_;
  std::vector<std::byte> descriptor_;
  send_places places_;
  read_load load_;
  bool heard_ = false;   // the peer's descriptor
  bool failed_ = false;  // a read
};

}  // namespace cordma::detail
