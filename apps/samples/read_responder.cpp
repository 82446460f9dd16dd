// Exports memory for remote reads. Its program does nothing during the reads.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> lend(sample::session& s) {
  // remote_read must be granted on the memory and on the connection.
  const sample::grants granted = sample::grant(s, cordma::access::remote_read);
  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes, granted.memory).value();
  sample::put_text(memory, s.given.text);

  // Any program that has the blob can access the memory, so it is sent only to the peer that
  // connects.
  s.lent = memory.export_blob().value();
  cordma::Endpoint requester = co_await sample::meet(s, granted.connection);

  // A remote read has no completion here, and the program is not notified. The memory must remain
  // valid until the requester has closed the connection.
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
