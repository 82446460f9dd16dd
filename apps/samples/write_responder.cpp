// Exports memory for remote writes, and reads it when it is notified.
#include "skeleton/sample.hpp"

#include <cordma/runtime/sleep.hpp>

#include <chrono>
#include <cstdio>

#include <poll.h>
#include <unistd.h>

namespace {

// Standard input may be anything, even a file, so it is polled at intervals while the loop runs.
cordma::task<void> enter(cordma::Endpoint& requester) {
  for (char key = 0; key != '\n';) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, 0) > 0) {
      if (::read(STDIN_FILENO, &key, 1) < 1) sample::fail("standard input ended before Enter came");
      continue;
    }
    if (requester.state() == cordma::endpoint_state::closed) {
      co_await sample::peer_closes(requester);
      sample::fail("the requester closed before Enter came");
    }
    co_await cordma::sleep_for(std::chrono::milliseconds(20));
  }
}

cordma::task<void> lend(sample::session& s) {
  const sample::grants granted = sample::grant(s, cordma::access::remote_write);
  cordma::MemoryRegion memory = s.context.allocate(sample::region_bytes, granted.memory).value();
  s.lent = memory.export_blob().value();
  cordma::Endpoint requester = co_await sample::meet(s, granted.connection);

  // The memory may contain nothing, a part of the text, or all of it: a write does not notify this
  // side.
  std::printf("so far, not to be trusted: \"%s\"\n", sample::text_in(memory.bytes()).c_str());
  std::fflush(stdout);
  if (s.given.done == "message") {
    co_await requester.recv(cordma::Slice());  // the message is empty
  } else {
    co_await enter(requester);
  }
  sample::check_text(s, "written", sample::text_in(memory.bytes()));
  co_await requester.close();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "write_responder",
       .other = "write_requester",
       .says = "Lends memory to the requester, which writes a text into it.",
       .options = {sample::option::listen, sample::option::descriptor, sample::option::text,
                   sample::option::done, sample::option::withhold}},
      argc, argv, lend);
}
