// One side of a run: its flows, their connections, and the memory of all of them.
#pragma once

#include "control.hpp"
#include "lane.hpp"

#include <cordma/runtime/task.hpp>

#include <memory>
#include <string>
#include <vector>

namespace perf {

// Depth of the queues, limited to the smallest maximum of the selectable transports; further
// operations wait. A depth that the plan states explicitly is used unchanged.
[[nodiscard]] greeting greeting_for(const cordma::Context& context, const plan& p);
[[nodiscard]] cordma::endpoint_options options_for(const cordma::Context& context,
                                                   const greeting& g);

// Bound to the Worker's thread. A plain flow uses the control connection; all others have separate
// connections, which the client opens.
class party {
 public:
  // Throws cordma::error (no_memory). `control` must outlive it.
  party(cordma::Context& context, cordma::Worker& worker, cordma::Endpoint& control, const plan& p);
  party(const party&) = delete;
  party& operator=(const party&) = delete;

  [[nodiscard]] std::vector<std::byte> blob() const { return region_.export_blob().value(); }
  // Imports the peer's memory from its blob. Throws cordma::error.
  void attach(std::span<const std::byte> blob);

  // Server only: returns the port that the client is to connect to; 0: none. Throws cordma::error.
  [[nodiscard]] std::uint16_t listen();
  // Completes when all connections are established.
  [[nodiscard]] cordma::task<void> accept();
  // Client only.
  [[nodiscard]] cordma::task<void> connect(std::string server, std::uint16_t port);

  // Runs a function for each flow, all concurrently.
  using part = cordma::task<void> (*)(lane&, std::uint64_t);
  [[nodiscard]] cordma::task<void> run(part each, std::uint64_t count);
  // Aborts all connections immediately; waiting coroutines resume with an error.
  void abort() noexcept;

  [[nodiscard]] cordma::Context& context() noexcept { return context_; }
  [[nodiscard]] cordma::Worker& worker() noexcept { return worker_; }
  [[nodiscard]] std::uint64_t wrong() const noexcept;

  const plan what;
  std::vector<std::unique_ptr<lane>> lanes;

 private:
  // The first flow with a separate connection.
  [[nodiscard]] std::uint32_t first_own() const noexcept;
  [[nodiscard]] cordma::connect_options options(lane& l);
  [[nodiscard]] cordma::task<void> use(std::uint32_t flow, cordma::Endpoint made);

  cordma::Context& context_;
  cordma::Worker& worker_;
  cordma::Endpoint& control_;
  cordma::MemoryRegion region_;
  cordma::Listener listener_;
};

}  // namespace perf
