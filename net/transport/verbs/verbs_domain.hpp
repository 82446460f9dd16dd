// A device, its protection domain and the memory registered with it.
#pragma once

#include <cordma/net/transport/in_transit.hpp>
#include <cordma/net/transport/verbs/async_event.hpp>
#include <cordma/net/transport/verbs/device.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cordma::transport::verbs {

class verbs_adapter;
struct incoming;

// no_memory: the limit of locked memory is the cause; the message names it and the remedy.
[[nodiscard]] failure cannot_register(int code, std::size_t bytes);

// Thread-safe.
class verbs_domain final : public domain, public std::enable_shared_from_this<verbs_domain> {
 public:
  verbs_domain(device d, owned_or_borrowed<ibv_pd> pd, const verbs_options& options);
  ~verbs_domain() override;

  [[nodiscard]] const capabilities& caps() const noexcept override { return caps_; }
  [[nodiscard]] std::string own_host() const override;
  result<memory_keys> register_memory(const memory_range& range) override;
  void deregister_memory(std::uint32_t lkey) noexcept override;
  [[nodiscard]] ibv_pd* native_pd() const noexcept override { return pd_.get(); }
  [[nodiscard]] ibv_mr* native_mr(std::uint32_t lkey) noexcept override;
  [[nodiscard]] result<void> require(std::string_view extra) const override;
  result<std::unique_ptr<adapter>> open(reactor& home) override;
  [[nodiscard]] bool leave_to_parent() noexcept override;

  [[nodiscard]] const device& hardware() const noexcept { return device_; }
  [[nodiscard]] ibv_context* context() const noexcept { return device_.context.get(); }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_.get(); }
  [[nodiscard]] const verbs_options& options() const noexcept { return options_; }
  // Chooses by the options from the port's current GIDs.
  [[nodiscard]] std::optional<ibv_gid_entry> choose_gid(const gid_bytes* like) const;
  // Reason why choose_gid() found none, on Ethernet, where every path needs one.
  [[nodiscard]] failure no_gid() const;
  [[nodiscard]] bool has_gid(const gid_bytes& gid) const noexcept;
  // Returns the granted options, or the error in them.
  [[nodiscard]] result<queue_pair_options> grant(const queue_pair_options& asked) const;

  // Each device has one descriptor for asynchronous events. The adapter that finds it readable
  // reads it, and forwards the events to all adapters concerned. On a borrowed device the program
  // reads them.
  [[nodiscard]] bool reads_async_events() const noexcept { return caps_.tells_device_events; }
  void enter(verbs_adapter& a);
  void leave(verbs_adapter& a) noexcept;
  void read_async_events() noexcept;

  [[nodiscard]] in_transit<incoming>& requests() noexcept { return requests_; }

 private:
  // Called after a change that the device reported, or before each look if the program reads the
  // events.
  void reload_gids() const noexcept;

  device device_;
  owned_or_borrowed<ibv_pd> pd_;
  verbs_options options_;
  capabilities caps_;
  mutable std::mutex gid_mutex_;
  mutable std::vector<ibv_gid_entry> gids_;  // GIDs of the port, updated by reload_gids()
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, owned<ibv_mr>> regions_;  // by lkey
  std::vector<verbs_adapter*> adapters_;
  bool left_to_parent_ = false;
  in_transit<incoming> requests_;
};

}  // namespace cordma::transport::verbs
