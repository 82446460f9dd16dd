// Exports memory for remote writes; a receive reports each write, with 32 bits of immediate data.
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> lend(sample::session& s) {
  const sample::grants granted = sample::grant(s, cordma::access::remote_write);
  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes, granted.memory).value();
  s.lent = memory.export_blob().value();
  cordma::Endpoint requester = co_await sample::meet(s, granted.connection);

  // The notification consumes a receive but leaves its buffer unchanged, so it needs no buffer.
  co_await sample::time_to_receive(s, requester);
  const cordma::Received got = co_await requester.recv(cordma::Slice());

  // A message would also have consumed the receive. The opcode distinguishes them.
  if (got.op != cordma::transport::opcode::recv_write_imm) sample::fail("that was no write");
  const std::string text = sample::text_in(memory.bytes());
  sample::check_text(s, "written", text);
  std::printf("immediate: %u, about %zu bytes\n", got.imm, got.bytes);
  if (got.imm != s.given.immediate) sample::fail("expected another immediate");
  if (got.bytes != text.size() + 1) sample::fail("that is not the length of the text");
  co_await requester.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "write_imm_responder",
       .other = "write_imm_requester",
       .says = "Lends memory to the requester, which writes a text into it and says so.",
       .options = {sample::option::listen, sample::option::descriptor, sample::option::text,
                   sample::option::immediate, sample::option::withhold, sample::option::receive}},
      argc, argv, lend);
}
