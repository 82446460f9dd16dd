// Receives one message.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> receive(sample::session& s) {
  cordma::MemoryRegion room = s.context.allocate(sample::region_bytes).value();
  cordma::Endpoint sender = co_await sample::meet(s);

  // The receiver chooses the memory; each message completes one receive and is received completely.
  co_await sample::time_to_receive(s, sender);
  const cordma::Received got = co_await sender.recv(room);
  if (got.has_imm) sample::fail("that came with an immediate, and was to come without");
  sample::check_text(s, "received", sample::text_in(room.bytes().first(got.bytes)));
  co_await sender.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "message_receiver",
       .other = "message_sender",
       .says = "Receives a text from the sender, in one message.",
       .options = {sample::option::listen, sample::option::connect, sample::option::descriptor,
                   sample::option::text, sample::option::receive}},
      argc, argv, receive);
}
