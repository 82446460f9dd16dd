// The native door of one worker: its cordma clients, their batches, and the maps for their
// one-sided reads.
#pragma once

#include "../keyspace/counters.hpp"
#include "../keyspace/keyspace.hpp"
#include "lending.hpp"
#include "protocol.hpp"

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kv::native {

struct door_options {
  // True if a client with this token is admitted, called at each hello; empty: compares with
  // `token`.
  std::function<bool(std::string_view token)> admits = {};
  std::string token = {};  // empty: admits all clients
  bool one_sided = true;   // clients may read the shards' memory, with all keys in it
  // Time for a connected client to be admitted, called when it connects; empty: usual_patience.
  std::function<cordma::duration()> patience = {};
};
inline constexpr cordma::duration usual_patience = std::chrono::seconds(10);

struct door_counters {
  relaxed_counter opened;  // connections
  relaxed_counter closed;
  relaxed_counter refused;    // for a wrong token
  relaxed_counter timed_out;  // not admitted in time
  relaxed_counter batches;
  relaxed_counter operations;
  lending_counters lent;
};

// Hooks into the rest of the server, called on the door's thread; each may be empty.
struct door_hooks {
  std::function<unix_ms()> now = {};     // the time for the shards
  std::function<bool()> may_write = {};  // false: the journal is in trouble
  std::function<bool()> is_still = {};   // true: expired keys are not erased now (CLIENT PAUSE)
  // True: changes have to wait until until_room() completes. Then they may proceed, or may_write()
  // returns false.
  std::function<bool()> is_full = {};
  std::function<cordma::task<void>()> until_room = {};
  std::function<cordma::task<void>()> until_safe =
      {};  // completes once operations and values so far may be reported
  std::function<std::string(std::string_view section)> information = {};  // text of INFO
};

// Bound to the thread of its worker, like all its members. The shards' memory must come from
// `context` (shared_memory) if clients are to read it. A client that does not take its responses
// does not block those of others. It holds at most its window of requests, each with a buffer, and
// one long request and one long response.
class door {
 public:
  door(cordma::Context& context, cordma::Worker& worker, keyspace& keys, door_options options,
       door_hooks hooks = {});
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  // Serves a client of a listener of this worker, or one handed over by another, until it
  // disconnects. `place` is released once the client's memory is returned.
  [[nodiscard]] cordma::task<void> serve(cordma::ConnectionRequest request,
                                         std::shared_ptr<const void> place = nullptr);
  [[nodiscard]] const door_counters& counters() const noexcept { return counters_; }

 private:
  struct visitor;
  struct patience;
  [[nodiscard]] cordma::task<void> hello(cordma::Request request);
  [[nodiscard]] cordma::task<void> map(cordma::Request request);
  [[nodiscard]] cordma::task<void> batch(cordma::Request request);
  [[nodiscard]] cordma::task<void> info(cordma::Request request);
  [[nodiscard]] cordma::task<void> scan(cordma::Request request);
  // Returns null if the client has disconnected, or is not admitted.
  [[nodiscard]] static std::shared_ptr<visitor> from(const cordma::Request& request) noexcept;
  [[nodiscard]] static std::shared_ptr<visitor> admitted(const cordma::Request& request) noexcept;
  [[nodiscard]] hello_response greet(const kv::native::hello& said, visitor& who);
  [[nodiscard]] std::size_t write_map(const map_request& m, std::span<std::byte> into);
  // Runs the batch and responds.
  [[nodiscard]] cordma::task<void> respond(visitor* who, cordma::Request* request,
                                           std::span<const std::byte> batch);
  [[nodiscard]] cordma::task<lending::loan> room(visitor* who, std::size_t bytes);
  [[nodiscard]] std::size_t long_answer(std::span<const std::byte> batch) noexcept;
  // True if changes have to wait. Changes that will be refused do not.
  [[nodiscard]] bool is_full() const {
    return hooks_.is_full && hooks_.is_full() && (!hooks_.may_write || hooks_.may_write());
  }
  [[nodiscard]] unix_ms now() const { return hooks_.now ? hooks_.now() : 0; }

  cordma::reactor& loop_;
  keyspace& keys_;
  door_options options_;
  door_hooks hooks_;
  door_counters counters_;
  long_memory longer_;
  // Separate, so that a client may hold memory of the first while it waits for the second.
  lending requests_in_;
  lending responses_;
  cordma::Messages messages_;
  cordma::Requests requests_;
};

}  // namespace kv::native
