// The native door of one worker: cordma clients, their batches, and the maps that let them read by themselves.
#pragma once

#include "../command/counters.hpp"
#include "../command/keyspace.hpp"
#include "protocol.hpp"

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kv::native {

struct door_options {
  // Whether who shows this is admitted, asked at each hello; empty: `token` says.
  std::function<bool(std::string_view token)> admits = {};
  std::string token = {};  // empty: everybody is admitted
  bool one_sided = true;   // clients may read the shards' memory: all keys of all of it
};

struct door_counters {
  relaxed_counter opened;  // connections
  relaxed_counter closed;
  relaxed_counter refused;  // for their token
  relaxed_counter batches;
  relaxed_counter operations;
};

// What the rest of the server has to say. All are called on the door's thread; empty ones say nothing.
struct door_hooks {
  std::function<unix_ms()> now = {};     // the time, as the shards are told it
  std::function<bool()> may_write = {};  // false: the journal is in trouble
  std::function<cordma::task<void>()> until_safe =
      {};  // what has been done, or seen, may be told afterwards
};

// Bound to the thread of its worker, like all it holds. Shards' memory has to come from `context`
// (shared_memory), where clients are to read it.
class door {
 public:
  door(cordma::Context& context, cordma::Worker& worker, keyspace& keys, door_options options,
       door_hooks hooks = {});
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  // A client that a listener of this worker has; others may be handed over. Until it leaves.
  [[nodiscard]] cordma::task<void> serve(cordma::ConnectionRequest request);
  [[nodiscard]] const door_counters& counters() const noexcept { return counters_; }

 private:
  struct visitor {
    bool admitted = false;
  };
  [[nodiscard]] cordma::task<void> hello(cordma::Request request);
  [[nodiscard]] cordma::task<void> map(cordma::Request request);
  [[nodiscard]] cordma::task<void> batch(cordma::Request request);
  [[nodiscard]] bool admitted(const cordma::Request& request) const noexcept;
  [[nodiscard]] std::size_t write_map(const map_request& m, std::span<std::byte> into);
  [[nodiscard]] cordma::task<void> respond(cordma::Request& request,
                                           std::span<const std::byte> batch);
  [[nodiscard]] std::size_t long_answer(std::span<const std::byte> batch) noexcept;

  cordma::Context& context_;
  keyspace& keys_;
  door_options options_;
  door_hooks hooks_;
  door_counters counters_;
  // Two, so that who has one of the first may wait for one of the second.
  cordma::BufferPool requests_in_;
  cordma::BufferPool responses_;
  cordma::Messages messages_;
  cordma::Requests requests_;
};

}  // namespace kv::native
