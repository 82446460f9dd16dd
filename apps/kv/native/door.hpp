// The native door of one worker: cordma clients, their batches, and the maps that let them read by themselves.
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
  // Whether who shows this is admitted, asked at each hello; empty: `token` says.
  std::function<bool(std::string_view token)> admits = {};
  std::string token = {};  // empty: everybody is admitted
  bool one_sided = true;   // clients may read the shards' memory: all keys of all of it
  // How long a client that is connected may take to be admitted, asked when it comes; empty: usual_patience.
  std::function<cordma::duration()> patience = {};
};
inline constexpr cordma::duration usual_patience = std::chrono::seconds(10);

struct door_counters {
  relaxed_counter opened;  // connections
  relaxed_counter closed;
  relaxed_counter refused;    // for their token
  relaxed_counter timed_out;  // they were not admitted in time
  relaxed_counter batches;
  relaxed_counter operations;
  lending_counters lent;
};

// What the rest of the server has to say. All are called on the door's thread; empty ones say nothing.
struct door_hooks {
  std::function<unix_ms()> now = {};     // the time, as the shards are told it
  std::function<bool()> may_write = {};  // false: the journal is in trouble
  std::function<bool()> is_still = {};   // true: what has expired is not erased now (CLIENT PAUSE)
  // What would change anything has to wait, until until_room() is done: then it may go on, or may_write() says no.
  std::function<bool()> is_full = {};
  std::function<cordma::task<void>()> until_room = {};
  std::function<cordma::task<void>()> until_safe =
      {};  // what has been done, or seen, may be told afterwards
  std::function<std::string(std::string_view section)> information = {};  // as INFO has it
};

// Bound to the thread of its worker, like all it holds. Shards' memory has to come from `context`
// (shared_memory), where clients are to read it. A client that takes no answers keeps nobody else from theirs; it holds
// no more than its window of requests, each with a buffer, and one long request and one long response.
class door {
 public:
  door(cordma::Context& context, cordma::Worker& worker, keyspace& keys, door_options options,
       door_hooks hooks = {});
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  // A client that a listener of this worker has; others may be handed over. Until it leaves. `place` is let go once all
  // that the client held is given back.
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
  // Null: it has gone, or is not admitted.
  [[nodiscard]] static std::shared_ptr<visitor> from(const cordma::Request& request) noexcept;
  [[nodiscard]] static std::shared_ptr<visitor> admitted(const cordma::Request& request) noexcept;
  [[nodiscard]] hello_response greet(const kv::native::hello& said, visitor& who);
  [[nodiscard]] std::size_t write_map(const map_request& m, std::span<std::byte> into);
  // Carries the batch out, and answers.
  [[nodiscard]] cordma::task<void> respond(visitor* who, cordma::Request* request,
                                           std::span<const std::byte> batch);
  [[nodiscard]] cordma::task<lending::loan> room(visitor* who, std::size_t bytes);
  [[nodiscard]] std::size_t long_answer(std::span<const std::byte> batch) noexcept;
  // What would change anything has to wait. What is refused does not.
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
  // Two, so that who has some of the first may wait for some of the second.
  lending requests_in_;
  lending responses_;
  cordma::Messages messages_;
  cordma::Requests requests_;
};

}  // namespace kv::native
