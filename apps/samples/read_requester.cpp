// Reads memory of another process, without any action of its program.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> read(sample::session& s) {
  cordma::Endpoint responder = co_await sample::meet(s);
  // A blob describes the memory and grants access to it. It arrived with the connection, and
  // import() validates it.
  const cordma::RemoteMemory theirs = cordma::RemoteMemory::import(s.borrowed).value();

  // The local buffer needs no remote access rights, because it is not exported.
  cordma::MemoryRegion mine = s.context.allocate(theirs.size()).value();
  co_await responder.read(theirs, mine);
  sample::check_text(s, "read", sample::text_in(mine.bytes()));

  // The responder is not notified of reads. Closing the connection signals that all reads are done.
  co_await responder.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "read_requester",
       .other = "read_responder",
       .says = "Reads a text out of the responder's memory, by one one-sided read.",
       .options = {sample::option::connect, sample::option::descriptor, sample::option::text}},
      argc, argv, read);
}
