// Lends memory to be read. Its program does nothing while that happens.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> lend(sample::session& s) {
  // remote_read is granted on the memory, and on the connection: both are needed.
  const sample::grants granted = sample::grant(s, cordma::access::remote_read);
  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes, granted.memory).value();
  sample::put_text(memory, s.given.text);

  // Whoever has the blob can use the memory: it goes to the one peer that connects, and nowhere else.
  s.lent = memory.export_blob().value();
  cordma::Endpoint requester = co_await sample::meet(s, granted.connection);

  // No operation, no completion: memory that is read tells nobody. The memory has to stay until the
  // requester has closed.
  co_await sample::peer_closes(requester);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run({.name = "read_responder",
                      .other = "read_requester",
                      .says = "Lends memory with a text in it to the requester, which reads it.",
                      .options = {sample::option::listen, sample::option::descriptor,
                                  sample::option::text, sample::option::withhold}},
                     argc, argv, lend);
}
