// Implementation of Context: the domains, in the order of preference.
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
// Returns "shm is left out: <why>; " for the requested transport, or for all transports of this
// machine that could not be opened.
[[nodiscard]] std::string left_out(const missing_transports& missing,
                                   const std::optional<transport::kind>& only);

struct context_core {
  context_core() = default;
  ~context_core();
  // bad_state in a child of fork(), if the parent created it.
  [[nodiscard]] result<void> usable() const noexcept {
    if (process.inherited()) return made_before_fork();
    return {};
  }

  process_mark process;
  // Bytes that may be allocated before memory_left() is called again.
  std::atomic<std::int64_t> unquestioned{0};
  std::vector<std::shared_ptr<transport::domain>> domains;
  // Further devices of some of those transports, only for rails of messages.
  std::vector<std::shared_ptr<transport::domain>> rail_domains;
  // Requested transports that could not be opened, with the reason.
  missing_transports missing;
  bool by_default = false;  // the program did not name these transports
  std::vector<config_entry> configuration;
  std::vector<std::string> configuration_warnings;

  [[nodiscard]] transport::domain* find(transport::kind k) const noexcept {
    for (const auto& d : domains) {
      if (d->caps().transport == k) return d.get();
    }
    return nullptr;
  }
};

// The reason why no ibv_pd or ibv_mr exists.
[[nodiscard]] failure no_native_handles();

// As Context::allocate(), for code that has only the core.
[[nodiscard]] result<MemoryRegion> allocate(const std::shared_ptr<context_core>& context,
                                            std::size_t bytes, access rights);

}  // namespace cordma::detail
