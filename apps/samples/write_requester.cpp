// Writes to the memory of another process, and notifies it afterwards.
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> write(sample::session& s) {
  cordma::Endpoint responder = co_await sample::meet(s);
  const cordma::RemoteMemory theirs = cordma::RemoteMemory::import(s.borrowed).value();

  cordma::MemoryRegion mine = s.context.allocate(sample::region_bytes).value();
  const cordma::Slice text = sample::put_text(mine, s.given.text);
  const cordma::RemoteSlice place = theirs.slice(0, text.size()).value();
  co_await responder.write(place, text);

  // Completion of the write means that `mine` can be reused. After flush() the text is also visible
  // to the responder's program, but the program is not notified: this takes a message, or a person.
  co_await responder.flush();
  std::printf("written: \"%s\"\n", s.given.text.c_str());
  if (s.given.done == "message") {
    co_await responder.send(cordma::Slice());
  } else {
    std::printf("now press Enter where the responder runs\n");
    std::fflush(stdout);
  }
  co_await sample::peer_closes(responder);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run({.name = "write_requester",
                      .other = "write_responder",
                      .says = "Writes a text into the responder's memory, by one one-sided write.",
                      .options = {sample::option::connect, sample::option::descriptor,
                                  sample::option::text, sample::option::done}},
                     argc, argv, write);
}
