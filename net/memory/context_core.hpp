// What stands behind Context: the domains, in the order in which they are preferred.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/config.hpp>
#include <cordma/runtime/process.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cordma::detail {

using missing_transports = std::vector<std::pair<transport::kind, failure>>;
// "shm is left out: <why>; " of the transport asked for, or of all that this machine has and that could not be had all
// the same.
[[nodiscard]] std::string left_out(const missing_transports& missing,
                                   const std::optional<transport::kind>& only);

struct context_core {
  context_core() = default;
  ~context_core();
  // bad_state in a child of fork() that did not make it.
  [[nodiscard]] result<void> usable() const noexcept {
    if (process.inherited()) return made_before_fork();
    return {};
  }

  process_mark process;
  // Bytes that may be allocated before memory_left() is asked again.
  std::atomic<std::int64_t> unquestioned{0};
  std::vector<std::shared_ptr<transport::domain>> domains;
  // Further devices of some of those transports, for rails of messages and nothing else.
  std::vector<std::shared_ptr<transport::domain>> rail_domains;
  // Transports that were wanted and could not be had, with the reason.
  missing_transports missing;
  bool by_default = false;  // nobody asked for these transports by name
  std::vector<config_entry> configuration;
  std::vector<std::string> configuration_warnings;

  [[nodiscard]] transport::domain* find(transport::kind k) const noexcept {
    for (const auto& d : domains) {
      if (d->caps().transport == k) return d.get();
    }
    return nullptr;
  }
};

// Why there is no ibv_pd or ibv_mr to be had.
[[nodiscard]] failure no_native_handles();

// What Context::allocate() does, for those who hold the core only.
[[nodiscard]] result<MemoryRegion> allocate(const std::shared_ptr<context_core>& context,
                                            std::size_t bytes, access rights);

}  // namespace cordma::detail
