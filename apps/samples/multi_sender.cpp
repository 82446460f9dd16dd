// Sends a different message to each of many receivers at once.
#include "skeleton/sample.hpp"

#include <cordma/runtime/when_all.hpp>

#include <cstdio>

namespace {

cordma::task<void> send_one(cordma::Endpoint& receiver, cordma::Slice message,
                            std::uint32_t immediate) {
  co_await receiver.send_imm(message, immediate);
  co_await sample::peer_closes(receiver);
}

cordma::task<void> send(sample::session& s) {
  // From here on, all connections are alike, however they were established.
  std::vector<cordma::Endpoint> receivers = co_await sample::meet_all(s);
  const std::size_t count = receivers.size();

  // One region for all messages: registration is expensive, slicing is cheap.
  cordma::MemoryRegion memory = s.context.allocate(count * sample::region_bytes).value();
  std::vector<cordma::task<void>> sends;
  for (std::uint32_t i = 0; i < count; ++i) {
    const cordma::Slice room = memory.slice(i * sample::region_bytes, sample::region_bytes).value();
    const cordma::Slice message = sample::put_text(room, s.given.text + " to " + std::to_string(i));
    sends.push_back(send_one(receivers[i], message, s.given.immediate + i));
  }
  co_await cordma::when_all(std::move(sends));  // the first failure cancels the others
  std::printf("sent: %zu messages over %zu connections\n", count, count);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "multi_sender",
       .other = "multi_receiver",
       .says =
           "Sends a message of its own over each of several connections. A message_imm_receiver\n"
           "is a peer for one of them, multi_receiver for as many as there are.",
       .options = {sample::option::connect, sample::option::listen, sample::option::descriptor,
                   sample::option::connections, sample::option::text, sample::option::immediate}},
      argc, argv, send);
}
