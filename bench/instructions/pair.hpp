// Two sides with a Context and a Worker each, as two processes would have them, connected and turned by one
// thread.
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
  cordma::RemoteSlice peer;  // what the other side offers
  cordma::Endpoint endpoint;
  cordma::Stream stream;
  // Active messages: how many are still to come here, and that none is.
  int to_come = 0;
  cordma::event all_came;

  // So many bytes to send from, and to receive into.
  [[nodiscard]] cordma::Slice out(std::size_t bytes) const;
  [[nodiscard]] cordma::Slice in(std::size_t bytes) const;
};

// Bound to one thread. Throws cordma::error where it cannot be had, and what its tasks throw.
class pair {
 public:
  // Both Workers wait as `waiting` says.
  pair(cordma::transport::kind over, carries what,
       cordma::wait_mode waiting = cordma::wait_mode::polling);
  // The same, with a Context of these options each.
  pair(const cordma::context_options& near_options, const cordma::context_options& far_options,
       carries what, cordma::wait_mode waiting = cordma::wait_mode::polling);

  side near;
  side far;

  // Both to their ends. Polling, the sides are turned one after the other; else each is turned when its wait
  // has ended, until it sleeps again, as a foreign loop does it. Throws std::runtime_error where both sleep and
  // nobody is woken.
  void play(cordma::task<> of_near, cordma::task<> of_far);
};

}  // namespace instructions
