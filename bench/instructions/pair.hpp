// Two sides with a Context and a Worker each, as in two processes, connected and run by one thread.
#pragma once

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/event.hpp>

#include <optional>

namespace instructions {

enum class carries : std::uint8_t { plain, messages, stream };

struct side {
  side(const cordma::context_options& options, cordma::wait_mode waiting);

  cordma::Context context;
  cordma::Worker worker;
  std::optional<cordma::Messages> messages;
  cordma::MemoryRegion memory;  // `out` and `in`
  cordma::MemoryRegion offered;
  cordma::RemoteSlice peer;  // memory offered by the other side
  cordma::Endpoint endpoint;
  cordma::Stream stream;
  // Active messages: the number still to arrive on this side, and an event set when none is left.
  int to_come = 0;
  cordma::event all_came;

  // Memory of this size to send from, and to receive into.
  [[nodiscard]] cordma::Slice out(std::size_t bytes) const;
  [[nodiscard]] cordma::Slice in(std::size_t bytes) const;
};

// Bound to one thread. Throws cordma::error if it cannot be created, and the exceptions of its
// tasks.
class pair {
 public:
  // Both Workers wait by `waiting`.
  pair(cordma::transport::kind over, carries what,
       cordma::wait_mode waiting = cordma::wait_mode::polling);
  // As above, with a Context with these options for each side.
  pair(const cordma::context_options& near_options, const cordma::context_options& far_options,
       carries what, cordma::wait_mode waiting = cordma::wait_mode::polling);

  side near;
  side far;

  // Runs both tasks to their ends. In polling mode the sides run passes alternately; otherwise each
  // runs when its wait has ended, until it sleeps again, as with a foreign loop. Throws
  // std::runtime_error if both sleep and neither is woken.
  void play(cordma::task<> of_near, cordma::task<> of_far);
};

}  // namespace instructions
