// Uses another process's counter over a connection: sets it, reads it until it changes, sets it
// again.
#include "skeleton/sample.hpp"

#include <cinttypes>
#include <cstdio>

namespace {

constexpr std::uint64_t request = 0xD0CA;
constexpr std::uint64_t reply = 0xD0CB;
constexpr std::uint64_t goodbye = UINT64_MAX;

cordma::task<void> ask(sample::session& s) {
  cordma::Endpoint responder = co_await sample::meet(s);
  cordma::RemoteSyncEvent counter = cordma::RemoteSyncEvent::import(s.context, s.borrowed).value();
  counter.start(responder).value();
  co_await counter.set(request);

  // A requester is not notified: it polls as often as it needs.
  std::uint64_t seen = request;
  while (seen == request) seen = co_await counter.get();
  std::printf("answered: 0x%" PRIX64 "\n", seen);
  if (seen != reply) sample::fail("that is no answer");

  co_await counter.set(goodbye);
  co_await sample::peer_closes(responder);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "sync_event_requester",
       .other = "sync_event_responder",
       .says = "Sets the responder's counter, reads it until it is answered, and sets it again.",
       .options = {sample::option::connect, sample::option::descriptor}},
      argc, argv, ask);
}
