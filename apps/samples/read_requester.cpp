// Reads memory of another process, whose program takes no part in it.
#include "skeleton/sample.hpp"

namespace {

cordma::task<void> read(sample::session& s) {
  cordma::Endpoint responder = co_await sample::meet(s);
  // A blob describes the memory and carries the right to use it. It came with the connection, and is
  // checked when it is imported.
  const cordma::RemoteMemory theirs = cordma::RemoteMemory::import(s.borrowed).value();

  // Where it lands needs no right for others: it is not exported.
  cordma::MemoryRegion mine = s.context.allocate(theirs.size()).value();
  co_await responder.read(theirs, mine);
  sample::check_text(s, "read", sample::text_in(mine.bytes()));

  // The responder cannot know that anything was read, unless it is told: here, by closing.
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
