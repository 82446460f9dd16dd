// Sends one message with 32 bits of immediate data.
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> send(sample::session& s) {
  cordma::endpoint_options terms;
  terms.rnr_retry = s.given.rnr_retry;
  cordma::Endpoint receiver = co_await sample::meet(s, terms);

  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes).value();
  const cordma::Slice message = sample::put_text(memory, s.given.text);
  // The immediate takes no space in the message and none in the receive. It is in host byte order
  // on both sides, independent of the byte order on the wire.
  std::printf("sending: \"%s\", immediate %u\n", s.given.text.c_str(), s.given.immediate);
  co_await receiver.send_imm(message, s.given.immediate);
  co_await sample::peer_closes(receiver);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "message_imm_sender",
       .other = "message_imm_receiver",
       .says = "Sends a text and 32 bits beside it to the receiver, in one message.",
       .options = {sample::option::connect, sample::option::listen, sample::option::descriptor,
                   sample::option::text, sample::option::immediate, sample::option::rnr_retry}},
      argc, argv, send);
}
