// Writes to the memory of another process and notifies it in the same operation.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> write(sample::session& s) {
  // The number of retries while the responder has posted no receive is an option of the connection.
  cordma::endpoint_options terms;
  terms.rnr_retry = s.given.rnr_retry;
  cordma::Endpoint responder = co_await sample::meet(s, terms);
  const cordma::RemoteMemory theirs = cordma::RemoteMemory::import(s.borrowed).value();

  cordma::MemoryRegion mine = s.context.allocate(sample::region_bytes).value();
  const cordma::Slice text = sample::put_text(mine, s.given.text);
  const cordma::RemoteSlice place = theirs.slice(0, text.size()).value();
  co_await responder.write_imm(place, text, s.given.immediate);
  co_await sample::peer_closes(responder);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "write_imm_requester",
       .other = "write_imm_responder",
       .says = "Writes a text into the responder's memory, with 32 bits that consume a receive.",
       .options = {sample::option::connect, sample::option::descriptor, sample::option::text,
                   sample::option::immediate, sample::option::rnr_retry}},
      argc, argv, write);
}
