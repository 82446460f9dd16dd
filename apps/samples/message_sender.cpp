// Sends one message.
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> send(sample::session& s) {
  // If a message arrives before its receive is posted, rnr_retry decides whether it is retried or
  // fails.
  cordma::endpoint_options terms;
  terms.rnr_retry = s.given.rnr_retry;
  cordma::Endpoint receiver = co_await sample::meet(s, terms);

  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes).value();
  const cordma::Slice message = sample::put_text(memory, s.given.text);
  std::printf("sending: \"%s\"\n", s.given.text.c_str());
  co_await receiver.send(message);

  // The memory can be reused now. The receiver confirms the arrival of the correct message by
  // closing the connection.
  co_await sample::peer_closes(receiver);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "message_sender",
       .other = "message_receiver",
       .says = "Sends a text to the receiver, in one message.",
       .options = {sample::option::connect, sample::option::listen, sample::option::descriptor,
                   sample::option::text, sample::option::rnr_retry}},
      argc, argv, send);
}
