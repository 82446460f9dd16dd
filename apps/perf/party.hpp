// One side of a run: its flows, the connections that they go over, and the memory of all of them.
#pragma once

#include "control.hpp"
#include "lane.hpp"

#include <cordma/runtime/task.hpp>

#include <memory>
#include <string>
#include <vector>

namespace perf {

// What the queues are to hold, as far as every transport that may be chosen has it; the rest waits its
// turn. What the plan asks for in so many words is asked for as it is.
[[nodiscard]] greeting greeting_for(const cordma::Context& context, const plan& p);
[[nodiscard]] cordma::endpoint_options options_for(const cordma::Context& context,
                                                   const greeting& g);

// Bound to the Worker's thread. A plain flow goes over the connection that the two sides talk by; all
// others have connections of their own, which the client makes.
class party {
 public:
  // Throws cordma::error (no_memory). `control` outlives it.
  party(cordma::Context& context, cordma::Worker& worker, cordma::Endpoint& control, const plan& p);
  party(const party&) = delete;
  party& operator=(const party&) = delete;

  [[nodiscard]] std::vector<std::byte> blob() const { return region_.export_blob().value(); }
  // Takes the peer's memory from its blob. Throws cordma::error.
  void attach(std::span<const std::byte> blob);

  // The server's: where the client is to connect to; 0: nowhere. Throws cordma::error.
  [[nodiscard]] std::uint16_t listen();
  // Done when all connections are made.
  [[nodiscard]] cordma::task<void> accept();
  // The client's.
  [[nodiscard]] cordma::task<void> connect(std::string server, std::uint16_t port);

  // What a side does with each of its flows, all at the same time.
  using part = cordma::task<void> (*)(lane&, std::uint64_t);
  [[nodiscard]] cordma::task<void> run(part each, std::uint64_t count);
  // At once; whoever waits learns of it.
  void abort() noexcept;

  [[nodiscard]] cordma::Context& context() noexcept { return context_; }
  [[nodiscard]] cordma::Worker& worker() noexcept { return worker_; }
  [[nodiscard]] std::uint64_t wrong() const noexcept;

  const plan what;
  std::vector<std::unique_ptr<lane>> lanes;

 private:
  // The first flow that has a connection of its own.
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
