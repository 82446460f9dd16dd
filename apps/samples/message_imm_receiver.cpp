// Receives one message with 32 bits of immediate data.
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> receive(sample::session& s) {
  cordma::MemoryRegion room = s.context.allocate(sample::region_bytes).value();
  cordma::Endpoint sender = co_await sample::meet(s);
  co_await sample::time_to_receive(s, sender);
  const cordma::Received got = co_await sender.recv(room);

  // Other possible completions: a message without an immediate, and a write with one.
  if (got.op != cordma::transport::opcode::recv) sample::fail("that was no message");
  if (!got.has_imm) sample::fail("that came without an immediate");
  sample::check_text(s, "received", sample::text_in(room.bytes().first(got.bytes)));
  std::printf("immediate: %u\n", got.imm);
  if (got.imm != s.given.immediate) sample::fail("expected another immediate");
  co_await sender.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "message_imm_receiver",
       .other = "message_imm_sender",
       .says = "Receives a text and 32 bits beside it from the sender.",
       .options = {sample::option::listen, sample::option::connect, sample::option::descriptor,
                   sample::option::text, sample::option::immediate, sample::option::receive}},
      argc, argv, receive);
}
