// Waits for a counter that a peer sets over a connection, sets the counter itself, and waits again.
#include "skeleton/sample.hpp"

#include <cordma/runtime/when_any.hpp>

#include <cinttypes>
#include <cstdio>

namespace {

constexpr std::uint64_t request = 0xD0CA;
constexpr std::uint64_t reply = 0xD0CB;
constexpr std::uint64_t goodbye = UINT64_MAX;

void show(std::uint64_t counter) { std::printf("counter: 0x%" PRIX64 "\n", counter); }

cordma::task<void> converse(cordma::SyncEvent* counter) {
  const std::uint64_t asked = co_await counter->wait_gt(request - 1);
  show(asked);
  co_await counter->set(reply);
  show(reply);
  const std::uint64_t last = co_await counter->wait_gt(goodbye - 1);
  show(last);
}

cordma::task<void> lend(sample::session& s) {
  const sample::grants granted = sample::grant(s, cordma::access::remote_write);
  const bool may_set = granted.memory == cordma::access::remote_write;
  cordma::sync_event_options who;
  who.publisher = may_set ? cordma::sync_location::remote : cordma::sync_location::cpu;
  who.subscriber = cordma::sync_location::remote;
  cordma::SyncEvent counter(s.context, who);
  counter.start(s.worker).value();
  s.lent = counter.export_remote().value();
  cordma::endpoint_options terms;
  if (granted.connection.remote_access != cordma::access::remote_write) terms = granted.connection;
  cordma::Endpoint requester = co_await sample::meet(s, terms);

  // The requester's changes arrive with a notification, which listen() receives.
  const auto first = co_await cordma::when_any(converse(&counter), counter.listen(requester));
  if (first.index != 0) sample::fail("the requester left before it had said goodbye");
  co_await requester.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "sync_event_responder",
       .other = "sync_event_requester",
       .says = "Waits for a counter that the requester sets, answers by setting it, and waits for "
               "goodbye.",
       .options = {sample::option::listen, sample::option::descriptor, sample::option::withhold}},
      argc, argv, lend);
}
